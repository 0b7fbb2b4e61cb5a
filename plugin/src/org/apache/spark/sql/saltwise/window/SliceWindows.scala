package org.apache.spark.sql.saltwise.window

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.WINDOW
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.saltwise.{OrStock, SaltwiseConf}
import org.apache.spark.sql.saltwise.compat.{NativeEngine, SparkCompat}
import org.apache.spark.sql.saltwise.plan.{CheapRows, GroupingKeys, LeftAlone, Reported}
import org.apache.spark.sql.saltwise.routing.StableColumns

/**
 * Runs a window without PARTITION BY in slices, where stock Spark has all rows in one task.
 *
 * {{{
 *   SELECT x, sum(v) OVER (ORDER BY x) AS s FROM t
 *
 *   before:  Window(sum(v) AS s, x) - t
 *   after:   Project(x, s) - Filter(isRow) - Window(sum(v or state) AS s, slice, x)
 *              - WindowSlices(x) - t
 *
 *   SELECT x, sum(v) OVER () AS s FROM t
 *
 *   before:  Window(sum(v) AS s) - t
 *   after:   Project(x, s) - WindowTotals(sum(v)) - t
 * }}}
 *
 * [[CarriedFunctions]] and [[TotalFunctions]] say what becomes of a function, [[SkewWindowExec]]
 * makes the slices. The rule runs behind all of Spark's own: a row that carries states must meet
 * none of them. A window with PARTITION BY is for [[SliceHotKeys]], once its rows are counted.
 */
