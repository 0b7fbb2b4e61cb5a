package org.apache.spark.sql.saltwise.streaming

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.saltwise._
import org.apache.spark.sql.saltwise.compat.{GroupMap, SparkCompat}
import org.apache.spark.sql.saltwise.plan.{GroupingKeys, LeftAlone, ReasonToLeave, SkewGroupByHint}
import org.apache.spark.sql.saltwise.routing.{HeadKey, RoutedRows}
import org.apache.spark.sql.saltwise.sketch.SketchArguments

/**
 * Sends the rows of a streaming aggregate to workers first, like
 * [[org.apache.spark.sql.saltwise.plan.SkewAggregation]] does for tables. Spark plans the rest.
 *
 * {{{
 *   stream.groupBy(window(time, "1 hour"), k).agg(collect_set(v))
 *
 *   before:  Aggregate(window, k) - stream
 *   after:   Aggregate(window, k) - Routed(k, head of the last batches) - stream
 * }}}
 *
 * The state store keeps the same states in the same places. So a query can restart from its
 * checkpoint with Saltwise on or off.
 *
 * Each batch is planned anew. It counts its keys as metrics, which
 * `StreamingQueryProgress.observedMetrics` shows. The routers of the next batch start with the head
 * of the last one, and follow it as it drifts. The driver decides what they start with, so any task
 * may run again. The first batch after a start has no head.
 */
final case class RouteStreams(session: SparkSession) extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (SaltwiseConf.observes(conf) ||
        (!plan.isStreaming && !plan.exists(_.isInstanceOf[SkewGroupByHint]))) {
      plan
    } else {
      val names = Iterator("saltwise") ++ Iterator.from(2).map(number => s"saltwise.$number")
      plan.transformUp {
        case aggregate: Aggregate if aggregate.isStreaming && !isPlanned(aggregate.child) =>
          val hint = SkewGroupByHint.below(aggregate).map(_.options)
          if (hint.isEmpty && !SaltwiseConf.isOn(conf)) aggregate
          else OrStock[LogicalPlan]("RouteStreams", aggregate)(routeOrLeave(aggregate, hint, names))
        case node: UnaryNode if GroupMap.keepsState(node) &&
            SkewGroupByHint.below(node).isDefined && !isPlanned(node.child) =>
          node.withNewChildren(Seq(LeftAlone(StateByHash, node.child)))
      }
    }

  private val StateByHash =
    "Spark keeps the states of streams by its own hash of the key, and looks for them nowhere else"

  private def isPlanned(rows: LogicalPlan): Boolean =
    rows.isInstanceOf[Routed] || rows.isInstanceOf[LeftAlone]

  private def routeOrLeave(
      aggregate: Aggregate,
      hint: Option[Map[String, String]],
      names: Iterator[String]): LogicalPlan = {
    val options = SkewOptions.resolve(hint.getOrElse(Map.empty), conf)
    val below = reasonToLeave(aggregate, options) match {
      case Some(reason) => LeftAlone(reason, aggregate.child)
      case None =>
        // Streams with state run without adaptive execution.
        val online = options.withoutAdaptiveExecution
        routed(names.next(), aggregate, online, hotInHint = hint.exists(_.contains("hot")))
    }
    aggregate.withNewChildren(Seq(below))
  }

  private def reasonToLeave(aggregate: Aggregate, options: SkewOptions): Option[String] = {
    lazy val keyTypes = aggregate.groupingExpressions.map(_.dataType)
    if (aggregate.aggregateExpressions.forall(!_.exists(_.isInstanceOf[AggregateExpression]))) {
      Some(ReasonToLeave.NoAggregateFunction)
    } else if (options.strategy == Auto) {
      Some("the map side of a streaming aggregate already combines; name a strategy to route its " +
        "rows all the same")
    } else if (!isOnline(options.strategy)) {
      Some(s"strategy ${options.strategy.name} has no plan for streams: $StateByHash")
    } else if (keyTypes.exists(GroupingKeys.hasMaps)) {
      Some("a sketch takes no maps")
    } else if (showsKeys &&
        keyTypes.exists(SketchArguments.levels(_) >= SketchArguments.MaxLevels)) {
      Some(s"its keys have ${SketchArguments.MaxLevels} or more levels of structs and arrays")
    } else if (showsKeys && !keyTypes.forall(StreamMetrics.canShow)) {
      val hidden = keyTypes.filterNot(StreamMetrics.canShow).head
      Some(s"this Spark cannot show keys of ${hidden.sql} in a stream's progress")
    } else if (options.workers == 1) {
      Some(ReasonToLeave.OnePartition)
    } else {
      None
    }
  }

  private def isOnline(strategy: Strategy): Boolean = strategy match {
    case _: Routing | Split => true
    case _ => false
  }

  private def routed(
      name: String,
      aggregate: Aggregate,
      options: SkewOptions,
      hotInHint: Boolean): LogicalPlan = {
    val (keys, rows) = (withoutWindow(GroupingKeys.of(aggregate)), aggregate.child)
    RoutedRows.of(keys, rows, options, hotInHint).fold(
      reason => LeftAlone(reason, rows),
      routed => Routed(name, keys, routed.options, routed.hot,
        lastHead(name, keys, routed.options), showsKeys, rows))
  }

  private def showsKeys: Boolean = conf.getConf(SaltwiseConf.ReportKeys)

  /**
   * A hot key is hot in window after window, so the key that is routed leaves the window out,
   * unless there is no other column.
   */
  private def withoutWindow(keys: Seq[Expression]): Seq[Expression] = {
    val windowMarkers = Seq(TimeWindow.marker, SessionWindow.marker)
    val others = keys.filter {
      case key: NamedExpression => !windowMarkers.exists(key.metadata.contains)
      case _ => true
    }
    if (others.isEmpty) keys else others
  }

  /** The head of the last batches of this query. */
  private def lastHead(
      name: String, keys: Seq[Expression], options: SkewOptions): Seq[HeadKey] =
    SparkCompat.runningStream(session).toSeq.flatMap { query =>
      val metrics =
        query.recentProgress.toSeq.flatMap(batch => Option(batch.observedMetrics.get(name)))
      StreamMetrics.head(metrics, keys, options, showsKeys)
    }
}
