package org.apache.spark.sql.saltwise.window

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.WINDOW
import org.apache.spark.sql.saltwise.{OrStock, SaltwiseConf, WithSubqueries}
import org.apache.spark.sql.saltwise.compat.SparkCompat
import org.apache.spark.sql.saltwise.plan.{LeftAlone, Reported}

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
    else if (SaltwiseConf.observes(conf)) WithSubqueries(plan)(noted)
    else if (!WindowReasons.isOn) plan
    else {
      val twice = computedOnce(plan)
      WithSubqueries(plan)(sliced(_, twice))
    }

  /** @param twice functions of windows that stay, because the query has them twice */
  private def sliced(query: LogicalPlan, twice: Set[ExprId]): LogicalPlan = {
    val windows = withTotals(query)
    val (sharing, staying) = sharingAndStaying(windows)
    val belowBarriers = query.collect {
      case barrier if SparkCompat.isBarrier(barrier) =>
        barrier.collect { case window: Window => idOf(window) }
    }.flatten.toSet
    def stays(window: Window): Option[String] =
      if (staying(idOf(window))) Some(WindowReasons.TaskAbove)
      else if (belowBarriers(idOf(window))) Some(WindowReasons.BarrierAbove)
      else if (window.windowExpressions.exists(e => twice(e.exprId))) Some(WindowReasons.Twice)
      else None
    windows.transformUp {
      case window: Window if !window.isStreaming && !WindowReasons.isDecided(window.child) =>
        OrStock[LogicalPlan]("SliceWindows", window) {
          if (!isLarge(window)) window
          else if (window.partitionSpec.nonEmpty) {
            WindowReasons.of(window).fold[LogicalPlan](window)(left(window, _))
          } else stays(window).fold(window.child match {
            case SharedSlices.InSlices(slice, n, rows) if sharing(idOf(window)) =>
              goingOn(window, slice, n, rows)
            case _ => WindowReasons.ofOwnSlices(window).fold(inSlices(window)) { reason =>
              OneKey(window).fold(left(window, reason))(Project(window.output, _))
            }
          })(left(window, _))
        }
    }
  }

  /**
   * The functions of windows that a query has twice. Spark computes their rows once, or prunes
   * partitions by them. Slices would do neither, and rows that tie would come in two orders.
   */
  private def computedOnce(plan: LogicalPlan): Set[ExprId] =
    plan.collectWithSubqueries {
      case window: Window if window.partitionSpec.isEmpty && window.orderSpec.nonEmpty => window
    }.groupBy(_.canonicalized).values.filter(_.length > 1)
      .flatMap(_.flatMap(_.windowExpressions.map(_.exprId))).toSet

  private def left(window: Window, reason: String): LogicalPlan =
    window.withNewChildren(Seq(LeftAlone(reason, window.child)))

  private def withTotals(plan: LogicalPlan): LogicalPlan = plan.transformUp {
    case window @ TotalsBesideOrder(both) =>
      OrStock[LogicalPlan]("SliceWindows", window) {
        if (both.isStreaming || !isLarge(both) || WindowReasons.of(both).isDefined) window
        else Project(window.output, both)
      }
  }

  /**
   * The windows without PARTITION BY that share the slices of one below, and those below one that
   * cannot. For that one, a single task would have to sort the rows of all slices again. If it has
   * another order, it sorts them anyway, and nothing is lost unless the slices cost a shuffle.
   */
  private def sharingAndStaying(plan: LogicalPlan): (Set[ExprId], Set[ExprId]) = {
    var (sharing, staying) = (Set.empty[ExprId], Set.empty[ExprId])
    plan.foreach {
      case window: Window if window.partitionSpec.isEmpty =>
        SharedSlices.below(window).foreach { below =>
          val shares = WindowReasons.shares(window) && !staying(idOf(window))
          if (shares) sharing += idOf(window)
          else if (SharedSlices.haveSameSlices(window, below) ||
              WindowReasons.ofOwnSlices(below).isDefined) staying += idOf(below)
        }
      case _ =>
    }
    (sharing, staying)
  }

  /** What tells a window from others, whatever becomes of the plan below it. */
  private def idOf(window: Window): ExprId = window.windowExpressions.head.exprId

  private def isLarge(window: Window): Boolean =
    window.child.stats.sizeInBytes > conf.getConf(SaltwiseConf.SmallInput)

  /** The same plan, whose windows say what would become of them. Placement says so itself. */
  private def noted(plan: LogicalPlan): LogicalPlan = {
    def isPlaced(window: Window): Boolean =
      window.partitionSpec.nonEmpty && conf.getConf(SaltwiseConf.PlacementEnabled)
    plan.foreach {
      case window: Window if !window.isStreaming && !isPlaced(window) &&
          conf.getConf(SaltwiseConf.WindowSlices) && WindowReasons.of(window).isEmpty =>
        window.setTagValue(
          Reported.WouldRun,
          if (window.partitionSpec.isEmpty) "auto: it runs in slices, each on its own task"
          else "auto: a key with too many rows for one task runs in slices")
      case _ =>
    }
    plan
  }

  private def inSlices(window: Window): LogicalPlan = {
    val (order, rows) = (window.orderSpec, window.child)
    if (order.isEmpty) {
      val totals = TotalFunctions(window.windowExpressions).get
      Project(rows.output ++ totals.results, WindowTotals(totals.aggregates, totals.values, rows))
    } else {
      val n = slicesOf(rows)
      val cuts = cutsOf(order, rows, n)
      CarriedFunctions(window.windowExpressions, order, rows.output).map { functions =>
        overSlices(window, functions, sort = order, cuts, n, rows)
      }.getOrElse {
        val functions = RangeFunctions(window.windowExpressions, order).get
        import functions._
        val slices = WindowRanges(order.head, distance, Seq(slice, isRow), cuts, n, rows)
        over(window, slices, slice, isRow, windows, results)
      }
    }
  }

  /** @param rows the rows of the window, and the column of their slice */
  private def goingOn(window: Window, slice: Attribute, n: Int, rows: LogicalPlan): LogicalPlan = {
    val functions =
      CarriedFunctions(window.windowExpressions, window.orderSpec, rows.output).get
    overSlices(window, functions, sort = Nil, slice, n, rows)
  }

  private def overSlices(
      window: Window,
      functions: SlicedFunctions,
      sort: Seq[SortOrder],
      by: Expression,
      n: Int,
      rows: LogicalPlan): LogicalPlan = {
    import functions._
    val slices = WindowSlices(window.orderSpec, sort, carried, columns, added, by, n, rows)
    over(window, slices, columns.slice, columns.isRow, windows, results)
  }

  private def over(
      window: Window,
      slices: LogicalPlan,
      slice: Attribute,
      isRow: Attribute,
      windows: Seq[NamedExpression],
      results: Seq[NamedExpression]): LogicalPlan = {
    val overSlices =
      window.copy(windowExpressions = windows, partitionSpec = Seq(slice), child = slices)
    Project(window.child.output ++ results, Filter(isRow, overSlices))
  }

  /** A subquery that reads the order alone, and finds where the slices begin. */
  private def cutsOf(order: Seq[SortOrder], rows: LogicalPlan, n: Int): Expression = {
    val cuts = OrderCuts(order, n)
    val pass = SparkCompat.aggregate(Alias(cuts.toAggregateExpression(), "cuts")(), rows)
    // Spark has optimized the subqueries of the query before, so this one is optimized here.
    val optimized = SparkCompat.state(SparkSession.active).optimizer.execute(pass)
    SparkCompat.scalarSubquery(optimized)
  }

  private def slicesOf(rows: LogicalPlan): Int = {
    val bySize = (rows.stats.sizeInBytes / SliceBytes).min(Int.MaxValue).toInt
    math.max(1, math.min(conf.numShufflePartitions, math.max(2 * WindowReasons.cores, bySize)))
  }

  /** A task sorts so many bytes in about a tenth of a second. */
  private val SliceBytes = 4 << 20
}
