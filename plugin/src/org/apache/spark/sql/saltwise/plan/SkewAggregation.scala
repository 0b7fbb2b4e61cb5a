package org.apache.spark.sql.saltwise.plan

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.SQLConfHelper
import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution.{PlanLater, SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.adaptive.LogicalQueryStage
import org.apache.spark.sql.execution.aggregate.{BaseAggregateExec, HashAggregateExec}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.saltwise.{Auto, Local, SaltwiseConf, SaltwiseException}
import org.apache.spark.sql.saltwise.{SkewOptions, Split}
import org.apache.spark.sql.saltwise.compat.{NativeEngine, SparkCompat}
import org.apache.spark.sql.saltwise.placement.{LeftAlone, Placed, PlaceGroups}
import org.apache.spark.sql.saltwise.report.GroupsOfPlan
import org.apache.spark.sql.saltwise.routing._
import org.apache.spark.sql.saltwise.streaming.Routed
import org.apache.spark.sql.types.IntegerType

/**
 * Plans an aggregate so that all workers get about the same number of rows. It puts Algorithm 1 of
 * "When Two Choices Are not Enough" in front of Spark's own aggregation.
 *
 * {{{
 *   SELECT k, collect_list(v) FROM t GROUP BY k
 *
 *   before:  Final(k) - Exchange(k) - Partial(k) - t
 *   after:   Final(k) - Exchange(k) - Partial(k)
 *              - SkewReceive - Exchange(worker) - SkewRoute(k) - RepeatableOrder - t
 * }}}
 *
 * Spark's own strategy plans the aggregate, and SkewRoute goes below that plan. So every aggregate
 * that merges in Spark works unchanged. Final merges the states that Partial makes: at most d for a
 * head key and two for a tail key. It does not matter which worker a row was sent to. The cost is
 * one more shuffle, of raw rows. The strategies `auto`, `split` and `local` have a plan of their
 * own, [[RewriteSkewGroupBys]].
 *
 * If the conf or the hint is on and the aggregate is still left alone, the plan says why.
 */
final case class SkewAggregation(session: SparkSession) extends SparkStrategy with SQLConfHelper {
  import SkewAggregation._

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case SkewGroupByHint(_, child) => planLater(child) :: Nil
    case placed: Placed => orRows("PlaceGroups", placed.child)(placed.exchange) :: Nil
    case routed: Routed => orRows("RouteStreams", routed.child)(routed.exchange) :: Nil
    case LeftAlone(reason, child) => SkewLeftAloneExec(reason, planLater(child)) :: Nil
    case node: UnaryNode
        if node.child.isInstanceOf[Placed] || node.child.isInstanceOf[LeftAlone] => Nil
    // Spark's own strategy plans streaming aggregates. RouteStreams has put a node below them.
    case aggregate: Aggregate if aggregate.groupingExpressions.nonEmpty && !aggregate.isStreaming =>
      val hint = SkewGroupByHint.below(aggregate)
      val options = hint.map(_.options).getOrElse(Map.empty[String, String])
      if (SaltwiseConf.observes(conf)) observe(aggregate, options)
      else if (hint.isEmpty && !SaltwiseConf.isOn(conf)) Nil
      else planOrLeave(aggregate, options)
    case _ => Nil
  }

  /** The rows behind an exchange of ours; where it cannot be made, the rows, for one of Spark's. */
  private def orRows(
      part: String, child: LogicalPlan)(exchange: SparkPlan => SparkPlan): SparkPlan = {
    val rows = planLater(child)
    OrStock(part, rows)(exchange(rows))
  }

  /** Spark's own plan, with a note of what would have run. */
  private def observe(aggregate: Aggregate, hint: Map[String, String]): Seq[SparkPlan] =
    OrStock("SkewAggregation", Seq.empty[SparkPlan]) {
      val stock = stockAggregation(aggregate)
      // PlaceGroups has noted it where the keys would be placed.
      val would = aggregate.getTagValue(GroupsOfPlan.WouldRun).getOrElse {
        try planned(aggregate, hint, stock).fold("nothing: " + _, _.options.strategy.name) catch {
          case wrong: SaltwiseException => s"nothing: ${wrong.getMessage}"
        }
      }
      stock.foreach(_.setTagValue(GroupsOfPlan.WouldRun, would))
      stock
    }

  private def planOrLeave(aggregate: Aggregate, hint: Map[String, String]): Seq[SparkPlan] =
    OrStock("SkewAggregation", Seq.empty[SparkPlan]) {
      val stock = stockAggregation(aggregate)
      planned(aggregate, hint, stock).fold(
        reason => stock.map(SkewLeftAloneExec(reason, _)),
        routing => stock.map(rewrite(aggregate, GroupingKeys.of(aggregate), routing, _)))
    }

  /** How an aggregate is rewritten, or why it is left alone. */
  private def planned(
      aggregate: Aggregate,
      hint: Map[String, String],
      stock: Seq[SparkPlan]): Either[String, RoutingOptions] = {
    val resolved = SkewOptions.resolve(hint, conf)
    val options =
      if (conf.adaptiveExecutionEnabled) resolved else resolved.withoutAdaptiveExecution
    val keys = GroupingKeys.of(aggregate)
    for {
      _ <- reasonToLeave(aggregate, options, stock).toLeft(())
      routing <- resolveHotKeys(keys, aggregate.child, options, inHint = hint.contains("hot"))
    } yield routing
  }

  private def rewrite(
      aggregate: Aggregate,
      keys: Seq[Expression],
      routing: RoutingOptions,
      stock: SparkPlan): SparkPlan = {
    val options = routing.options
    options.strategy match {
      case Auto | Split | Local => SkewGroupByExec(options, stock)
      case _ => stock.transformUp {
        case child @ PlanLater(logical) if logical eq aggregate.child =>
          route(keys, options, routing.hot, Nil, logical, child)
      }
    }
  }

  private lazy val state = SparkCompat.state(session)

  private lazy val stockAggregation: SparkStrategy = state.planner.Aggregation

  private def reasonToLeave(
      aggregate: Aggregate, options: SkewOptions, stock: Seq[SparkPlan]): Option[String] = {
    val aggregates = aggregateExpressions(aggregate)
    if (aggregates.exists(_.isDistinct) || isPhaseOfDistinct(aggregate)) {
      Some("a DISTINCT aggregate has phases of its own")
    } else if (aggregates.isEmpty) {
      Some(NoAggregateFunction)
    } else if (conf.getConfString(BypassPartial, "false").toBoolean) {
      Some(s"$BypassPartial is on, so there are no partial states to merge")
    } else if (!stock.forall(isTwoPhase(_, aggregate))) {
      Some(s"${functionNames(aggregates)} cannot be merged from partial states")
    } else if (options.workers == 1) {
      Some(OnePartition)
    } else if (PlaceGroups.meansOnlyPlacement(options.strategy)) {
      Some(s"strategy ${options.strategy.name} cannot place its keys")
    } else if (options.strategy != Auto) {
      None
    } else if (generatesCode(stock.head)) {
      Some(s"the states of ${functionNames(aggregates)} have a fixed size, and the map side " +
        "already combines them; name a strategy to rewrite all the same")
    } else if (NativeEngine.running(conf).isDefined) {
      NativeEngine.running(conf).map(engine =>
        s"$engine runs the aggregate outside of the JVM; name a strategy to rewrite all the same")
    } else if (aggregate.child.stats.sizeInBytes <= conf.getConf(SaltwiseConf.SmallInput)) {
      Some(smallInput(aggregate.child, conf))
    } else if (conf.adaptiveExecutionEnabled && SparkCompat.checksRows(conf) &&
        !isClustered(aggregate.groupingExpressions, aggregate.child) &&
        !StableColumns.sameRows(aggregate)) {
      Some("a task that runs again may read other rows, and Spark has to compare the two runs")
    } else {
      None
    }
  }

  /** Whether Spark generates code for both phases. Then no other plan combines rows faster. */
  private def generatesCode(stock: SparkPlan): Boolean = stock match {
    case node: HashAggregateExec => node.supportCodegen
    case _ => false
  }

  /** Whether the plan has exactly the phases Final and Partial, and reads the child once. */
  private def isTwoPhase(stock: SparkPlan, aggregate: Aggregate): Boolean = {
    val modes = stock.collect {
      case node: BaseAggregateExec => node.aggregateExpressions.map(_.mode).distinct
    }
    modes == Seq(Seq(Final), Seq(Partial)) &&
      stock.collect { case PlanLater(child) if child eq aggregate.child => child }.length == 1
  }
}

