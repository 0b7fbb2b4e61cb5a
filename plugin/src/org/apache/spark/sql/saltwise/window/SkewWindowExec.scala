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
 *
 * @param sort how a task sorts its rows; empty if they come sorted
 */
final case class SkewWindowExec(
    order: Seq[SortOrder],
    sort: Seq[SortOrder],
    carried: Carried,
    columns: SliceColumns,
    added: Seq[Attribute],
    partitions: Slices,
    sent: OfTasks[Seq[SentSlice]],
    child: SparkPlan)
  extends SlicesExec {
  import NearRows.{Neighbours, NoNeighbours}
  import SkewWindowExec._

  override def keys: Seq[Expression] = partitions.keys
  override def outputPartitioning: Partitioning = {
    val n = child.outputPartitioning.numPartitions
    val bySlice = RangePartitioning(Seq(bySliceNumber), n)
    if (keys.nonEmpty) bySlice
    else PartitioningCollection(Seq(bySlice, RangePartitioning(order, n)))
  }
  override def outputOrdering: Seq[SortOrder] = bySliceNumber +: order

  private def bySliceNumber = SortOrder(columns.slice, Ascending)

  // A thread that reads df.rdd may have no session, and operators are made here.
  override protected def doExecute(): RDD[InternalRow] = session.withActive {
    val rows = child.execute()
    val states = new SliceStates(carried.aggregates, child.output)
    // Adaptive execution has run the map tasks before, if it sees their exchange.
    if (sent.isZero) rows.mapPartitions(_ => Iterator[Int]()).count()
    val slices = SentSlice.of(sent.all, rows.getNumPartitions, states, carried.near)
    val ofPartitions = partitions.numbers(rows.getNumPartitions)
    val carries = ofPartitions.map(numbers => statesFor(numbers.map(slices), states))
    if (carries.contains(None)) inOneSliceEach(rows, ofPartitions, slices, states)
    else inSlices(ofPartitions.map(_.map(slices)), carries.flatten, states)
  }

  /**
   * The states that each slice carries. None if a sum overflows that may be none of stock's, if an
   * average may lose bits, or if slices are too short for what functions read of other slices.
   */
  private def statesFor(slices: Seq[SentSlice], states: SliceStates): Option[Seq[Array[Byte]]] =
    if (slices.exists(_.state == null) ||
        carried.near.exists(!_.areEnough(slices.map(_.rows), carried.begins))) None
    else try Some(states.carried(slices.map(_.state), carried.ofAll)) catch {
      case NonFatal(_) => None
    }

  /** @param slices the slices of each partition of the window, and the states that they carry */
  private def inSlices(
      slices: Seq[Seq[SentSlice]],
      carries: Seq[Seq[Array[Byte]]],
      states: SliceStates): RDD[InternalRow] = {
    report(slices.flatten.map(_.rows))
    val (input, by) = (child.output, order)
    val ordered = sorted(child)
    val values: Iterator[Long] =
      if (!carried.distinct) Iterator.continually(0L)
      else ordered.mapPartitions(rows => Iterator(distinctIn(rows, by, input))).collect().iterator
    val frames = slices.zip(carries).flatMap { case (ofPartition, states) =>
      val rows = ofPartition.map(_.rows)
      val distinct = ofPartition.map(_ => values.next())
      val neighbours =
        carried.near.fold(rows.map(_ => NoNeighbours))(_.around(ofPartition.map(_.edges)))
      val before = rows.scanLeft(0L)(_ + _).zip(distinct.scanLeft(0L)(_ + _))
      ofPartition.indices.map { i =>
        frame(ofPartition(i), before(i)._1, before(i)._2, rows.sum, states(i), neighbours(i))
      }
    }
    framed(ordered, frames, frames.indices, states)
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
    val all = sorted(RDDScanExec(child.output, together, "Slices"))
    // The other tasks have no rows: an operator above relies on the number of partitions.
    val others = rows.getNumPartitions - ofPartitions.length
    val asMany =
      if (others == 0) all
      else all.union(sparkContext.parallelize(Seq.empty[InternalRow], others))
    val whole = total.map(rows =>
      frame(SentSlice(rows, null, SentSlice.NoEdges), 0, 0, rows, states.nothing, NoNeighbours))
    // A window above goes on from the first slice of a key.
    framed(asMany, whole, ofPartitions.map(_.start), states)
  }

  private def sorted(rows: SparkPlan): RDD[InternalRow] =
    if (sort.isEmpty) rows.execute() else SortExec(sort, global = false, rows).execute()

  /** What stands around the rows of a slice. */
  private def frame(
      slice: SentSlice,
      before: Long,
      distinct: Long,
      total: Long,
      state: Array[Byte],
      neighbours: Neighbours): Frame = {
    // The first slice has rows ahead only where all slices have the one that carries states alone.
    val carries = carried.begins && (before > 0 || carried.near.isEmpty)
    val rowsBefore = neighbours.before
    val ahead = neighbours.firsts.length + (if (carries) 1 else 0) + rowsBefore.length
    // Such a row ahead is equal to the first row, but where others come between.
    val distinctAhead = carried.near.fold(0) { near =>
      near.valuesOf(neighbours.firsts) + (if (carries && rowsBefore.nonEmpty) 1 else 0) +
        near.valuesOf(rowsBefore)
    }
    Frame(slice, carries, neighbours, Begin(ahead, before, distinct - distinctAhead, total, state))
  }

  /** @param numbers the numbers of the slices, by partition */
  private def framed(
      rows: RDD[InternalRow],
      frames: Seq[Frame],
      numbers: Seq[Int],
      states: SliceStates): RDD[InternalRow] = {
    val (types, near) = (outputTypes, carried.near)
    val none = if (carried.aggregates.isEmpty) null else states.nothing
    val framesAndColumns = frames.zip(numbers).map { case (frame, slice) =>
      def values(isRow: Boolean, state: Array[Byte]): InternalRow = {
        val Begin(ahead, before, distinct, total, _) = frame.begin
        columns.values(added, slice, isRow, ahead, before, distinct, total, state)
      }
      frame -> Seq(
        values(isRow = false, frame.begin.state), values(isRow = false, none),
        values(isRow = true, null))
    }
    // Each task gets its own frame, not those of all.
    val n = rows.getNumPartitions
    val ofPartitions = sparkContext.parallelize((0 until n).map(framesAndColumns.lift), n)
    rows.zipPartitions(ofPartitions, preservesPartitioning = true) { (rows, ofPartition) =>
      if (!rows.hasNext) rows else {
        val (Frame(slice, carries, neighbours, _), Seq(carrier, other, isRow)) =
          ofPartition.next().get
        val both = new WithColumns(types)
        def others(rows: NearRows.Rows): Iterator[InternalRow] =
          near.iterator.flatMap(_.toRows(rows)).map(both(_, other))
        val own = near.fold(rows)(_.inOrder(rows, slice.rows, slice.edges))
        val first = own.next()
        others(neighbours.firsts) ++
          (if (carries) Iterator(first).map(both(_, carrier)) else Iterator.empty) ++
          others(neighbours.before) ++
          Iterator(first).map(both(_, isRow)) ++ own.map(both(_, isRow)) ++
          others(neighbours.behind) ++ others(neighbours.last)
      }
    }
  }

  private def outputTypes: Array[DataType] = output.map(_.dataType).toArray

  override def simpleString(maxFields: Int): String =
    s"SkewWindow ${order.mkString("[", ", ", "]")}, $partitions$carried"

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

  /** Where a slice begins: see [[SliceColumns]]. */
  final case class Begin(
      ahead: Long, before: Long, distinct: Long, total: Long, state: Array[Byte])

  /**
   * The rows of other slices around those of a slice.
   *
   * @param carries whether a copy of its first row carries states
   */
  final case class Frame(
      slice: SentSlice, carries: Boolean, neighbours: NearRows.Neighbours, begin: Begin)
}

/**
 * The slices of a window's partitions.
 *
 * @param keys   the keys of the window
 * @param ofKeys for each key that is sliced, how many slices it has
 */
final case class Slices(keys: Seq[Expression], ofKeys: Seq[Int]) {

  /** The numbers of the slices of each partition, if there are n slices. */
  def numbers(n: Int): Seq[Range] = if (keys.isEmpty) Seq(0 until n) else {
    ofKeys.scanLeft(0)(_ + _).zip(ofKeys).map { case (first, count) => first until first + count }
  }

  override def toString: String = if (keys.isEmpty) "slices" else s"slices of ${ofKeys.length} keys"
}

object Slices {
  /** Without PARTITION BY, all slices are those of one partition. */
  val OfAllRows: Slices = Slices(Nil, Nil)
}
