package org.apache.spark.sql.saltwise.streaming

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{CollectMetricsExec, SparkPlan}
import org.apache.spark.sql.saltwise.{Auto, DChoices, Routing, SaltwiseConf, SkewOptions, Split, Strategy}
import org.apache.spark.sql.saltwise.compat.{GroupMap, SparkCompat}
import org.apache.spark.sql.saltwise.placement.{LeftAlone}
import org.apache.spark.sql.saltwise.plan.{GroupingKeys, OrStock, SkewAggregation, SkewGroupByHint}
import org.apache.spark.sql.saltwise.routing.{HeadKey, HotKey}
import org.apache.spark.sql.types.MapType

/** Its rows lie by no column: a router sent each to a worker. `name` is that of the metrics which every batch reports. */
final case class Routed(
    name: String,
    keys: Seq[Expression],
    options: SkewOptions,
    hot: Option[Seq[HotKey]],
    head: Seq[HeadKey],
    child: LogicalPlan)
  extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override def maxRows: Option[Long] = child.maxRows
  override protected def withNewChildInternal(newChild: LogicalPlan): Routed = copy(child = newChild)

  def exchange(rows: SparkPlan): SparkPlan = {
    val observed = CollectMetricsExec(name, StreamMetrics.ofRows(keys, options, hot), rows)
    val routed = SkewAggregation.route(keys, options, hot, head, child, observed)
    CollectMetricsExec(name + StreamMetrics.Received, StreamMetrics.ofWorkers(options), routed)
  }
}

/**
 * Sends the rows of a streaming aggregate to workers first, as [[SkewAggregation]] does for tables; Spark plans the rest.
 *
 * {{{
 *   stream.groupBy(window(time, "1 hour"), k).agg(collect_set(v))
 *
 *   before:  Final - StateStoreSave - PartialMerge - StateStoreRestore - PartialMerge - Exchange(window, k) - Partial - stream
 *   after:   the same, and  Partial - SkewReceive - Exchange(worker) - SkewRoute(k) - CollectMetrics(head of k) - stream
 * }}}
 *
 * What is kept in the state store, and where, is untouched: a checkpoint goes on with Saltwise on or off.
 *
 * Each batch is planned anew. It counts its keys, as metrics that `StreamingQueryProgress.observedMetrics` shows, and the
 * routers of the next batch begin with its head: they know it from their first row on, and follow it as it drifts. What
 * they begin with is settled on the driver, so any task may run again. The first batch after a start knows nothing.
 */
final case class RouteStreams(session: SparkSession) extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!plan.isStreaming && !plan.exists(_.isInstanceOf[SkewGroupByHint])) plan else {
      val names = Iterator("saltwise") ++ Iterator.from(2).map(number => s"saltwise.$number")
      plan.transformUp {
        case aggregate: Aggregate if aggregate.isStreaming && !isPlanned(aggregate.child) =>
          val hint = SkewGroupByHint.below(aggregate).map(_.options)
          if (hint.isEmpty && !conf.getConf(SaltwiseConf.Enabled)) aggregate
          else OrStock[LogicalPlan](aggregate) {
            val options = SkewOptions.resolve(hint.getOrElse(Map.empty), conf)
            val below = reasonToLeave(aggregate, options) match {
              case Some(reason) => LeftAlone(reason, aggregate.child)
              case None => routed(names.next(), aggregate, options, hint.exists(_.contains("hot")))
            }
            aggregate.withNewChildren(Seq(below))
          }
        case node: UnaryNode if GroupMap.keepsState(node) && SkewGroupByHint.below(node).isDefined && !isPlanned(node.child) =>
          node.withNewChildren(Seq(LeftAlone(StateByHash, node.child)))
      }
    }

  private val StateByHash = "Spark keeps the states of streams by its own hash of the key, and looks for them nowhere else"

  private def isPlanned(rows: LogicalPlan): Boolean = rows.isInstanceOf[Routed] || rows.isInstanceOf[LeftAlone]

  private def reasonToLeave(aggregate: Aggregate, options: SkewOptions): Option[String] = {
    if (aggregate.aggregateExpressions.forall(!_.exists(_.isInstanceOf[AggregateExpression]))) {
      Some("there is no aggregate function, and the map side already drops repeated keys")
    } else if (options.strategy == Auto) {
      Some("the map side of a streaming aggregate already combines; name a strategy to route its rows all the same")
    } else if (!isOnline(options.strategy)) {
      Some(s"strategy ${options.strategy.name} has no plan for streams: $StateByHash")
    } else if (aggregate.groupingExpressions.exists(_.dataType.existsRecursively(_.isInstanceOf[MapType]))) {
      Some("a sketch takes no maps")
    } else if (options.workers == 1) {
      Some("there is one partition, so there is nothing to balance")
    } else {
      None
    }
  }

  private def isOnline(strategy: Strategy): Boolean = strategy match {
    case _: Routing | Split => true
    case _ => false
  }

  private def routed(name: String, aggregate: Aggregate, asked: SkewOptions, hotOfThisQuery: Boolean): LogicalPlan = {
    // Nobody could decide a split: streams with state run without adaptive execution.
    val online = if (asked.strategy == Split) asked.copy(strategy = DChoices(asked.parameters)) else asked
    val keys = withoutWindow(GroupingKeys.of(aggregate))
    val (options, hot) = SkewAggregation.hotKeys(keys, online, hotOfThisQuery)
    val unstable = if (options.dependsOnOrder) SkewAggregation.unstableRows(aggregate.child) else None
    unstable match {
      case Some(reason) => LeftAlone(reason, aggregate.child)
      case None => Routed(name, keys, options, hot, carriedOver(name, keys, options), aggregate.child)
    }
  }

  /** What is hot is hot in window after window, so the window is no part of the key, unless it is all of it. */
  private def withoutWindow(keys: Seq[Expression]): Seq[Expression] = {
    val others = keys.filter {
      case key: NamedExpression => !Seq(TimeWindow.marker, SessionWindow.marker).exists(key.metadata.contains)
      case _ => true
    }
    if (others.isEmpty) keys else others
  }

  /** The head of the last batches of this query. */
  private def carriedOver(name: String, keys: Seq[Expression], options: SkewOptions): Seq[HeadKey] =
    SparkCompat.runningStream(session).toSeq.flatMap { query =>
      StreamMetrics.head(query.recentProgress.toSeq.flatMap(batch => Option(batch.observedMetrics.get(name))), keys, options)
    }
}
