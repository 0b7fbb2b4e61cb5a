package org.apache.spark.sql.saltwise.split

import org.apache.spark.sql.catalyst.expressions.{IntegerLiteral, Literal}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
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
 *   before, if the query had LIMIT 10 here, and Spark has dropped it, because there are 8 rows:
 *                          Sort - LogicalQueryStage(SkewSplit)
 *   after:                 Limit(10) - Sort - LogicalQueryStage(SkewSplit)
 * }}}
 *
 * A sort without a LIMIT takes a range exchange. Spark rejects its own new plan if it has one
 * exchange more, and keeps the LIMIT. It would accept the plan here, because the exchange between
 * the two phases is dropped in the same step.
 */
object OptimizeAboveSplits extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!plan.exists(rowsOf(_).isDefined)) plan else {
      val limited = plan.collect { case NoteLimits.LimitedSort(_, sort) => sort }
      AQEPropagateEmptyRelation(plan.transformUp {
        case stage if rowsOf(stage).contains(BigInt(0)) => LocalRelation(stage.output)
      }).transformUp {
        case sort: Sort if !limited.exists(_ eq sort) && sort.exists(rowsOf(_).isDefined) =>
          NoteLimits.of(sort).fold[LogicalPlan](sort)(limit => Limit(Literal(limit), sort))
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

/**
 * Notes at each global sort the LIMIT that the query has right above it, for
 * [[OptimizeAboveSplits]]. The plan stays as it is.
 */
object NoteLimits extends Rule[LogicalPlan] {
  private val Noted = TreeNodeTag[Int]("saltwise.limit")

  /** A sort and its LIMIT, as Spark looks for them when it plans both as one operator. */
  object LimitedSort {
    def unapply(plan: LogicalPlan): Option[(Int, Sort)] = plan match {
      case Limit(IntegerLiteral(limit), sort: Sort) if sort.global => Some((limit, sort))
      case Limit(IntegerLiteral(limit), Project(_, sort: Sort)) if sort.global =>
        Some((limit, sort))
      case _ => None
    }
  }

  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan.foreach {
      case LimitedSort(limit, sort) => sort.setTagValue(Noted, limit)
      case _ =>
    }
    plan
  }

  def of(sort: Sort): Option[Int] = sort.getTagValue(Noted)
}
