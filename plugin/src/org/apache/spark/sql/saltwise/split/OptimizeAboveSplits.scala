package org.apache.spark.sql.saltwise.split

import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.adaptive._
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.saltwise.plan.SkewLeftAloneExec

/**
 * Optimizes above an aggregate of Saltwise like adaptive execution does above Spark's own, once the
 * exchange has run.
 *
 * {{{
 *   before, without rows:  Join - [ LogicalQueryStage(SkewSplit), t ]
 *   after:                 Empty
 *
 *   before, with few rows: Sort - LogicalQueryStage(SkewSplit)
 *   after:                 Limit - Sort - LogicalQueryStage(SkewSplit)
 * }}}
 *
 * Spark drops a LIMIT that drops no row. Here it stays, or comes back. A sort without a LIMIT takes
 * a range exchange. Spark rejects its own new plan if it has one exchange more, and keeps the
 * LIMIT. It would accept the plan here, because the exchange between the two phases is dropped in
 * the same step.
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

  /** The rows that the exchange below an aggregate of Saltwise carried. */
  private def rowsOf(plan: LogicalPlan): Option[BigInt] = (plan match {
    case LogicalQueryStage(_, split: SkewSplitExec) =>
      split.collectFirst { case SplitReadExec(_, read) => read }
    case LogicalQueryStage(_, SkewLeftAloneExec(_, aggregate: BaseAggregateExec)) =>
      Some(aggregate.child).filter(_ => aggregate.groupingExpressions.nonEmpty)
    case _ => None
  }).collect { case stage: QueryStageExec if stage.isMaterialized => stage }
    .flatMap(_.getRuntimeStatistics.rowCount)
}