object SliceWindows extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!plan.containsPattern(WINDOW)) plan
    else if (SaltwiseConf.observes(conf)) noted(plan)
    else if (!isOn) plan
    else withTotals(plan).transformUp {
      case window: Window if !window.isStreaming && !isDecided(window.child) =>
        OrStock[LogicalPlan]("SliceWindows", window) {
          if (!isLarge(window)) window
          else reasonToLeave(window).fold {
            if (window.partitionSpec.isEmpty) inSlices(window) else window
          }(reason => window.withNewChildren(Seq(LeftAlone(reason, window.child))))
        }
    }

  private def withTotals(plan: LogicalPlan): LogicalPlan = plan.transformUp {
    case window @ TotalsBesideOrder(both) =>
      OrStock[LogicalPlan]("SliceWindows", window) {
        if (!both.isStreaming && isLarge(both) && reasonToLeave(both).isEmpty) both
        else window
      }
  }

  private def isLarge(window: Window): Boolean =
    window.child.stats.sizeInBytes > conf.getConf(SaltwiseConf.SmallInput)

  /** The same plan, whose windows say what would become of them. Placement says so itself. */
  private def noted(plan: LogicalPlan): LogicalPlan = {
    def isPlaced(window: Window): Boolean =
      window.partitionSpec.nonEmpty && conf.getConf(SaltwiseConf.PlacementEnabled)
    plan.foreach {
      case window: Window if !window.isStreaming && !isPlaced(window) &&
          conf.getConf(SaltwiseConf.WindowSlices) && reasonToLeave(window).isEmpty =>
        window.setTagValue(
          Reported.WouldRun,
          if (window.partitionSpec.isEmpty) "auto: it runs in slices, each on its own task"
          else "auto: a key with too many rows for one task runs in slices")
      case _ =>
    }
    plan
  }

  /** Whether windows of this session may run in slices. */
  def isOn: Boolean = SaltwiseConf.isOn(conf) && conf.getConf(SaltwiseConf.WindowSlices) &&
    NativeEngine.running(conf).isEmpty

  /** Why a window has to stay as it is; None if it may run in slices. */
  def reasonToLeave(window: Window): Option[String] = {
    val (order, rows) = (window.orderSpec, window.child)
    val values = window.partitionSpec ++ order.map(_.child)
    // What its slices read of the rows.
    val read =
      if (order.isEmpty) TotalFunctions(window.windowExpressions).map(values ++ _.aggregates)
      else CarriedFunctions(window.windowExpressions, order, rows.output).map { functions =>
        val carried = functions.carried
        values ++ carried.aggregates ++ carried.near.toSeq.flatMap(_.input)
      }.orElse(RangeFunctions(window.windowExpressions, order).map(values ++ _.aggregates))
    val secondSort = order.nonEmpty && cores < 3 && window.windowExpressions.exists(
      _.exists(_.isInstanceOf[DenseRank]))
    if (order.nonEmpty && order.forall(_.child.foldable)) Some(ConstantOrder)
    else if (isDecided(rows)) Some(OtherFunctions)
    else if (read.isEmpty) Some(reasonOf(window))
    else if (secondSort) Some(SecondSort)
    else if (window.partitionSpec.isEmpty) reasonToReadOnce(window)
    else if (values.exists(value => GroupingKeys.isCollated(value.dataType))) Some(Collated)
    else if (!repeats(read.get, rows)) Some(OtherRows)
    else None
  }

  private def reasonOf(window: Window): String =
    if (window.windowExpressions.exists(_.exists(CarriedFunctions.addsFloats))) Floats
    else OtherFunctions

  /** Why the rows of a window without PARTITION BY should not be read twice. */
  private def reasonToReadOnce(window: Window): Option[String] = {
    val rows = window.child
    // With an order, the values make one pass.
    val mayDiffer = !StableColumns.staysInPlace(rows) ||
      window.orderSpec.isEmpty && rows.exists(!_.expressions.forall(_.deterministic))
    if (!CheapRows(rows)) Some(SecondPass) else if (mayDiffer) Some(MayDiffer) else None
  }

  /** Whether these are the same when the tasks of the rows run again. */
  private def repeats(values: Seq[Expression], rows: LogicalPlan): Boolean =
    values.forall(_.deterministic) && StableColumns.sameStableRows(rows) &&
      AttributeSet(values).subsetOf(StableColumns(rows))

  private def inSlices(window: Window): LogicalPlan = {
    val (order, rows) = (window.orderSpec, window.child)
    if (order.isEmpty) {
      val totals = TotalFunctions(window.windowExpressions).get
      Project(rows.output ++ totals.results, WindowTotals(totals.aggregates, totals.values, rows))
    } else {
      val n = slicesOf(rows)
      val cuts = cutsOf(order, rows, n)
      def over(
          slices: LogicalPlan,
          slice: Attribute,
          isRow: Attribute,
          windows: Seq[NamedExpression],
          results: Seq[NamedExpression]): LogicalPlan = {
        val overSlices = window.copy(
          windowExpressions = windows, partitionSpec = Seq(slice), child = slices)
        Project(rows.output ++ results, Filter(isRow, overSlices))
      }
      CarriedFunctions(window.windowExpressions, order, rows.output).map { functions =>
        import functions._
        val slices = WindowSlices(order, carried, columns, added, cuts, n, rows)
        over(slices, columns.slice, columns.isRow, windows, results)
      }.getOrElse {
        val functions = RangeFunctions(window.windowExpressions, order).get
        import functions._
        val slices = WindowRanges(order.head, distance, Seq(slice, isRow), cuts, n, rows)
        over(slices, slice, isRow, windows, results)
      }
    }
  }

  /** A subquery that reads the order alone, and finds where the slices begin. */
  private def cutsOf(order: Seq[SortOrder], rows: LogicalPlan, n: Int): Expression = {
    val cuts = OrderCuts(order, n)
    val pass = SparkCompat.aggregate(Alias(cuts.toAggregateExpression(), "cuts")(), rows)
    // Spark has optimized the subqueries of the query before, so this one is optimized here.
    val optimized = SparkCompat.state(SparkSession.active).optimizer.execute(pass)
    SparkCompat.scalarSubquery(optimized)
  }

  private def cores: Int = conf.getConf(SQLConf.LEAF_NODE_DEFAULT_PARALLELISM)
    .getOrElse(SparkSession.active.sparkContext.defaultParallelism)

  private def slicesOf(rows: LogicalPlan): Int = {
    val bySize = (rows.stats.sizeInBytes / SliceBytes).min(Int.MaxValue).toInt
    math.max(1, math.min(conf.numShufflePartitions, math.max(2 * cores, bySize)))
  }

  /** A task sorts so many bytes in about a tenth of a second. */
  private val SliceBytes = 4 << 20

  /** Spark keeps the first rows only, or the rule has been here. */
  private def isDecided(rows: LogicalPlan): Boolean = rows match {
    case _: WindowGroupLimit | _: LeftAlone | _: WindowSlices | _: WindowRanges => true
    case _ => false
  }

  private val OtherFunctions =
    "a function of this window cannot go on where the rows of another task ended"
  private val Floats =
    s"the last bits of its sums of floating-point numbers may differ; if they may, set " +
      s"${SaltwiseConf.WindowFloats.key}"
  private val ConstantOrder = "its order is a constant, so all rows are equal"
  private val Collated = "equal strings of its keys may have different bytes"
  private val SecondPass =
    "a pass over its order would compute its rows a second time; cache them first"
  private val SecondSort =
    "to count the values of its order takes a second sort, and two cores win nothing by that"
  private val OtherRows =
    "its keys, its order or its arguments may differ when a task runs again"
  private val MayDiffer = "a second pass may find its rows in another order, or other values"
}
