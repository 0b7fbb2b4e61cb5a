package org.apache.spark.sql.saltwise.plan

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}

/** Shows in EXPLAIN why an aggregate was left as Spark planned it. The rows pass unchanged. */
final case class SkewLeftAloneExec(reason: String, child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override protected def doExecute(): RDD[InternalRow] = child.execute()
  override def simpleString(maxFields: Int): String = s"SkewGroupBy left alone: $reason"
  override protected def withNewChildInternal(newChild: SparkPlan): SkewLeftAloneExec =
    copy(child = newChild)
}
