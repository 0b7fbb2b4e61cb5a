package org.apache.spark.sql.saltwise.plan

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}

/** Holds the reason why the node right above was left unchanged. */
final case class LeftAlone(reason: String, child: LogicalPlan) extends PassesRows {
  override protected def withNewChildInternal(c: LogicalPlan): LeftAlone = copy(child = c)
}

/** Shows in EXPLAIN why an aggregate was left as Spark planned it. */
final case class SkewLeftAloneExec(reason: String, child: SparkPlan) extends TransparentExec {
  // The reason names sizes, which Spark knows better once a stage has run. The rows are the same.
  override protected def doCanonicalize(): SparkPlan = child.canonicalized
  override def simpleString(maxFields: Int): String = s"SkewGroupBy left alone: $reason"
  override protected def withNewChildInternal(c: SparkPlan): SkewLeftAloneExec = copy(child = c)
}

/**
 * Plans a [[LeftAlone]] as the operator that shows its reason.
 *
 * {{{
 *   before:  FlatMapGroupsInPandas(k) - LeftAlone(reason) - t
 *   after:   FlatMapGroupsInPandas(k) - Sort(k) - Exchange(k) - SkewLeftAlone(reason) - t
 * }}}
 */
object PlanLeftAlone extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case LeftAlone(reason, child) => SkewLeftAloneExec(reason, planLater(child)) :: Nil
    case _ => Nil
  }
}
