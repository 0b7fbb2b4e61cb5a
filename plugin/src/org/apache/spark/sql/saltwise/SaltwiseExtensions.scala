package org.apache.spark.sql.saltwise

import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}
import org.apache.spark.sql.saltwise.auto.PlanAnalyzeKeys
import org.apache.spark.sql.saltwise.placement.PlaceGroups
import org.apache.spark.sql.saltwise.plan.{LiftSkewGroupByHint, ResolveSkewGroupByHint, SkewAggregation}
import org.apache.spark.sql.saltwise.routing.OrderRowsOfSkewWorkers
import org.apache.spark.sql.saltwise.sketch.Functions
import org.apache.spark.sql.saltwise.split.SplitSkewedPartitions
import org.apache.spark.sql.saltwise.streaming.RouteStreams

/**
 * The session extension: `spark.sql.extensions=org.apache.spark.sql.saltwise.SaltwiseExtensions`.
 *
 * With spark.saltwise.enabled off and no hint in a query, every rule returns the plan that it was given.
 */
class SaltwiseExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    Functions.all.foreach(extensions.injectFunction)
    extensions.injectTableFunction(Functions.analyze)
    extensions.injectPlannerStrategy(_ => PlanAnalyzeKeys)
    // Hints are resolved with the query: before, the blocks of a query cannot be told apart; after, Spark has
    // dropped the hints that nobody resolved.
    extensions.injectResolutionRule(_ => ResolveSkewGroupByHint)
    // Beside column pruning and filter pushdown, which the hint must not stop.
    extensions.injectOptimizerRule(_ => LiftSkewGroupByHint)
    // Once columns are pruned and filters pushed down, which placement would stand in the way of.
    extensions.injectPreCBORule(PlaceGroups(_))
    extensions.injectPreCBORule(RouteStreams(_))
    // Where Spark chooses operators: what is below an aggregate is not planned yet, so nothing is planned twice.
    extensions.injectPlannerStrategy(SkewAggregation(_))
    // Between the stages of adaptive execution.
    extensions.injectQueryStagePrepRule(_ => SplitSkewedPartitions)
    // Last, when no rule moves projections any more.
    extensions.injectColumnar(_ => new ColumnarRule {
      override def preColumnarTransitions: Rule[SparkPlan] = OrderRowsOfSkewWorkers
    })
  }
}
