package org.apache.spark.sql.saltwise.window

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Statistics, UnaryNode}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.saltwise.compat.SparkCompat
import org.apache.spark.sql.types.{BinaryType, BooleanType, IntegerType, LongType}

/**
 * What a row of a slice has beside the columns of the window's input.
 *
 * @param slice    the number of the slice
 * @param isRow    false in rows of other slices, and in the row that carries the states
 * @param ahead    how many rows of a slice come ahead of its own
 * @param before   the rows of earlier slices
 * @param distinct the distinct values of the order in earlier slices, less those of the rows ahead;
 *                 0 if nobody asks
 * @param total    the rows of all slices
 * @param state    the states of all aggregates, in the row that carries them, and those of no rows
 *                 in rows of other slices; else NULL
 */
final case class SliceColumns(
    slice: Attribute,
    isRow: Attribute,
    ahead: Attribute,
    before: Attribute,
    distinct: Attribute,
    total: Attribute,
    state: Attribute) {
  private def all: Seq[Attribute] = Seq(slice, isRow, ahead, before, distinct, total, state)

  /** Those that are read. Rows of a window are copied more than once, so the others stay away. */
  def in(read: AttributeSet): Seq[Attribute] = all.filter(read.contains)

  /** The values of `added`, which are some of these columns, of all values in their order. */
  def values(added: Seq[Attribute], of: Any*): InternalRow =
    InternalRow.fromSeq(all.zip(of).collect {
      case (column, value) if added.contains(column) => value
    })
}

object SliceColumns {
  def apply(): SliceColumns = SliceColumns(
    AttributeReference("slice", IntegerType, nullable = false)(),
    AttributeReference("isRow", BooleanType, nullable = false)(),
    AttributeReference("ahead", LongType, nullable = false)(),
    AttributeReference("before", LongType, nullable = false)(),
    AttributeReference("distinct", LongType, nullable = false)(),
    AttributeReference("total", LongType, nullable = false)(),
    AttributeReference("state", BinaryType, nullable = true)())
}

/**
 * What slices carry from one to the next.
 *
 * @param aggregates the functions whose states are carried
 * @param ofAll      for each of them, whether a slice gets the state of all other slices, and not
 *                   only that of the slices before it
 * @param distinct   whether the distinct values of the order are counted
 * @param begins     whether slices begin with a row that carries states
 * @param near       the rows of other slices that a slice gets
 */
final case class Carried(
    aggregates: Seq[AggregateExpression],
    ofAll: Seq[Boolean],
    distinct: Boolean,
    begins: Boolean,
    near: Option[NearRows]) {

  /** The columns that map tasks read. If there are none, they read the rows as they are. */
  def read: Seq[Attribute] =
    if (aggregates.isEmpty) Nil
    else near.fold(AttributeSet(aggregates.flatMap(_.references)).toSeq)(_.input)

  /** What EXPLAIN shows of it. */
  override def toString: String = {
    val states = aggregates.map(_.aggregateFunction.toString)
    (if (states.isEmpty) "" else states.mkString(", carry ", ", ", "")) +
      (if (near.isEmpty) "" else ", with rows of their neighbours")
  }
}

object Carried {
  /** States, and each slice gets those of the slices before it. */
  def states(aggregates: Seq[AggregateExpression]): Carried =
    Carried(
      aggregates, aggregates.map(_ => false), distinct = false, begins = true, near = None)
}

/**
 * The rows of a window without PARTITION BY, in slices that are ranges of its order.
 *
 * @param sort how a task sorts its rows; empty if they come sorted
 * @param by   where the slices begin, or the column with the number of a row's slice
 * @param n    the number of slices
 */
final case class WindowSlices(
    order: Seq[SortOrder],
    sort: Seq[SortOrder],
    carried: Carried,
    columns: SliceColumns,
    added: Seq[Attribute],
    by: Expression,
    n: Int,
    child: LogicalPlan)
  extends UnaryNode with AddsColumns[LogicalPlan] {
  // Spark would not find what is in `carried`, and drop columns that only it reads.
  @transient override lazy val references: AttributeSet =
    AttributeSet(expressions ++ carried.aggregates ++ carried.near.toSeq.flatMap(_.input)) --
      producedAttributes
  override lazy val validConstraints: ExpressionSet = ExpressionSet()
  override def stats: Statistics = child.stats
  override protected def withNewChildInternal(c: LogicalPlan): WindowSlices = copy(child = c)
}

/** The rows of a window with neither PARTITION BY nor an order, and its aggregates of them all. */
final case class WindowTotals(
    aggregates: Seq[AggregateExpression], added: Seq[Attribute], child: LogicalPlan)
  extends UnaryNode with AddsColumns[LogicalPlan] {
  override def maxRows: Option[Long] = child.maxRows
  override protected def withNewChildInternal(c: LogicalPlan): WindowTotals = copy(child = c)
}

/**
 * Plans a [[WindowSlices]], a [[WindowRanges]] and a [[WindowTotals]].
 *
 * {{{
 *   before:  Window(sum(v) so far, slice) - WindowSlices(x) - t
 *   after:   Window(sum(v) so far, slice) - SkewWindow(x) - Exchange(slices of x) - t
 *
 *   before:  Window(sum(v) within 7, slice, x) - WindowRanges(x) - t
 *   after:   Window(sum(v) within 7, slice, x) - Sort(slice, x) - SkewWindow(x)
 *              - Exchange(slices) - RowsInRange(x) - t
 *
 *   before:  WindowTotals(sum(v)) - t
 *   after:   SkewWindow(totals) - t
 * }}}
 */
object PlanWindowSlices extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case WindowSlices(order, sort, carried, columns, added, by, n, child) =>
      val sent = OfTasks[Seq[SentSlice]](SparkSession.active.sparkContext)
      val slice =
        if (sort.isEmpty) SliceAgain(by, n, carried, carried.read, sent)
        else SliceOfRow(order, by, n, carried, sent)
      val rows = SparkCompat.exchange(new SlicePartitioning(slice, n), planLater(child))
      SkewWindowExec(order, sort, carried, columns, added, Slices.OfAllRows, sent, rows) :: Nil
    case WindowRanges(order, distance, added, cuts, n, child) =>
      val hot = Seq(SlicedKey.OfAllRows)
      val rows = RowsInRangeExec(
        order, distance, added, keys = Nil, hot, others = 1, Some(cuts), planLater(child))
      val slices = SparkCompat.exchange(new SlicePartitioning(added.head, n), rows)
      SkewRangesExec(order, added.head, keys = Nil, slices) :: Nil
    case WindowTotals(aggregates, values, child) =>
      SkewTotalsExec(aggregates, values, Nil, Seq(SlicedKey.OfAllRows), planLater(child)) :: Nil
    case _ => Nil
  }
}