object SkewAggregation {
  val NoAggregateFunction =
    "there is no aggregate function, and the map side already drops repeated keys"
  val OnePartition = "there is one partition, so there is nothing to balance"
  val AlreadyGrouped = "its rows are already grouped by key, without another shuffle"

  private val BypassPartial = "spark.sql.execution.bypassPartialAggregation"

  /** @param hot the hot keys, if they are given. They fit the keys of the aggregate. */
  final case class RoutingOptions(options: SkewOptions, hot: Option[Seq[HotKey]])

  /**
   * Reads the given hot keys. Left is why the strategy cannot route these rows.
   *
   * @param inHint whether the hint gives the hot keys. Hot keys in the conf belong to one of the
   *               session's aggregates, and the others ignore them.
   */
  def resolveHotKeys(
      keys: Seq[Expression],
      rows: LogicalPlan,
      options: SkewOptions,
      inHint: Boolean): Either[String, RoutingOptions] = {
    val routing = try RoutingOptions(options, options.hot.map(HotKeys.parse(_, keys))) catch {
      case _: HotKeyMismatch if !inHint => RoutingOptions(options.copy(hot = None), None)
    }
    val reason = if (routing.options.dependsOnOrder) unstableRows(rows) else None
    reason.toLeft(routing)
  }

