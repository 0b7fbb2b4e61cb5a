package org.apache.spark.sql.saltwise.window

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.LazilyGeneratedOrdering
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.execution.{SortExec, SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.types.DataType

/**
 * Lets a window run in slices. The rows of a task are a slice: a range of the order, or the rows
 * that a task reads where there is no order. A job counts the rows of each slice and makes the
 * states of its aggregates; then the driver knows where each slice begins. A slice comes out
 * sorted, behind a row that carries the states of others ([[Carried]]).
 *
 * Where a range ends is a value of the order, fixed on the driver. So rows that the order takes as
 * equal are in one slice, and a task that runs again has the same rows.
 */
final case class SkewWindowExec(
    order: Seq[SortOrder], carried: Carried, columns: SliceColumns, child: SparkPlan)
  extends UnaryExecNode {
  import SkewWindowExec._

  override def output: Seq[Attribute] = child.output ++ columns.all
  override def producedAttributes: AttributeSet = AttributeSet(columns.all)

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
    val sorted =
      if (order.isEmpty) child.execute() else SortExec(order, global = false, child).execute()
    val (input, carry, by) = (child.output, carried, order)
    // Only to count values does the job need the rows in their order.
    val counted = if (carried.distinct) sorted else child.execute()
    val slices = counted.mapPartitions(rows => Iterator(Slice(rows, input, carry, by))).collect()
    report(slices)
    val begins = Begin(slices.toSeq, carried, input)
    val types = (input ++ columns.all).map(_.dataType).toArray
    sorted.mapPartitionsWithIndex { (number, rows) =>
      if (rows.hasNext) new SliceRows(rows, number, begins(number), types) else rows
    }
  }

  private def report(slices: Array[Slice]): Unit = {
    val rows = slices.map(_.rows)
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

  /** What the driver has to know of a slice. */
  final case class Slice(rows: Long, distinct: Long, state: Array[Byte])

  object Slice {
    def apply(
        rows: Iterator[InternalRow],
        input: Seq[Attribute],
        carried: Carried,
        order: Seq[SortOrder]): Slice = {
      val states = new SliceStates(carried.aggregates, input)
      val state = states.empty()
      lazy val ordering = new LazilyGeneratedOrdering(order, input)
      var count, distinct = 0L
      var last: InternalRow = null
      rows.foreach { row =>
        count += 1
        if (carried.aggregates.nonEmpty) states.add(state, row)
        if (carried.distinct && (last == null || ordering.compare(last, row) != 0)) {
          distinct += 1
          last = row.copy()
        }
      }
      Slice(count, distinct, states.bytes(state))
    }
  }

  /** Where a slice begins: the rows and values before it, all rows, and the states of others. */
  final case class Begin(before: Long, distinct: Long, total: Long, state: Array[Byte])

  object Begin {
    def apply(slices: Seq[Slice], carried: Carried, input: Seq[Attribute]): Array[Begin] = {
      val before = slices.scanLeft(0L)(_ + _.rows)
      val distinct = slices.scanLeft(0L)(_ + _.distinct)
      new SliceStates(carried.aggregates, input)
        .carried(slices.map(_.state), carried.ofAll).zipWithIndex.map { case (state, i) =>
          Begin(before(i), distinct(i), before.last, state)
        }.toArray
    }
  }

  /** The rows of a slice, with its columns, behind the row that carries the states. */
  private final class SliceRows(
      rows: Iterator[InternalRow], number: Int, begin: Begin, types: Array[DataType])
    extends Iterator[InternalRow] {

    private val withColumns = UnsafeProjection.create(types)
    private val both = new JoinedRow
    private val columns = columnsOf(isRow = true, state = null)
    private var first = rows.next()
    private var begun = false

    override def hasNext: Boolean = first != null || rows.hasNext

    override def next(): InternalRow =
      if (!begun) {
        begun = true
        withColumns(both(first, columnsOf(isRow = false, begin.state)))
      } else if (first != null) {
        val row = withColumns(both(first, columns))
        first = null
        row
      } else withColumns(both(rows.next(), columns))

    private def columnsOf(isRow: Boolean, state: Array[Byte]) =
      InternalRow(number, isRow, begin.before, begin.distinct, begin.total, state)
  }
}
