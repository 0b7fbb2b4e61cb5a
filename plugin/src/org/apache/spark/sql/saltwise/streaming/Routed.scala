package org.apache.spark.sql.saltwise.streaming

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.{CollectMetricsExec, SparkPlan, SparkStrategy}
import org.apache.spark.sql.saltwise.{OrStock, SkewOptions}
import org.apache.spark.sql.saltwise.plan.PassesRows
import org.apache.spark.sql.saltwise.routing.{HeadKey, HotKey, RoutedRows}

/**
 * Sends each row to the worker that a router chooses, so its output is not clustered by any column.
 *
 * @param name      the name of the metrics that every batch reports
 * @param showsKeys whether these have the values of hot keys, and not only their hashes
 */
final case class Routed(
    name: String,
    keys: Seq[Expression],
    options: SkewOptions,
    hot: Option[Seq[HotKey]],
    head: Seq[HeadKey],
    showsKeys: Boolean,
    child: LogicalPlan)
  extends PassesRows {
  override protected def withNewChildInternal(c: LogicalPlan): Routed = copy(child = c)
}

/**
 * Plans a [[Routed]] as the exchange to the workers, between the metrics of its rows and those of
 * its workers.
 *
 * {{{
 *   before:  Final - StateStoreSave - PartialMerge - StateStoreRestore - PartialMerge
 *              - Exchange(window, k) - Partial - Routed(k) - stream
 *   after:   Final - StateStoreSave - PartialMerge - StateStoreRestore - PartialMerge
 *              - Exchange(window, k) - Partial - CollectMetrics(rows of workers)
 *              - SkewReceive - Exchange(worker) - SkewRoute(k) - CollectMetrics(head of k) - stream
 * }}}
 *
 * If the exchange cannot be made, only the rows are planned.
 */
object PlanRouted extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case routed: Routed =>
      val rows = planLater(routed.child)
      OrStock("RouteStreams", rows)(exchange(routed, rows)) :: Nil
    case _ => Nil
  }

  private def exchange(node: Routed, rows: SparkPlan): SparkPlan = {
    val ofRows = StreamMetrics.ofRows(node.keys, node.options, node.hot, node.showsKeys)
    val observed = CollectMetricsExec(node.name, ofRows, rows)
    val routed =
      RoutedRows(node.keys, node.options, node.hot, node.child).plan(observed, node.head)
    CollectMetricsExec(
      node.name + StreamMetrics.Received, StreamMetrics.ofWorkers(node.options), routed)
  }
}
