package org.apache.spark.sql.saltwise

import org.apache.spark.SPARK_VERSION
import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}
import org.apache.spark.sql.saltwise.compat.SparkLinks
import org.apache.spark.sql.saltwise.join.{DropIdleCombine, DropUnusedSplit, PlanCombinedRows}
import org.apache.spark.sql.saltwise.placement.{ObservePlacement, PlaceGroups, PlanPlaced}
import org.apache.spark.sql.saltwise.plan._
import org.apache.spark.sql.saltwise.report.FollowQueries
import org.apache.spark.sql.saltwise.routing.OrderRowsOfSkewWorkers
import org.apache.spark.sql.saltwise.split._
import org.apache.spark.sql.saltwise.state.BalanceStates
import org.apache.spark.sql.saltwise.streaming.{PlanRouted, RouteStreams}
import org.apache.spark.sql.saltwise.window.{PlanWindowSlices, SampleWindowKeys, SliceHotKeys}

/**
 * The session extension: `spark.sql.extensions=org.apache.spark.sql.saltwise.SaltwiseExtensions`.
 *
 * With spark.saltwise.enabled off and no hint in a query, every rule returns its input unchanged.
 */
class SaltwiseExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit =
    OrStock("SaltwiseExtensions", ()) {
      SparkLinks.missing match {
        case None => register(extensions)
        case Some(lacking) => org.slf4j.LoggerFactory.getLogger(getClass).warn(
          s"Saltwise stays off, because Spark $SPARK_VERSION has no $lacking.")
      }
    }

  private def register(extensions: SparkSessionExtensions): Unit = {
    Functions.all.foreach(extensions.injectFunction)
    // While the query is resolved: earlier, its blocks look the same; later, Spark has dropped the
    // hints.
    extensions.injectResolutionRule(_ =>
      new Guarded("ResolveSkewGroupByHint", always = true)(ResolveSkewGroupByHint))
    // Before the optimizer begins, because it asks for its rules only once.
    extensions.injectResolutionRule(session =>
      new Guarded("LastRules", always = true)(LastRules(session)))
    // Together with column pruning and filter pushdown, because the hint must not stop them.
    extensions.injectOptimizerRule(_ => new Guarded("LiftSkewGroupByHint")(LiftSkewGroupByHint))
    // Before the rules below put other nodes in place of the hints.
    extensions.injectPreCBORule(session =>
      new Guarded("FollowQueries", always = true)(FollowQueries(session)))
    // After column pruning and filter pushdown, because placement would stop them.
    extensions.injectPreCBORule(session => new Guarded("PlaceGroups")(PlaceGroups(session)))
    extensions.injectPreCBORule(session =>
      new Guarded("ObservePlacement")(ObservePlacement(session)))
    extensions.injectPreCBORule(session => new Guarded("RouteStreams")(RouteStreams(session)))
    extensions.injectPreCBORule(session => new Guarded("BalanceStates")(BalanceStates(session)))
    extensions.injectPreCBORule(_ => new Guarded("NoteLimits")(NoteLimits))
    // Where Spark chooses operators.
    extensions.injectPlannerStrategy(session =>
      new GuardedStrategy("SkewAggregation")(SkewAggregation(session)))
    extensions.injectPlannerStrategy(session =>
      new GuardedStrategy("ObserveAggregates")(ObserveAggregates(session)))
    extensions.injectPlannerStrategy(session =>
      new GuardedStrategy("PlanRepartition")(PlanRepartition(session)))
    // The nodes that the rules above have put into the plan, which Spark does not know.
    extensions.injectPlannerStrategy(_ => new GuardedStrategy("PlanHint")(PlanHint))
    extensions.injectPlannerStrategy(_ => new GuardedStrategy("PlanLeftAlone")(PlanLeftAlone))
    extensions.injectPlannerStrategy(_ => new GuardedStrategy("PlanPlaced")(PlanPlaced))
    extensions.injectPlannerStrategy(_ => new GuardedStrategy("PlanRouted")(PlanRouted))
    extensions.injectPlannerStrategy(_ => new GuardedStrategy("PlanCombinedRows")(PlanCombinedRows))
    extensions.injectPlannerStrategy(_ => new GuardedStrategy("PlanWindowSlices")(PlanWindowSlices))
    // After Spark has placed the exchanges of an adaptive plan, and again after each of its stages.
    extensions.injectQueryStagePrepRule(_ =>
      new Guarded("RewriteSkewGroupBys")(RewriteSkewGroupBys(adaptive = true)))
    extensions.injectQueryStagePrepRule(_ => new Guarded("DropIdleCombine")(DropIdleCombine))
    extensions.injectQueryStagePrepRule(_ => new Guarded("DropUnusedSplit")(DropUnusedSplit))
    extensions.injectQueryStagePrepRule(_ =>
      new Guarded("SplitSkewedPartitions")(SplitSkewedPartitions))
    extensions.injectQueryStagePrepRule(_ => new Guarded("SampleWindowKeys")(SampleWindowKeys))
    extensions.injectQueryStagePrepRule(_ => new Guarded("SliceHotKeys")(SliceHotKeys))
    // After each of those stages.
    extensions.injectQueryStagePrepRule(_ =>
      new Guarded("AcceptOtherStates")(AcceptOtherStates))
    // After each of those stages, on the rest of the logical plan.
    extensions.injectRuntimeOptimizerRule(_ =>
      new Guarded("OptimizeAboveSplits")(OptimizeAboveSplits))
    // Last, because no rule moves projections after this point.
    extensions.injectColumnar(_ => new AtTheEnd("OrderRowsOfSkewWorkers")(OrderRowsOfSkewWorkers))
    // An adaptive plan has no aggregate left to rewrite here.
    extensions.injectColumnar(_ =>
      new AtTheEnd("RewriteSkewGroupBys")(RewriteSkewGroupBys(adaptive = false)))
    extensions.injectColumnar(_ => new AtTheEnd("DropIdleCombine")(DropIdleCombine))
  }

  private class AtTheEnd(part: String)(make: => Rule[SparkPlan]) extends ColumnarRule {
    override val preColumnarTransitions: Rule[SparkPlan] = new Guarded(part)(make)
  }
}
