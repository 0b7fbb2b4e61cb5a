package org.apache.spark.sql.saltwise.plan

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}

/**
 * Plans a [[SkewGroupByHint]] as no operator. The aggregate above has read its options.
 *
 * {{{
 *   before:  Aggregate(k) - SkewGroupByHint - t
 *   after:   Final(k) - Exchange(k) - Partial(k) - t
 * }}}
 */
object PlanHint extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case SkewGroupByHint(_, child) => planLater(child) :: Nil
    case _ => Nil
  }
}
