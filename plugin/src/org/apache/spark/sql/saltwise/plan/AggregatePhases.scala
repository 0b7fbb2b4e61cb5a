package org.apache.spark.sql.saltwise.plan

import org.apache.spark.sql.catalyst.expressions.{
  Attribute, Expression, NamedExpression, SortOrder}
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.execution.{SortExec, SparkPlan}
import org.apache.spark.sql.execution.aggregate._
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec

/**
 * An aggregate as Spark plans it, with a shuffle between its two phases:
 * `last(Final) - exchange(k) - first(Partial)`. A phase that sorts has a Sort below it.
 */
final case class AggregatePhases(
    last: BaseAggregateExec, exchange: ShuffleExchangeExec, first: BaseAggregateExec) {
  import AggregatePhases._

  /** What the first phase reads. */
  def rows: SparkPlan = belowSort(first)

  /** n, the number of partitions of the shuffle. */
  def workers: Int = exchange.outputPartitioning.numPartitions

  /**
   * The same two phases over other rows.
   *
   * @param grouping   the keys, made of the columns of `rows`
   * @param aggregates the functions, in terms of `rows`
   */
  def inTwoPhases(
      grouping: Seq[NamedExpression],
      aggregates: Seq[AggregateExpression],
      rows: SparkPlan): SparkPlan = {
    val keys = grouping.map(_.toAttribute)
    val functions = aggregates.map(_.aggregateFunction)
    val partial = replaced(
      first,
      clustered = first.requiredChildDistributionExpressions,
      grouping,
      aggregates.map(_.copy(mode = Partial)),
      functions.flatMap(_.aggBufferAttributes),
      offset = 0,
      keys ++ functions.flatMap(_.inputAggBufferAttributes),
      rows)
    replaced(
      last,
      last.requiredChildDistributionExpressions,
      keys,
      aggregates.map(_.copy(mode = Final, filter = None)),
      last.aggregateAttributes,
      last.initialInputBufferOffset,
      last.resultExpressions,
      exchange.withNewChildren(Seq(partial)))
  }

  /** The same two phases over the same rows, read by another operator. */
  def inTwoPhases(rows: SparkPlan): SparkPlan =
    inTwoPhases(first.groupingExpressions, first.aggregateExpressions, rows)

  /**
   * One phase over rows whose groups are whole.
   *
   * @param clustered whether the partitioning of the rows shows that groups are whole
   */
  def inOnePhase(
      grouping: Seq[NamedExpression],
      aggregates: Seq[AggregateExpression],
      clustered: Boolean,
      rows: SparkPlan): SparkPlan =
    replaced(
      last,
      if (clustered) Some(grouping.map(_.toAttribute)) else None,
      grouping,
      aggregates.map(_.copy(mode = Complete)),
      last.aggregateAttributes,
      offset = 0,
      last.resultExpressions,
      rows)

  def inOnePhase(clustered: Boolean, rows: SparkPlan): SparkPlan =
    inOnePhase(first.groupingExpressions, first.aggregateExpressions, clustered, rows)
}

object AggregatePhases {

  /** None if Spark needs no shuffle between the phases. */
  def of(stock: SparkPlan): Option[AggregatePhases] =
    Option(stock)
      .collect { case last: BaseAggregateExec if hasMode(last, Final) => last }
      .map(last => (last, belowSort(last)))
      .collect { case (last, exchange: ShuffleExchangeExec) => (last, exchange, exchange.child) }
      .collect { case (last, exchange, first: BaseAggregateExec) if hasMode(first, Partial) =>
        AggregatePhases(last, exchange, first)
      }

  private def hasMode(node: BaseAggregateExec, mode: AggregateMode): Boolean =
    node.aggregateExpressions.forall(_.mode == mode)

  /** What is below the sort that a phase needs. Any other sort is the user's. */
  private def belowSort(phase: BaseAggregateExec): SparkPlan = phase.child match {
    case SortExec(order, false, child, _)
        if order.nonEmpty && order == phase.requiredChildOrdering.head => child
    case other => other
  }

  private def replaced(
      node: BaseAggregateExec,
      clustered: Option[Seq[Expression]],
      grouping: Seq[NamedExpression],
      aggregates: Seq[AggregateExpression],
      attributes: Seq[Attribute],
      offset: Int,
      results: Seq[NamedExpression],
      rows: SparkPlan): SparkPlan = {
    // The three operators that aggregate have the same parameters.
    val phase = node.makeCopy(Array[AnyRef](clustered, Boolean.box(node.isStreaming),
      node.numShufflePartitions, grouping, aggregates, attributes, Int.box(offset), results, rows))
    val ordering = phase.requiredChildOrdering.head
    if (SortOrder.orderingSatisfies(rows.outputOrdering, ordering)) phase
    else phase.withNewChildren(Seq(SortExec(ordering, global = false, rows)))
  }
}
