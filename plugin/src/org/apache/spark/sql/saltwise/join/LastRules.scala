package org.apache.spark.sql.saltwise.join

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.saltwise.Guarded
import org.apache.spark.sql.saltwise.compat.SparkCompat

/**
 * Puts [[AggregateBelowJoin]] behind the last rule of Spark's optimizer. Rules that an extension
 * injects run before Spark prunes partitions, makes semi joins of subqueries, and adds filters by
 * Bloom filters. This rule runs while a query is resolved, so the session has the other in time.
 */
final case class LastRules(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    val methods = SparkCompat.state(session).experimentalMethods
    if (!methods.extraOptimizations.contains(LastRules.rule)) {
      methods.extraOptimizations :+= LastRules.rule
    }
    plan
  }
}

object LastRules {
  private val rule = new Guarded[LogicalPlan]("AggregateBelowJoin")(AggregateBelowJoin)
}
