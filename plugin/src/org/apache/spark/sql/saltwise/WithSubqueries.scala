package org.apache.spark.sql.saltwise

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.{DynamicPruningSubquery, ScalarSubquery}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Subquery}
import org.apache.spark.sql.catalyst.trees.TreePattern.{
  DYNAMIC_PRUNING_SUBQUERY, SCALAR_SUBQUERY}

/**
 * Rewrites a query and the subqueries that stay in it.
 *
 * Spark optimizes each subquery alone first, then makes joins of some and one plan of several. So
 * one that comes alone stays as it is, and those that are left in the end are rewritten. To prune
 * the partitions of a table, Spark runs one side of a join again as a subquery, and takes the
 * exchange of that side if both plans are the same. So they have to become the same.
 */
object WithSubqueries {
  def apply(query: LogicalPlan)(rewrite: LogicalPlan => LogicalPlan): LogicalPlan = {
    // Equal subqueries stay equal, and run once.
    val seen = mutable.Map.empty[LogicalPlan, LogicalPlan]
    def rewritten(plan: LogicalPlan): LogicalPlan =
      rewrite(plan).transformAllExpressionsWithPruning(
          _.containsAnyPattern(SCALAR_SUBQUERY, DYNAMIC_PRUNING_SUBQUERY)) {
        case scalar: ScalarSubquery => scalar.withNewPlan(once(scalar.plan))
        case pruning: DynamicPruningSubquery => pruning.withNewPlan(once(pruning.plan))
      }
    def once(plan: LogicalPlan): LogicalPlan = seen.getOrElseUpdate(plan, rewritten(plan))
    query match {
      case _: Subquery => query
      case _ => rewritten(query)
    }
  }
}
