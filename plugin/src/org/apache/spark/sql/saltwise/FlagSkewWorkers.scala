package org.apache.spark.sql.saltwise

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}

/**
 * Flags stages in which `skew_worker` gives rows their workers: such a choice depends on the order of rows, so
 * Spark must know, or a map task that runs again would give it anew and rows would be lost or counted twice.
 *
 * {{{
 *   before:  Project(skew_worker(...)) - child
 *   after:   Project(skew_worker(...)) - OrderSensitive - child
 * }}}
 */
object FlagSkewWorkers extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
    case node: UnaryExecNode if node.expressions.exists(_.exists(dependsOnOrder)) &&
        !node.child.isInstanceOf[OrderSensitiveExec] =>
      node.withNewChildren(Seq(OrderSensitiveExec(node.child)))
  }

  private def dependsOnOrder(expression: Any): Boolean = expression match {
    case worker: SkewWorker => worker.options.dependsOnOrder
    case _ => false
  }
}

/** Hands rows on, and tells Spark that what is made of them depends on their order. */
final case class OrderSensitiveExec(child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering

  override protected def doExecute(): RDD[InternalRow] =
    child.execute().mapPartitionsWithIndex(
      (_: Int, rows: Iterator[InternalRow]) => rows, preservesPartitioning = true, isOrderSensitive = true)

  override protected def withNewChildInternal(newChild: SparkPlan): OrderSensitiveExec = copy(child = newChild)
}
