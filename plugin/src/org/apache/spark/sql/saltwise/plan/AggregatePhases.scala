package org.apache.spark.sql.saltwise.plan

import org.apache.spark.sql.catalyst.expressions.{Expression, NamedExpression}
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.aggregate._

/** Turns the last of two phases of an aggregate into the only one. */
object AggregatePhases {

  /**
   * @param last         the phase that gives the results: they stay as they are
   * @param clustered    what the rows have to be grouped by
   * @param grouping     the keys, in terms of `child`
   * @param aggregates   the functions in Complete mode, in terms of `child`
   * @return None for an operator that is not Spark's own
   */
  def inOnePhase(
      last: SparkPlan,
      clustered: Option[Seq[Expression]],
      grouping: Seq[NamedExpression],
      aggregates: Seq[AggregateExpression],
      child: SparkPlan): Option[SparkPlan] = last match {
    case node: HashAggregateExec => Some(node.copy(clustered, groupingExpressions = grouping,
      aggregateExpressions = aggregates, initialInputBufferOffset = 0, child = child))
    case node: ObjectHashAggregateExec => Some(node.copy(clustered, groupingExpressions = grouping,
      aggregateExpressions = aggregates, initialInputBufferOffset = 0, child = child))
    case node: SortAggregateExec => Some(node.copy(clustered, groupingExpressions = grouping,
      aggregateExpressions = aggregates, initialInputBufferOffset = 0, child = child))
    case _ => None
  }
}
