package org.apache.spark.sql.saltwise.window

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.WINDOW
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.saltwise.{OrStock, SaltwiseConf}
import org.apache.spark.sql.saltwise.compat.{NativeEngine, SparkCompat}
import org.apache.spark.sql.saltwise.plan.{CheapRows, LeftAlone}
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
 * }}}
 *
 * [[CarriedFunctions]] says what becomes of a function, [[SkewWindowExec]] makes the slices. The
 * rule runs behind all of Spark's own: a row that carries states must meet none of them.
 */
object SliceWindows extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!plan.containsPattern(WINDOW) || !SaltwiseConf.isOn(conf) ||
        !conf.getConf(SaltwiseConf.WindowSlices) || NativeEngine.running(conf).isDefined) plan
    else plan.transformUp {
      case window: Window if window.partitionSpec.isEmpty && !window.isStreaming &&
          !isDecided(window.child) =>
        OrStock[LogicalPlan]("SliceWindows", window)(sliced(window))
    }

  private def sliced(window: Window): LogicalPlan = {
    val functions = new CarriedFunctions(window.orderSpec)
    val results = window.windowExpressions.map(_.transformDown {
      case e @ WindowExpression(function, spec) =>
        functions.of(function, spec.frameSpecification).getOrElse(e)
    }.asInstanceOf[NamedExpression])
    val rows = window.child
    if (rows.stats.sizeInBytes <= conf.getConf(SaltwiseConf.SmallInput)) window
    else if (results.exists(WindowExpression.hasWindowExpression) || functions.differ) {
      left(window, OtherFunctions)
    } else {
      val carried = functions.carried(rows.output)
      reasonToLeave(window, carried).fold(
        inSlices(window, functions, carried, results))(left(window, _))
    }
  }

  private def reasonToLeave(window: Window, carried: Carried): Option[String] = {
    val (order, rows) = (window.orderSpec, window.child)
    // With an order, the values make one pass.
    val mayDiffer = !StableColumns.staysInPlace(rows) ||
      order.isEmpty && rows.exists(!_.expressions.forall(_.deterministic))
    if (order.nonEmpty && order.forall(_.child.foldable)) Some(ConstantOrder)
    else if (!CheapRows(rows)) Some(SecondPass)
    else if (mayDiffer) Some(MayDiffer)
    else if (carried.distinct && cores < 3) Some(SecondSort)
    else None
  }

  private def inSlices(
      window: Window,
      functions: CarriedFunctions,
      carried: Carried,
      results: Seq[NamedExpression]): LogicalPlan = {
    val (order, rows, columns) = (window.orderSpec, window.child, functions.columns)
    val windows = functions.windows
    val added = columns.in(
      AttributeSet(results ++ windows) ++ AttributeSet(Seq(columns.slice, columns.isRow)))
    val n = slicesOf(rows)
    val slices =
      WindowSlices(order, carried, columns, added, cutsOf(order, rows, n), n, rows)
    val overSlices = window.copy(
      windowExpressions = windows, partitionSpec = Seq(columns.slice), child = slices)
    Project(rows.output ++ results, Filter(columns.isRow, overSlices))
  }

  /** A subquery that reads the order alone, and finds where the slices begin. */
  private def cutsOf(order: Seq[SortOrder], rows: LogicalPlan, n: Int): Option[Expression] =
    if (order.isEmpty) None else {
      val cuts = OrderCuts(order, n)
      val pass = SparkCompat.aggregate(Alias(cuts.toAggregateExpression(), "cuts")(), rows)
      // Spark has optimized the subqueries of the query before, so this one is optimized here.
      val optimized = SparkCompat.state(SparkSession.active).optimizer.execute(pass)
      Some(SparkCompat.scalarSubquery(optimized))
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
    case _: WindowGroupLimit | _: LeftAlone => true
    case _ => false
  }

  private def left(window: Window, reason: String): LogicalPlan =
    window.withNewChildren(Seq(LeftAlone(reason, window.child)))

  private val OtherFunctions =
    "a function of this window cannot go on where the rows of another task ended"
  private val ConstantOrder = "its order is a constant, so all rows are equal"
  private val SecondPass =
    "a pass over its order would compute its rows a second time; cache them first"
  private val SecondSort =
    "to count the values of its order takes a second sort, and two cores win nothing by that"
  private val MayDiffer = "a second pass may find its rows in another order, or other values"
}
