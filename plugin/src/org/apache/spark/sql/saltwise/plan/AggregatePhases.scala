package org.apache.spark.sql.saltwise.plan

import org.apache.spark.sql.catalyst.expressions.{Expression, NamedExpression}
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.aggregate._

/** Turns an aggregate in two phases into one in a single phase. */
object AggregatePhases {

  /**
   * The last phase, reading `child` in place of the first phase. Its result columns stay.
   *
   * @param last       the phase that returns the results
   * @param clustered  the required clustering of the rows; None where they are grouped already
   * @param grouping   the keys, in terms of `child`
   * @param aggregates the functions in Complete mode, in terms of `child`
   * @return None where `last` is not an operator of Spark
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
