package org.apache.spark.sql.saltwise

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.saltwise.compat.SparkCompat
import org.apache.spark.sql.saltwise.join.AggregateBelowJoin
import org.apache.spark.sql.saltwise.window.SliceWindows

/**
 * Puts rules behind the last one of Spark's optimizer. Rules that an extension injects run before
 * Spark prunes partitions, makes semi joins of subqueries, and adds filters by Bloom filters. This
 * rule runs while a query is resolved, so the session has the others in time.
 */
final case class LastRules(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    val methods = SparkCompat.state(session).experimentalMethods
    val missing = LastRules.rules.diff(methods.extraOptimizations)
    if (missing.nonEmpty) methods.extraOptimizations ++= missing
    plan
  }
}

object LastRules {
  private val rules: Seq[Rule[LogicalPlan]] = Seq(
    new Guarded[LogicalPlan]("AggregateBelowJoin")(AggregateBelowJoin),
    new Guarded[LogicalPlan]("SliceWindows")(SliceWindows))
}
