package org.apache.spark.sql.saltwise.plan

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.SQLConfHelper
import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution.{PlanLater, SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.adaptive.LogicalQueryStage
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.saltwise.{Auto, DChoices, Local, SaltwiseConf, SkewOptions, Split}
import org.apache.spark.sql.saltwise.auto.{AutoStrategy, Cluster, KnownKeys, PlanCosts}
import org.apache.spark.sql.saltwise.compat.SparkCompat
import org.apache.spark.sql.saltwise.local.LocalAggregation
import org.apache.spark.sql.saltwise.placement.{LeftAlone, Placed}
import org.apache.spark.sql.saltwise.routing.{HeadKey, HotKey, HotKeyMismatch, HotKeys, RepeatableOrderExec, SkewReceiveExec, SkewRouteExec, StableColumns, WorkerPartitioning}
import org.apache.spark.sql.saltwise.split.SplitAggregation
import org.apache.spark.sql.saltwise.streaming.Routed
import org.apache.spark.sql.types.IntegerType

/**
 * Plans an aggregate so that no worker gets more rows than the others: Algorithm 1 of "When Two Choices Are not
 * Enough" in front of Spark's own aggregation.
 *
 * {{{
 *   SELECT k, collect_list(v) FROM t GROUP BY k
 *
 *   before:  Final(k) - Exchange(k) - Partial(k) - t
 *   after:   Final(k) - Exchange(k) - Partial(k) - SkewReceive - Exchange(worker) - SkewRoute(k) - RepeatableOrder - t
 * }}}
 *
 * Spark's own strategy plans the aggregate, and SkewRoute goes below what it planned. So every aggregate that
 * merges in Spark works unchanged, and the states that Partial makes are merged by Final: at most d for a head
 * key and two for a tail key, whatever worker a row was sent to. The price is one more shuffle, of raw rows.
 * The strategy `split` has a plan of its own, [[SplitAggregation]].
 *
 * Where the conf or the hint is on and the aggregate is left alone all the same, the plan says why.
 */
final case class SkewAggregation(session: SparkSession) extends SparkStrategy with SQLConfHelper {
  import SkewAggregation._

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case SkewGroupByHint(_, child) => planLater(child) :: Nil
    case placed: Placed => placed.exchange(planLater(placed.child)) :: Nil
    case routed: Routed => routed.exchange(planLater(routed.child)) :: Nil
    case LeftAlone(reason, child) => SkewLeftAloneExec(reason, planLater(child)) :: Nil
    case node: UnaryNode if node.child.isInstanceOf[Placed] || node.child.isInstanceOf[LeftAlone] => Nil
    // Streaming aggregates are planned by a strategy of Spark's, above what RouteStreams puts below them.
    case aggregate: Aggregate if aggregate.groupingExpressions.nonEmpty && !aggregate.isStreaming =>
      val hint = SkewGroupByHint.below(aggregate)
      if (hint.isEmpty && !conf.getConf(SaltwiseConf.Enabled)) Nil
      else planOrLeave(aggregate, hint.map(_.options).getOrElse(Map.empty))
    case _ => Nil
  }

  private def planOrLeave(aggregate: Aggregate, hint: Map[String, String]): Seq[SparkPlan] =
    OrStock(Seq.empty[SparkPlan]) {
      val options = SkewOptions.resolve(hint, conf)
      val stock = stockAggregation(aggregate)
      reasonToLeave(aggregate, options, stock).toLeft(()).flatMap(_ => choose(aggregate, options, stock)) match {
        case Left(reason) => stock.map(SkewLeftAloneExec(reason, _))
        case Right(asked) =>
          val keys = GroupingKeys.of(aggregate)
          val (chosen, hot) = hotKeys(keys, asked, ofThisQuery = hint.contains("hot"))
          val reason = if (chosen.dependsOnOrder) unstableRows(aggregate.child) else None
          reason match {
            case Some(reason) => stock.map(SkewLeftAloneExec(reason, _))
            case None => chosen.strategy match {
              case Split => stock.map(SplitAggregation(aggregate, chosen, _))
              case _: Local =>
                stock.map(LocalAggregation(chosen, conf.getConf(SaltwiseConf.LocalMemory), _))
              case _ => stock.map(_.transformUp {
                case child @ PlanLater(logical) if logical eq aggregate.child =>
                  route(keys, chosen, hot, Nil, logical, child)
              })
            }
          }
      }
    }

  /** What auto stands for, or why it leaves the aggregate alone. Without adaptive execution nobody could decide a split. */
  private def choose(aggregate: Aggregate, options: SkewOptions, stock: Seq[SparkPlan]): Either[String, SkewOptions] =
    options.strategy match {
      case Auto => AutoStrategy.choose(
        stock.head,
        options,
        KnownKeys.of(aggregate, state, session.sparkContext),
        Cluster(session.sparkContext.defaultParallelism, options.workers),
        StableColumns.staysInPlace(aggregate.child),
        conf.adaptiveExecutionEnabled)
        .map { case (strategy, why) => options.copy(strategy = strategy, why = Some(why)) }
      case Split if !conf.adaptiveExecutionEnabled =>
        Right(options.copy(strategy = DChoices(options.parameters)))
      case _ => Right(options)
    }

  private lazy val state = SparkCompat.state(session)

  private lazy val stockAggregation: SparkStrategy = state.planner.Aggregation

  private def reasonToLeave(
      aggregate: Aggregate, options: SkewOptions, stock: Seq[SparkPlan]): Option[String] = {
    val aggregates = aggregateExpressions(aggregate)
    if (aggregates.exists(_.isDistinct) || isPhaseOfDistinct(aggregate)) {
      Some("a DISTINCT aggregate has phases of its own")
    } else if (aggregates.isEmpty) {
      Some("there is no aggregate function, and the map side already drops repeated keys")
    } else if (conf.getConfString("spark.sql.execution.bypassPartialAggregation", "false").toBoolean) {
      Some("spark.sql.execution.bypassPartialAggregation is on, so there are no partial states to merge")
    } else if (!stock.forall(isTwoPhase(_, aggregate))) {
      Some(s"${functionNames(aggregates)} cannot be merged from partial states")
    } else if (options.workers == 1) {
      Some("there is one partition, so there is nothing to balance")
    } else if (options.strategy != Auto) {
      None
    } else if (PlanCosts.constants(stock.head).isEmpty) {
      Some(s"the states of ${functionNames(aggregates)} have a fixed size, and the map side already combines " +
        "them; name a strategy to rewrite all the same")
    } else if (isClustered(aggregate.groupingExpressions, aggregate.child)) {
      Some("its rows are already grouped by key, without another shuffle")
    } else if (aggregate.child.stats.sizeInBytes <= conf.getConf(SaltwiseConf.SmallInput)) {
      Some(smallInput(aggregate.child, conf))
    } else {
      None
    }
  }

  /** The last check before the rewrite: every plan of `stock` must read the child once, through Partial. */
  private def isTwoPhase(stock: SparkPlan, aggregate: Aggregate): Boolean = {
    val modes = stock.collect { case node: BaseAggregateExec => node.aggregateExpressions.map(_.mode).distinct }
    modes == Seq(Seq(Final), Seq(Partial)) &&
      stock.collect { case PlanLater(child) if child eq aggregate.child => child }.length == 1
  }
}

