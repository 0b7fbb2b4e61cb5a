package org.apache.spark.sql.saltwise.split

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, UnknownPartitioning}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.saltwise.SkewOptions
import org.apache.spark.sql.saltwise.plan.{AggregatePhases, UndecidedExec}

/**
 * An aggregate in two phases over a [[SplitReadExec]], in whose place [[SplitSkewedPartitions]]
 * puts the branches of a split. It is also correct if it stays.
 */
final case class SkewSplitExec(options: SkewOptions, child: SparkPlan) extends UndecidedExec {
  override def even: Option[SparkPlan] = for {
    phases <- AggregatePhases.of(child)
    read <- phases.rows.collectFirst { case SplitReadExec(_, read) => read }
  } yield phases.inOnePhase(clustered = true, read)

  override def inStock: Partitioning = outputPartitioning

  override def simpleString(maxFields: Int): String = {
    val keys = child.collectFirst { case node: BaseAggregateExec => node.groupingExpressions }
    s"SkewSplit ${keys.getOrElse(Nil).mkString("[", ", ", "]")}, $options"
  }

  override protected def withNewChildInternal(c: SparkPlan): SkewSplitExec = copy(child = c)
}

/**
 * Marks the exchange that the branches read once the rows of its partitions are counted.
 *
 * @param content columns that stay the same when a task runs again, so they may decide which rows
 *                of a slice a task takes
 */
final case class SplitReadExec(content: Seq[Attribute], child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning =
    UnknownPartitioning(child.outputPartitioning.numPartitions)
  override protected def doExecute(): RDD[InternalRow] = child.execute()
  override protected def withNewChildInternal(c: SparkPlan): SplitReadExec = copy(child = c)
}
