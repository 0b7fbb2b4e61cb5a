package org.apache.spark.sql.saltwise.window

import scala.util.control.NonFatal

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.LazilyGeneratedOrdering
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.execution.{RDDScanExec, SortExec, SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.saltwise.plan.ReportedSlices
import org.apache.spark.sql.types.DataType

/**
 * Lets a window run in slices. The rows of a task are a slice: a range of the order, or the rows
 * that a task reads where there is no order. The map tasks count the rows of each slice and make
 * the states of its aggregates, so the driver knows where each slice begins. A slice comes out
 * sorted, behind a row that carries the states of others ([[Carried]]), or between the rows of its
 * neighbours that its functions read ([[NearRows]]).
 *
 * Where a range ends is a value of the order, fixed on the driver. So rows that the order takes as
 * equal are in one slice, and a task that runs again has the same rows.
 */
final case class SkewWindowExec(
    order: Seq[SortOrder],
    carried: Carried,
    columns: SliceColumns,
    added: Seq[Attribute],
    sent: SlicesSent,
    child: SparkPlan)
  extends UnaryExecNode with ReportedSlices {
  import SkewWindowExec._

  override def output: Seq[Attribute] = child.output ++ added
  override def producedAttributes: AttributeSet = AttributeSet(added)

  override def outputPartitioning: Partitioning = {
    val n = child.outputPartitioning.numPartitions
    val bySlice = RangePartitioning(Seq(bySliceNumber), n)
    if (order.isEmpty) bySlice
    else PartitioningCollection(Seq(bySlice, RangePartitioning(order, n)))
  }
  override def outputOrdering: Seq[SortOrder] = bySliceNumber +: order

  private def bySliceNumber = SortOrder(columns.slice, Ascending)

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "slices" -> SQLMetrics.createMetric(sparkContext, "slices"),
    "longest" -> SQLMetrics.createMetric(sparkContext, "rows of the longest slice"),
    "rows" -> SQLMetrics.createMetric(sparkContext, "rows"))

  override protected def doExecute(): RDD[InternalRow] = {
    val rows = child.execute()
    val states = new SliceStates(carried.aggregates, child.output)
    val slices = slicesOf(rows, states)
    statesFor(slices, states).fold(inOneSlice(rows, states))(inSlices(slices, _))
  }

  private def slicesOf(rows: RDD[InternalRow], states: SliceStates): Seq[SentSlice] =
    if (order.nonEmpty) {
      // Without adaptive execution, the map tasks have not run yet.
      if (sent.isZero) rows.mapPartitions(_ => Iterator[Int]()).count()
      try sent.slices(rows.getNumPartitions, states, carried.near) catch {
        case NonFatal(_) => Failed
      }
    } else {
      val (carry, input) = (carried, child.output)
      rows.mapPartitions { rows =>
        val slices = new SlicesOfTask(1, carry, input)
        rows.foreach(slices.add(0, _))
        slices.all.iterator
      }.collect().toSeq
    }

  /** The states that each slice carries. None if a sum overflows that may be none of stock's. */
  private def statesFor(slices: Seq[SentSlice], states: SliceStates): Option[Seq[Array[Byte]]] =
    if (slices.exists(_.state == null)) None
    else try Some(states.carried(slices.map(_.state), carried.ofAll)) catch {
      case NonFatal(_) => None
    }

  private def inSlices(slices: Seq[SentSlice], states: Seq[Array[Byte]]): RDD[InternalRow] = {
    report(slices.map(_.rows))
    val (input, by) = (child.output, order)
    val ordered = sorted(child)
    val distinct: Seq[Long] =
      if (!carried.distinct) slices.map(_ => 0L)
      else ordered.mapPartitions(rows => Iterator(distinctIn(rows, by, input))).collect().toSeq
    val total = slices.map(_.rows).sum
    val begins = slices.map(_.rows).scanLeft(0L)(_ + _).zip(distinct.scanLeft(0L)(_ + _))
      .zip(states).map { case ((before, distinct), state) => Begin(before, distinct, total, state) }
    carried.near.fold(withColumns(ordered, begins))(withNeighbours(ordered, begins, slices, _))
  }

  /** What stock Spark does: one task has all rows. */
  private def inOneSlice(rows: RDD[InternalRow], states: SliceStates): RDD[InternalRow] = {
    val total = if (order.isEmpty) 0L else sent.rows
    report(Seq(total))
    val whole = sorted(RDDScanExec(child.output, rows.coalesce(1), "Slices"))
    // The other tasks have no rows.
    val others = sparkContext.parallelize(Seq.empty[InternalRow], rows.getNumPartitions)
    val (all, begin) = (whole.union(others), Begin(0, 0, total, states.bytes(states.empty())))
    val slice = SentSlice(total, null, SentSlice.NoEdges)
    carried.near.fold(withColumns(all, Seq(begin)))(withNeighbours(all, Seq(begin), Seq(slice), _))
  }

  private def sorted(rows: SparkPlan): RDD[InternalRow] =
    if (order.isEmpty) rows.execute() else SortExec(order, global = false, rows).execute()

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
      slices: Seq[SentSlice],
      near: NearRows): RDD[InternalRow] = {
    val (types, columnsOf) = (outputTypes, columnsOfSlices(begins))
    val around = near.around(slices.map(_.edges)).toArray
    val (counts, edges) = (slices.map(_.rows).toArray, slices.map(_.edges).toArray)
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

  private def outputTypes: Array[DataType] = (child.output ++ added).map(_.dataType).toArray

  /** The columns of rows that are not the slice's own, and of those that are. */
  private def columnsOfSlices(begins: Seq[Begin]): Array[(InternalRow, InternalRow)] =
    begins.zipWithIndex.map { case (Begin(before, distinct, total, state), i) =>
      (columns.values(added, i, false, before, distinct, total, state),
        columns.values(added, i, true, before, distinct, total, null))
    }.toArray

  private def report(rows: Seq[Long]): Unit = {
    longMetric("slices").set(rows.count(_ > 0))
    longMetric("longest").set(if (rows.isEmpty) 0 else rows.max)
    longMetric("rows").set(rows.sum)
    val execution = sparkContext.getLocalProperty("spark.sql.execution.id")
    SQLMetrics.postDriverMetricUpdates(sparkContext, execution, metrics.values.toSeq)
  }

  override def simpleString(maxFields: Int): String =
    s"SkewWindow ${order.mkString("[", ", ", "]")}, slices"

  override protected def withNewChildInternal(c: SparkPlan): SkewWindowExec = copy(child = c)
}

private object SkewWindowExec {
  private val Failed = Seq(SentSlice(0, null, SentSlice.NoEdges))

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

  /** Adds the columns of a slice to its rows. */
  private final class WithColumns(types: Array[DataType]) {
    private val project = UnsafeProjection.create(types)
    private val both = new JoinedRow

    def apply(row: InternalRow, columns: InternalRow): InternalRow = project(both(row, columns))
  }
}
