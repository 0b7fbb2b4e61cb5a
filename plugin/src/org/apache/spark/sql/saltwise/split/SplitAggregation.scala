package org.apache.spark.sql.saltwise.split

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.logical.Aggregate
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, UnknownPartitioning}
import org.apache.spark.sql.execution.{PlanLater, SparkPlan, UnaryExecNode}
import org.apache.spark.sql.saltwise.SkewOptions
import org.apache.spark.sql.saltwise.compat.SparkCompat
import org.apache.spark.sql.saltwise.plan.GroupingKeys
import org.apache.spark.sql.saltwise.routing._

/**
 * The `split` plan: rows are shuffled once by key, and only oversize partitions are split.
 *
 * {{{
 *   before:   Final(k) - Exchange(k) - Partial(k) - t
 *
 *   planned:  SkewSplit - Final(k) - Exchange(k) - Partial(k) - SplitRead - X
 *
 *   decided:  Union
 *             |- Complete(k) - WholePartitions - X
 *             +- Final(k) - Exchange(k) - Partial(k) - SlicedPartitions - X
 *
 *   where     X = Exchange(worker) - SkewRoute(k) - t
 * }}}
 *
 * Adaptive execution runs X. Then [[SplitSkewedPartitions]] sees how many rows each partition
 * received, and decides. The planned form is also correct if nothing decides. A row's partition is
 * a function of its key alone, so any task may run again.
 */
object SplitAggregation {

  /** @param stock the aggregate as Spark planned it, in two phases */
  def apply(aggregate: Aggregate, options: SkewOptions, stock: SparkPlan): SparkPlan = {
    val content = aggregate.child.output.filter(StableColumns(aggregate.child).contains)
    SkewSplitExec(stock.transformUp {
      case child @ PlanLater(logical) if logical eq aggregate.child =>
        val routed = SkewRouteExec(GroupingKeys.of(aggregate), options, None, Nil, Nil, child)
        val shuffled = SparkCompat.exchange(new WorkerPartitioning(options.workers), routed)
        SkewReceiveExec(SplitReadExec(options, content, shuffled))
    })
  }
}

/**
 * The place where the two branches of a split will meet. It hides the partitioning and ordering of
 * the plan below, because the split may change them.
 */
final case class SkewSplitExec(child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning =
    UnknownPartitioning(child.outputPartitioning.numPartitions)
  override def outputOrdering: Seq[SortOrder] = Nil
  override protected def doExecute(): RDD[InternalRow] = child.execute()
  override protected def withNewChildInternal(newChild: SparkPlan): SkewSplitExec =
    copy(child = newChild)
}

/**
 * Marks the exchange that both branches read, once the rows in its partitions are counted.
 *
 * @param content columns that stay the same when a task runs again, so they may decide which rows
 *                of a slice a task takes
 */
final case class SplitReadExec(options: SkewOptions, content: Seq[Attribute], child: SparkPlan)
  extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning =
    UnknownPartitioning(child.outputPartitioning.numPartitions)
  override protected def doExecute(): RDD[InternalRow] = child.execute()
  override protected def withNewChildInternal(newChild: SparkPlan): SplitReadExec =
    copy(child = newChild)
}
