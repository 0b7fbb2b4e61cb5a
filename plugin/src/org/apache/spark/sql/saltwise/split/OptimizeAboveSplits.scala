package org.apache.spark.sql.saltwise.split

import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.adaptive._
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.saltwise.plan.SkewLeftAloneExec

/**
 * What adaptive execution does once the exchange of Spark's own aggregate has run. Without rows,
 * all that depends on the aggregate is empty. A LIMIT that drops no row stays all the same: to sort
 * without it takes a range exchange, and Spark turns a plan down that has one exchange more. Here
 * it would not, because the exchange between the two phases is dropped in the same step.
 */
object OptimizeAboveSplits extends Rule[LogicalPlan] {
  private val FewRows = 10000L

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!plan.exists(rowsOf(_).isDefined)) plan else {
      val limited = plan.collect { case LocalLimit(_, child) => child }
      AQEPropagateEmptyRelation(plan.transformUp {
        case stage if rowsOf(stage).contains(BigInt(0)) => LocalRelation(stage.output)
      }).transformUp {
        case sort: Sort if sort.global && !limited.exists(_ eq sort) &&
            sort.exists(rowsOf(_).isDefined) && sort.maxRows.exists(_ <= FewRows) =>
          Limit(Literal(sort.maxRows.get.toInt), sort)
      }
    }

  /** The rows that the exchange below an aggregate of ours carried. */
  private def rowsOf(plan: LogicalPlan): Option[BigInt] = (plan match {
    case LogicalQueryStage(_, split: SkewSplitExec) =>
      split.collectFirst { case SplitReadExec(_, read) => read }
    case LogicalQueryStage(_, SkewLeftAloneExec(_, aggregate: BaseAggregateExec)) =>
      Some(aggregate.child).filter(_ => aggregate.groupingExpressions.nonEmpty)
    case _ => None
  }).collect { case stage: QueryStageExec if stage.isMaterialized => stage }
    .flatMap(_.getRuntimeStatistics.rowCount)
}
