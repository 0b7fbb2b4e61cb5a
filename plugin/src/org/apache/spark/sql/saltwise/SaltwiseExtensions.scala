package org.apache.spark.sql.saltwise

import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}
import org.apache.spark.sql.saltwise.placement.PlaceGroups
import org.apache.spark.sql.saltwise.plan._
import org.apache.spark.sql.saltwise.routing.OrderRowsOfSkewWorkers
import org.apache.spark.sql.saltwise.sketch.Functions
import org.apache.spark.sql.saltwise.split.{OptimizeAboveSplits, SplitSkewedPartitions}
import org.apache.spark.sql.saltwise.streaming.RouteStreams

/**
 * The session extension: `spark.sql.extensions=org.apache.spark.sql.saltwise.SaltwiseExtensions`.
 *
 * With spark.saltwise.enabled off and no hint in a query, every rule returns its input unchanged.
 */
class SaltwiseExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    Functions.all.foreach(extensions.injectFunction)
    // With the query: before, its blocks cannot be told apart; after, Spark has dropped the hints.
    extensions.injectResolutionRule(_ => ResolveSkewGroupByHint)
    // Together with column pruning and filter pushdown, because the hint must not stop them.
    extensions.injectOptimizerRule(_ => LiftSkewGroupByHint)
    // After column pruning and filter pushdown, because placement would stop them.
    extensions.injectPreCBORule(PlaceGroups(_))
    extensions.injectPreCBORule(RouteStreams(_))
    // Where Spark chooses operators. The child of an aggregate is not planned yet at this point, so
    // nothing is planned twice.
    extensions.injectPlannerStrategy(SkewAggregation(_))
    // After Spark has placed the exchanges of an adaptive plan, and again after each of its stages.
    extensions.injectQueryStagePrepRule(_ => RewriteSkewGroupBys(adaptive = true))
    extensions.injectQueryStagePrepRule(_ => SplitSkewedPartitions)
    // After each of those stages, on what is left of the logical plan.
    extensions.injectRuntimeOptimizerRule(_ => OptimizeAboveSplits)
    // Last, because no rule moves projections after this point.
    extensions.injectColumnar(_ => new AtTheEnd(OrderRowsOfSkewWorkers))
    // An adaptive plan has no aggregate left to rewrite here.
    extensions.injectColumnar(_ => new AtTheEnd(RewriteSkewGroupBys(adaptive = false)))
  }

  private class AtTheEnd(override val preColumnarTransitions: Rule[SparkPlan]) extends ColumnarRule
}
