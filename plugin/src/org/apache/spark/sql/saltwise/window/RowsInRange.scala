package org.apache.spark.sql.saltwise.window

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.saltwise.plan.{ReportedSlices, StateFields, TransparentExec}
import org.apache.spark.sql.saltwise.split.WholeKeys
import org.apache.spark.sql.types._

/**
 * The rows of a window without PARTITION BY, each in its slice, and in those whose frames reach it.
 *
 * @param cuts where the slices begin
 * @param n    the number of slices
 */
final case class WindowRanges(
    order: SortOrder,
    distance: Distance,
    added: Seq[Attribute],
    cuts: Expression,
    n: Int,
    child: LogicalPlan)
  extends UnaryNode with AddsColumns[LogicalPlan] {
  override lazy val validConstraints: ExpressionSet = ExpressionSet()
  override protected def withNewChildInternal(c: LogicalPlan): WindowRanges = copy(child = c)
}

/**
 * Sends each row to its slice, and to those whose frames reach it.
 *
 * @param added  the number of a slice, and whether the row is one of its own
 * @param keys   the keys of the window
 * @param hot    the keys that have slices; the others go to partitions behind all slices
 * @param others how many partitions the others have
 * @param cuts   where the slices begin, if there are no keys
 */
final case class RowsInRangeExec(
    order: SortOrder,
    distance: Distance,
    added: Seq[Attribute],
    keys: Seq[Expression],
    hot: Seq[SlicedKey],
    others: Int,
    cuts: Option[Expression],
    child: SparkPlan)
  extends UnaryExecNode with AddsColumns[SparkPlan] {

  override def outputPartitioning: Partitioning = child.outputPartitioning

  override protected def doExecute(): RDD[InternalRow] = {
    val ofKeys = cuts.fold(hot) { cuts =>
      val begins = OrderSample.read(cuts.eval().asInstanceOf[Array[Byte]]).map(_._2)
      Seq(SlicedKey.OfAllRows.copy(begins = begins))
    }
    val Seq(value) = BindReferences.bindReferences(Seq(order.child), child.output)
    val keysOfRow = BindReferences.bindReferences(keys, child.output)
    val (by, reach, types, partitions) = (order, distance, output.map(_.dataType).toArray, others)
    val firsts = hot.scanLeft(0)(_ + _.slices).toArray
    child.execute().mapPartitions { rows =>
      val numbers = new NumbersOfKeys(keysOfRow, ofKeys)
      val ranges = ofKeys.map(key => new ReachingRanges(by, reach, key.begins)).toArray
      val (both, columns) = (new WithColumns(types), new GenericInternalRow(2))
      def inSlice(row: InternalRow, slice: Int, isRow: Boolean): InternalRow = {
        columns.update(0, slice)
        columns.update(1, isRow)
        both(row, columns)
      }
      rows.flatMap { row =>
        val key = numbers.of(row)
        if (key < 0) {
          val partition = firsts.last + Math.floorMod(numbers.hash, partitions)
          Iterator.single(inSlice(row, partition, isRow = true))
        } else {
          val (own, from, to) = ranges(key).of(value.eval(row))
          (from to to).iterator.map(slice => inSlice(row, firsts(key) + slice, slice == own))
        }
      }
    }
  }

  override def simpleString(maxFields: Int): String =
    s"RowsInRange [$order], ${distance.before} before, ${distance.behind} behind"

  override protected def withNewChildInternal(c: SparkPlan): RowsInRangeExec = copy(child = c)
}

/**
 * The ranges of an order that a row is in, or that reach it. Ranges are at least twice as long as
 * the distance, so a row is in three at most; some begins are left out for that.
 */
private[window] final class ReachingRanges(
    order: SortOrder, distance: Distance, begins: Seq[Array[Byte]]) {
  import Distance.sum

  private val dataType: DataType = order.dataType
  private val reach = math.max(distance.before, distance.behind)
  private val least = sum(1L, sum(reach, reach))
  private val kept = begins.map(StateFields.row(_, 1)).filter(mayBegin).foldLeft(
    Seq.empty[UnsafeRow]) {
    case (kept, begin) if kept.isEmpty || isFar(kept.last, begin) => kept :+ begin
    case (kept, _) => kept
  }.toArray
  private val ranges =
    new RangesOfOrder(kept, OrderCuts.ordering(OrderCuts.directions(Seq(order)), Seq(dataType)))
  private val places = kept.map(place(_))

  /** The number of ranges. */
  def count: Int = kept.length + 1

  private val row = new GenericInternalRow(1)

  /** The number of the range of a value, and of the first and the last one that need its row. */
  def of(value: Any): (Int, Int, Int) = {
    row.update(0, value)
    val own = ranges.of(row)
    var (from, to) = (own, own)
    place(row).foreach { at =>
      // The begin of range i is that of places(i - 1).
      while (from > 0 && places(from - 1).exists(at < sum(_, distance.behind))) from -= 1
      while (to < places.length && places(to).exists(at >= sum(_, -distance.before))) to += 1
    }
    (own, from, to)
  }

  /**
   * Whether a range may begin here. Without ANSI, the end of a frame near the smallest or the
   * largest number comes out at the other end, and the frames of some more rows depend on that.
   */
  private def mayBegin(begin: UnsafeRow): Boolean = {
    val (smallest, largest) = dataType match {
      case ByteType => (Byte.MinValue.toLong, Byte.MaxValue.toLong)
      case ShortType => (Short.MinValue.toLong, Short.MaxValue.toLong)
      case IntegerType | DateType => (Int.MinValue.toLong, Int.MaxValue.toLong)
      case _ => (Long.MinValue, Long.MaxValue)
    }
    val reached = sum(sum(distance.before, distance.before), distance.behind)
    place(begin).forall(at => at > sum(smallest, reached) && at <= sum(largest, -distance.behind))
  }

  private def isFar(begin: UnsafeRow, next: UnsafeRow): Boolean =
    (place(begin), place(next)) match {
      case (Some(here), Some(there)) => there >= sum(here, least)
      case _ => true
    }

  /** A value in units of the order, along its direction. None for NULL: no distance reaches it. */
  private def place(row: InternalRow): Option[Long] =
    if (row.isNullAt(0)) None
    else {
      val units = row.get(0, dataType).asInstanceOf[Number].longValue
      // ~ turns the order around, as - would, but for the smallest number.
      Some(if (order.direction == Ascending) units else ~units)
    }
}

/** The slices of a window whose frames are distances. */
final case class SkewRangesExec(
    order: SortOrder, slice: Attribute, keys: Seq[Expression], child: SparkPlan)
  extends TransparentExec with ReportedSlices {

  override def nodeName: String = "SkewWindow"
  override def outputPartitioning: Partitioning =
    WholeKeys(Seq(slice), child.outputPartitioning.numPartitions)

  override def simpleString(maxFields: Int): String =
    s"SkewWindow [$order], slices of a range${if (keys.isEmpty) "" else " of hot keys"}"

  override protected def withNewChildInternal(c: SparkPlan): SkewRangesExec = copy(child = c)
}
