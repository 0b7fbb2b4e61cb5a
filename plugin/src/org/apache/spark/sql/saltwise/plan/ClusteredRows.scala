package org.apache.spark.sql.saltwise.plan

import org.apache.spark.sql.catalyst.expressions.{Expression, ExpressionSet}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution.adaptive.LogicalQueryStage
import org.apache.spark.sql.saltwise.placement.Placed

/** Rows that are already grouped by key. */
object ClusteredRows {

  /** Whether the logical plan shows that all rows of a key are already in one partition. */
  def areIn(rows: LogicalPlan, groupingKeys: Seq[Expression]): Boolean = {
    val keys = ExpressionSet(groupingKeys)
    def areKeys(expressions: Seq[Expression]): Boolean =
      expressions.nonEmpty && expressions.forall(keys.contains)
    def clustered(plan: LogicalPlan): Boolean = plan match {
      case node: RepartitionByExpression => areKeys(node.partitionExpressions)
      case node: Aggregate => areKeys(node.groupingExpressions)
      case node: Window => areKeys(node.partitionSpec)
      case node: Placed => areKeys(node.keys)
      case sort: Sort if !sort.global => clustered(sort.child)
      case node @ (_: Project | _: Filter | _: Generate | _: SkewGroupByHint) =>
        clustered(node.children.head)
      case stage: LogicalQueryStage => clustered(stage.logicalPlan)
      case _ => false
    }
    clustered(rows)
  }
}
