package org.apache.spark.sql.saltwise.plan

import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.exchange.ValidateRequirements

/**
 * An aggregate in two phases, in whose place a rule puts another plan once the stages below have
 * run. So the partitions of its rows are not known yet.
 */
trait UndecidedExec extends TransparentExec {

  /** The aggregate in one phase, which it becomes if nothing is skewed. */
  def even: Option[SparkPlan]

  /** How the rows of the aggregate lie in stock Spark. */
  def inStock: Partitioning

  /**
   * The plan that it most likely becomes. Spark compares plans by this when it looks for an
   * exchange that it could use twice. It prunes partitions by a table that is broadcast only if it
   * finds that table in the plan, where the aggregate may be decided by then.
   */
  override protected def doCanonicalize(): SparkPlan = even.getOrElse(child).canonicalized

  /** `plan` with another plan in this one's place. */
  def replacedIn(plan: SparkPlan, decision: SparkPlan): SparkPlan =
    plan.transformDown { case node if node eq this => decision }

  /** The same, if what is above may rely on it as on this one. */
  def decidedIn(plan: SparkPlan, decision: SparkPlan): Option[SparkPlan] = {
    val after = replacedIn(plan, decision)
    // The plan before may lack something elsewhere, so it proves nothing about a decision.
    val fits = decision.outputPartitioning == outputPartitioning ||
      ValidateRequirements.validate(after)
    if (fits) Some(after) else None
  }
}
