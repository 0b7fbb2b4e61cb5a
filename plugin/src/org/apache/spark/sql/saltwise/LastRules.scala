package org.apache.spark.sql.saltwise

import scala.collection.mutable

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.ScalarSubquery
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Subquery}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.SCALAR_SUBQUERY
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
    new WithSubqueries(new Guarded[LogicalPlan]("AggregateBelowJoin")(AggregateBelowJoin)),
    new WithSubqueries(new Guarded[LogicalPlan]("SliceWindows")(SliceWindows)))

  /**
   * Spark optimizes each subquery alone first, then makes joins of some and one plan of several. So
   * the rule takes none that comes alone, and those that are left in the end.
   */
  private final class WithSubqueries(rule: Rule[LogicalPlan]) extends Rule[LogicalPlan] {
    override def apply(plan: LogicalPlan): LogicalPlan = plan match {
      case _: Subquery => plan
      case query => inSubqueries(rule(query), mutable.Map.empty)
    }

    /** @param seen what became of subqueries, so that equal ones stay equal, and run once */
    private def inSubqueries(
        plan: LogicalPlan, seen: mutable.Map[LogicalPlan, LogicalPlan]): LogicalPlan =
      plan.transformAllExpressionsWithPruning(_.containsPattern(SCALAR_SUBQUERY)) {
        case subquery: ScalarSubquery =>
          subquery.withNewPlan(seen.getOrElseUpdate(
            subquery.plan, inSubqueries(rule(subquery.plan), seen)))
      }
  }
}
