package org.apache.spark.sql.saltwise.window

import org.apache.spark.TaskContext
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
 * The slice of a row: how many cuts are not behind it. It also counts what the task sends to each.
 *
 * @param cuts the cuts that [[OrderCuts]] found, the same for every row
 * @param read the columns that the aggregates read
 */
final case class SliceOfRow(
    order: Seq[Expression],
    directions: Seq[(SortDirection, NullOrdering)],
    cuts: Expression,
    n: Int,
    carried: Carried,
    read: Seq[Expression],
    sent: SlicesSent)
  extends Expression with CodegenFallback {

  @transient private lazy val ofTask = {
    val slices = new SlicesOfTask(n, carried, carried.read)
    val context = TaskContext.get()
    context.addTaskCompletionListener[Unit](_ => sent.add((context.partitionId(), slices.all)))
    slices
  }

  @transient private lazy val argumentsOf = UnsafeProjection.create(read)
  @transient private lazy val project = UnsafeProjection.create(order)
  @transient private lazy val ordering = OrderCuts.ordering(directions, order.map(_.dataType))
  @transient private lazy val begins = OrderSample.read(cuts.eval().asInstanceOf[Array[Byte]])
    .map { case (_, bytes) => StateFields.row(bytes, order.length) }.toArray

  override def children: Seq[Expression] = order ++ read :+ cuts
  override def nullable: Boolean = false
  override def dataType: DataType = IntegerType

  override def eval(row: InternalRow): Any = {
    val value = project(row)
    var (low, high) = (0, begins.length)
    while (low < high) {
      val middle = (low + high) >>> 1
      if (ordering.compare(begins(middle), value) <= 0) low = middle + 1 else high = middle
    }
    ofTask.add(low, if (read.isEmpty) row else argumentsOf(row))
    low
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
      sent: SlicesSent): SliceOfRow =
    SliceOfRow(
      order.map(_.child), order.map(o => (o.direction, o.nullOrdering)), cuts, n, carried,
      carried.read, sent)
}