  /** Rows that may differ when a task runs again cannot be put into the same order again. */
  private def unstableRows(rows: LogicalPlan): Option[String] =
    if (StableColumns.staysInPlace(rows)) None else {
      val stable = StableColumns(rows)
      rows.output.find(!stable.contains(_)).map(column =>
        s"a task that runs again may compute another ${column.name}, and strategies that look at " +
          "the rows before cannot follow it; strategy hash and hot= can")
    }

  /** The rows of `logical`, after the strategy has sent each one to a worker. */
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

  /**
   * Whether this is one of the two aggregates that Spark makes of several DISTINCTs. The first one
   * groups by the group id `gid` too.
   */
  private def isPhaseOfDistinct(aggregate: Aggregate): Boolean = {
    def groupsById(plan: LogicalPlan): Boolean = plan match {
      case node: Aggregate if node.child.isInstanceOf[Expand] => node.groupingExpressions.exists {
        case key: Attribute => key.name == "gid" && key.dataType == IntegerType && !key.nullable
        case _ => false
      }
      case _ => false
    }
    groupsById(aggregate) || groupsById(aggregate.child)
  }

  /** Whether the logical plan shows that all rows of a key are already in one partition. */
  def isClustered(groupingKeys: Seq[Expression], rows: LogicalPlan): Boolean = {
    val keys = ExpressionSet(groupingKeys)
    def areKeys(expressions: Seq[Expression]): Boolean =
      expressions.nonEmpty && expressions.forall(keys.contains)
    def clustered(plan: LogicalPlan): Boolean = plan match {
      case node: RepartitionByExpression => areKeys(node.partitionExpressions)
      case node: Aggregate => areKeys(node.groupingExpressions)
      case node: Window => areKeys(node.partitionSpec)
      case node: Placed => areKeys(node.keys)
      case sort: Sort if !sort.global => clustered(sort.child)
      case node @ (_: Project | _: Filter | _: Generate | _: SkewGroupByHint) =>
        clustered(node.children.head)
      case stage: LogicalQueryStage => clustered(stage.logicalPlan)
      case _ => false
    }
    clustered(rows)
  }

  /** The reason to leave a small input alone. */
  def smallInput(rows: LogicalPlan, conf: SQLConf): String =
    s"its input has about ${rows.stats.sizeInBytes} bytes, and spark.saltwise.auto.smallInput is " +
      s"${conf.getConf(SaltwiseConf.SmallInput)}"
}