object SkewAggregation {
  /** The hot keys that are given. A list in the conf belongs to one of the session's aggregates; others pass it over. */
  def hotKeys(keys: Seq[Expression], options: SkewOptions, ofThisQuery: Boolean): (SkewOptions, Option[Seq[HotKey]]) =
    try { (options, options.hot.map(HotKeys.parse(_, keys))) } catch {
      case _: HotKeyMismatch if !ofThisQuery => (options.copy(hot = None), None)
    }

  /** Rows that a second run of a task may compute anew cannot be put into the order that they had. */
  def unstableRows(rows: LogicalPlan): Option[String] =
    if (StableColumns.staysInPlace(rows)) None else {
      val stable = StableColumns(rows)
      rows.output.find(!stable.contains(_)).map(column =>
        s"a task that runs again may compute another ${column.name}, and strategies that look at the rows before " +
          "cannot follow it; strategy hash and hot= can")
    }

  /** The rows of `logical`, each at the worker that the strategy sends it to. */
  def route(
      keys: Seq[Expression],
      options: SkewOptions,
      hot: Option[Seq[HotKey]],
      head: Seq[HeadKey],
      logical: LogicalPlan,
      rows: SparkPlan): SparkPlan = {
    val content = if (hot.isEmpty) Nil else logical.output.filter(StableColumns(logical).contains)
    val ordered = if (options.dependsOnOrder) RepeatableOrderExec(rows) else rows
    val routed = SkewRouteExec(keys, options, hot, head, content, ordered)
    SkewReceiveExec(SparkCompat.exchange(new WorkerPartitioning(options.workers), routed))
  }

  private def aggregateExpressions(aggregate: Aggregate): Seq[AggregateExpression] =
    aggregate.aggregateExpressions.flatMap(_.collect { case e: AggregateExpression => e })

  private def functionNames(aggregates: Seq[AggregateExpression]): String =
    aggregates.map(_.aggregateFunction.prettyName).distinct.mkString(", ")

  /** The two aggregates into which Spark turns several DISTINCTs, told apart by the group id `gid`. */
  private def isPhaseOfDistinct(aggregate: Aggregate): Boolean = {
    def byGroupId(plan: LogicalPlan): Boolean = plan match {
      case a: Aggregate => a.groupingExpressions.exists {
        case key: Attribute =>
          key.name == "gid" && key.dataType == IntegerType && !key.nullable && a.child.isInstanceOf[Expand]
        case _ => false
      }
      case _ => false
    }
    byGroupId(aggregate) || byGroupId(aggregate.child)
  }

  /** Whether all rows of a key are in one partition already, as far as the logical plan shows. */
  def isClustered(groupedBy: Seq[Expression], rows: LogicalPlan): Boolean = {
    val keys = ExpressionSet(groupedBy)
    def by(expressions: Seq[Expression]): Boolean =
      expressions.nonEmpty && expressions.forall(keys.contains)
    def clustered(plan: LogicalPlan): Boolean = plan match {
      case node: RepartitionByExpression => by(node.partitionExpressions)
      case node: Aggregate => by(node.groupingExpressions)
      case node: Window => by(node.partitionSpec)
      case node: Placed => by(node.keys)
      case sort: Sort if !sort.global => clustered(sort.child)
      case node @ (_: Project | _: Filter | _: Generate | _: SkewGroupByHint) => clustered(node.children.head)
      case stage: LogicalQueryStage => clustered(stage.logicalPlan)
      case _ => false
    }
    clustered(rows)
  }

  def smallInput(rows: LogicalPlan, conf: SQLConf): String =
    s"its input has about ${rows.stats.sizeInBytes} bytes, and spark.saltwise.auto.smallInput is " +
      s"${conf.getConf(SaltwiseConf.SmallInput)}"
}
