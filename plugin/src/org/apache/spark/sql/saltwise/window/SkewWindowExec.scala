package org.apache.spark.sql.saltwise.window

import scala.util.control.NonFatal

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.LazilyGeneratedOrdering
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.execution.{RDDScanExec, SortExec, SparkPlan}
import org.apache.spark.sql.saltwise.split.Packing
import org.apache.spark.sql.types.DataType

/**
 * Lets a window run in slices, which are ranges of its order. The map tasks count the rows of each
 * slice and make the states of its aggregates, so the driver knows where each slice begins. A slice
 * comes out sorted, behind a row that carries the states of others ([[Carried]]), or between the
 * rows of its neighbours that its functions read ([[NearRows]]).
 *
 * Where a range ends is a value of the order, fixed on the driver. So rows that the order takes as
 * equal are in one slice, and a task that runs again has the same rows.
 */
final case class SkewWindowExec(
    order: Seq[SortOrder],
    carried: Carried,
    columns: SliceColumns,
    added: Seq[Attribute],
    partitions: Slices,
    sent: OfTasks[Seq[SentSlice]],
    child: SparkPlan)
  extends SlicesExec {
  import SkewWindowExec._

  override def output: Seq[Attribute] = child.output ++ added
  override def producedAttributes: AttributeSet = AttributeSet(added)

  override def outputPartitioning: Partitioning = {
    val n = child.outputPartitioning.numPartitions
    val bySlice = RangePartitioning(Seq(bySliceNumber), n)
    if (partitions.ofKeys.isDefined) bySlice
    else PartitioningCollection(Seq(bySlice, RangePartitioning(order, n)))
  }
  override def outputOrdering: Seq[SortOrder] = bySliceNumber +: order

  private def bySliceNumber = SortOrder(columns.slice, Ascending)

  override protected def doExecute(): RDD[InternalRow] = {
    val rows = child.execute()
    val states = new SliceStates(carried.aggregates, child.output)
    val slices = slicesOf(rows, sent, states, carried.near)
    val ofPartitions = partitions.numbers(rows.getNumPartitions)
    val carries = ofPartitions.map(numbers => statesFor(numbers.map(slices), states))
    if (carries.contains(None)) inOneSliceEach(rows, ofPartitions, slices, states)
    else inSlices(ofPartitions.map(_.map(slices)), carries.flatten)
  }

  /** The states that each slice carries. None if a sum overflows that may be none of stock's. */
  private def statesFor(slices: Seq[SentSlice], states: SliceStates): Option[Seq[Array[Byte]]] =
    if (slices.exists(_.state == null)) None
    else try Some(states.carried(slices.map(_.state), carried.ofAll)) catch {
      case NonFatal(_) => None
    }

  /** @param slices the slices of each partition of the window, and the states that they carry */
  private def inSlices(
      slices: Seq[Seq[SentSlice]], states: Seq[Seq[Array[Byte]]]): RDD[InternalRow] = {
    report(slices.flatten.map(_.rows))
    val (input, by) = (child.output, order)
    val ordered = sorted(child)
    val values: Iterator[Long] =
      if (!carried.distinct) Iterator.continually(0L)
      else ordered.mapPartitions(rows => Iterator(distinctIn(rows, by, input))).collect().iterator
    val begins = slices.zip(states).flatMap { case (ofPartition, states) =>
      val rows = ofPartition.map(_.rows)
      val distinct = ofPartition.map(_ => values.next())
      rows.scanLeft(0L)(_ + _).zip(distinct.scanLeft(0L)(_ + _)).zip(states).map {
        case ((before, distinct), state) => Begin(before, distinct, rows.sum, state)
      }
    }
    carried.near.fold(withColumns(ordered, begins))(withNeighbours(ordered, begins, slices, _))
  }

  /** What stock Spark does: one task has all rows of a partition. */
  private def inOneSliceEach(
      rows: RDD[InternalRow],
      ofPartitions: Seq[Range],
      slices: Seq[SentSlice],
      states: SliceStates): RDD[InternalRow] = {
    val total = ofPartitions.map(_.map(slices(_).rows).sum)
    report(total)
    val packing = Packing(ofPartitions, whole = rows.getNumPartitions, share = 1.0)
    val together = rows.coalesce(ofPartitions.length, shuffle = false, Some(packing))
    // The other tasks have no rows.
    val others = sparkContext.parallelize(Seq.empty[InternalRow], rows.getNumPartitions)
    val all = sorted(RDDScanExec(child.output, together, "Slices")).union(others)
    val begins = total.map(Begin(0, 0, _, states.bytes(states.empty())))
    val whole = total.map(rows => Seq(SentSlice(rows, null, SentSlice.NoEdges)))
    carried.near.fold(withColumns(all, begins))(withNeighbours(all, begins, whole, _))
  }

  private def sorted(rows: SparkPlan): RDD[InternalRow] =
    SortExec(order, global = false, rows).execute()

  private def withColumns(rows: RDD[InternalRow], begins: Seq[Begin]): RDD[InternalRow] = {
    val (types, columnsOf) = (outputTypes, columnsOfSlices(begins))
    rows.mapPartitionsWithIndex { (number, rows) =>
      if (!rows.hasNext) rows else {
        val (carries, isRow) = columnsOf(number)
        val first = rows.next()
        val both = new WithColumns(types)
        Iterator(both(first, carries)) ++ Iterator(first).map(both(_, isRow)) ++
          rows.map(both(_, isRow))
      }
    }
  }

  /** Slices between the rows of their neighbours, which are no rows of their own. */
  private def withNeighbours(
      rows: RDD[InternalRow],
      begins: Seq[Begin],
      slices: Seq[Seq[SentSlice]],
      near: NearRows): RDD[InternalRow] = {
    val (types, columnsOf) = (outputTypes, columnsOfSlices(begins))
    val around = slices.flatMap(ofPartition => near.around(ofPartition.map(_.edges))).toArray
    val (counts, edges) = (slices.flatten.map(_.rows).toArray, slices.flatten.map(_.edges).toArray)
    rows.mapPartitionsWithIndex { (number, rows) =>
      if (!rows.hasNext) rows else {
        val ((notRow, isRow), (before, behind)) = (columnsOf(number), around(number))
        val both = new WithColumns(types)
        near.toRows(before).iterator.map(both(_, notRow)) ++
          near.inOrder(rows, counts(number), edges(number)).map(both(_, isRow)) ++
          near.toRows(behind).iterator.map(both(_, notRow))
      }
    }
  }

  private def outputTypes: Array[DataType] = output.map(_.dataType).toArray

  /** The columns of rows that are not the slice's own, and of those that are. */
  private def columnsOfSlices(begins: Seq[Begin]): Array[(InternalRow, InternalRow)] =
    begins.zipWithIndex.map { case (Begin(before, distinct, total, state), i) =>
      (columns.values(added, i, false, before, distinct, total, state),
        columns.values(added, i, true, before, distinct, total, null))
    }.toArray

  override def simpleString(maxFields: Int): String =
    s"SkewWindow ${order.mkString("[", ", ", "]")}, slices$partitions"

  override protected def withNewChildInternal(c: SparkPlan): SkewWindowExec = copy(child = c)
}

private object SkewWindowExec {

  /** How many values of the order sorted rows have. */
  def distinctIn(
      rows: Iterator[InternalRow], order: Seq[SortOrder], input: Seq[Attribute]): Long = {
    val ordering = new LazilyGeneratedOrdering(order, input)
    var distinct = 0L
    var last: InternalRow = null
    rows.foreach { row =>
      if (last == null || ordering.compare(last, row) != 0) {
        distinct += 1
        last = row.copy()
      }
    }
    distinct
  }

  /** Where a slice begins: the rows and values before it, all rows, and the states of others. */
  final case class Begin(before: Long, distinct: Long, total: Long, state: Array[Byte])
}
