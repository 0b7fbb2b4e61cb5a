package org.apache.spark.sql.saltwise.window

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.saltwise.plan.StateFields
import org.apache.spark.sql.types.{DataType, IntegerType}

/**
 * Partitions rows by ranges of an order. Spark's own RangePartitioning computes its input twice;
 * here the cuts are known. Spark's exchange accepts only Spark's own partitionings, so this is a
 * HashPartitioning whose partition id is not Spark's hash, and which satisfies nothing.
 *
 * @param slice a [[SliceOfRow]]
 */
final class SlicePartitioning(slice: Expression, n: Int) extends HashPartitioning(Nil, n) {
  override def children: Seq[Expression] = Seq(slice)
  override def partitionIdExpression: Expression = slice
  override def satisfies0(required: Distribution): Boolean = required == UnspecifiedDistribution
  override protected def withNewChildrenInternal(c: IndexedSeq[Expression]): SlicePartitioning =
    new SlicePartitioning(c.head, n)

  override def canEqual(other: Any): Boolean = other.isInstanceOf[SlicePartitioning]
  override def equals(other: Any): Boolean = other match {
    case that: SlicePartitioning => that.numPartitions == n && that.children == children
    case _ => false
  }
  override def hashCode(): Int = 31 * slice.hashCode + n
  override def toString: String = s"slices($slice, $n)"
}

/**
 * The slice of a row: how many cuts are not behind it.
 *
 * @param cuts the cuts that [[OrderCuts]] found, the same for every row
 */
final case class SliceOfRow(
    order: Seq[Expression],
    directions: Seq[(SortDirection, NullOrdering)],
    cuts: Expression,
    n: Int,
    carried: Carried,
    read: Seq[Expression],
    sent: OfTasks[Seq[SentSlice]])
  extends CountsSlices with CodegenFallback {

  @transient private lazy val project = UnsafeProjection.create(order)
  @transient private lazy val ranges = RangesOfOrder(
    directions, order.map(_.dataType),
    OrderSample.read(cuts.eval().asInstanceOf[Array[Byte]]).map(_._2))

  override def children: Seq[Expression] = order ++ read :+ cuts
  override def nullable: Boolean = false
  override def dataType: DataType = IntegerType

  override def eval(row: InternalRow): Any = {
    val slice = ranges.of(project(row))
    count(slice, row)
    slice
  }

  override def toString: String = order.mkString(", ")

  override protected def withNewChildrenInternal(c: IndexedSeq[Expression]): SliceOfRow =
    copy(order = c.take(order.length), read = c.slice(order.length, c.length - 1), cuts = c.last)
}

object SliceOfRow {
  def apply(
      order: Seq[SortOrder],
      cuts: Expression,
      n: Int,
      carried: Carried,
      sent: OfTasks[Seq[SentSlice]]): SliceOfRow =
    SliceOfRow(
      order.map(_.child), OrderCuts.directions(order), cuts, n, carried, carried.read, sent)
}

/** Ranges of an order, each of which but the first begins at a value. */
private[window] final class RangesOfOrder(
    begins: Array[UnsafeRow], ordering: Ordering[InternalRow]) {

  /** The number of the range that a value is in. */
  def of(value: InternalRow): Int = {
    var (low, high) = (0, begins.length)
    while (low < high) {
      val middle = (low + high) >>> 1
      if (ordering.compare(begins(middle), value) <= 0) low = middle + 1 else high = middle
    }
    low
  }
}

private[window] object RangesOfOrder {
  def apply(
      directions: Seq[(SortDirection, NullOrdering)],
      types: Seq[DataType],
      begins: Seq[Array[Byte]]): RangesOfOrder =
    new RangesOfOrder(
      begins.map(StateFields.row(_, types.length)).toArray, OrderCuts.ordering(directions, types))
}
