package org.apache.spark.sql.saltwise

import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, Complete}
import org.apache.spark.sql.catalyst.plans.logical.Aggregate
import org.apache.spark.sql.execution.{PlanLater, SparkPlan, UnionExec}
import org.apache.spark.sql.execution.aggregate._

/**
 * The `split` plan: rows are shuffled once by key, and only what turns out to be oversize is split.
 *
 * {{{
 *   before:  Final(k) - Exchange(k) - Partial(k) - t
 *
 *   after:   Union
 *            |- Complete(k) - WholePartitions - X
 *            +- Final(k) - Exchange(k) - Partial(k) - SlicedPartitions - X       X = Exchange(worker) - SkewRoute(k) - t
 * }}}
 *
 * Adaptive execution runs X once; then [[SplitSkewedPartitions]] sees what each partition received, and decides which
 * branch reads it. A row's partition is a function of its key alone, so any task may run again.
 */
object SplitAggregation {

  /** @param stock the aggregate as Spark planned it, in two phases */
  def apply(aggregate: Aggregate, options: SkewOptions, stock: SparkPlan): SparkPlan = {
    val content = aggregate.child.output.filter(StableColumns(aggregate.child).contains)
    def over(plan: SparkPlan, read: SparkPlan => SparkPlan): SparkPlan = plan.transformUp {
      case child @ PlanLater(logical) if logical eq aggregate.child =>
        val routed = SkewRouteExec(GroupingKeys.of(aggregate), options, None, Nil, child)
        SkewReceiveExec(read(ShuffleExchanges.byNumber(new WorkerPartitioning(options.workers), routed)))
    }
    UnionExec(Seq(
      over(inOnePhase(stock), WholePartitionsExec(options, None, _)),
      over(stock, SlicedPartitionsExec(content, None, _))))
  }

  /** Final over Partial, folded into Complete. Its rows are grouped by key already, which it need not ask for. */
  private def inOnePhase(stock: SparkPlan): SparkPlan = stock.transformDown {
    case last @ HashAggregateExec(_, _, _, _, _, _, _, _, first: HashAggregateExec) =>
      last.copy(None, groupingExpressions = first.groupingExpressions, initialInputBufferOffset = 0,
        aggregateExpressions = complete(first), child = first.child)
    case last @ ObjectHashAggregateExec(_, _, _, _, _, _, _, _, first: ObjectHashAggregateExec) =>
      last.copy(None, groupingExpressions = first.groupingExpressions, initialInputBufferOffset = 0,
        aggregateExpressions = complete(first), child = first.child)
    case last @ SortAggregateExec(_, _, _, _, _, _, _, _, first: SortAggregateExec) =>
      last.copy(None, groupingExpressions = first.groupingExpressions, initialInputBufferOffset = 0,
        aggregateExpressions = complete(first), child = first.child)
  }

  private def complete(first: BaseAggregateExec): Seq[AggregateExpression] =
    first.aggregateExpressions.map(_.copy(mode = Complete))
}
