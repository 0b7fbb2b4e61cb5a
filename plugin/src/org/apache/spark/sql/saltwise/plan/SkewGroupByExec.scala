package org.apache.spark.sql.saltwise.plan

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet, SortOrder}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{CodegenSupport, SparkPlan, UnaryExecNode}
import org.apache.spark.sql.saltwise.SkewOptions
import org.apache.spark.sql.vectorized.ColumnarBatch

/**
 * A node above an aggregate that changes nothing for Spark: generated code, columnar batches,
 * partitioning and ordering pass through.
 */
trait TransparentExec extends UnaryExecNode with CodegenSupport {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override protected def doExecute(): RDD[InternalRow] = child.execute()

  override def supportsColumnar: Boolean = child.supportsColumnar
  override protected def doExecuteColumnar(): RDD[ColumnarBatch] = child.executeColumnar()

  override def supportCodegen: Boolean = child match {
    case code: CodegenSupport => code.supportCodegen
    case _ => false
  }
  override def usedInputs: AttributeSet = AttributeSet.empty
  override def inputRDDs(): Seq[RDD[InternalRow]] = child.asInstanceOf[CodegenSupport].inputRDDs()
  override protected def doProduce(ctx: CodegenContext): String =
    child.asInstanceOf[CodegenSupport].produce(ctx, this)
  override def doConsume(ctx: CodegenContext, input: Seq[ExprCode], row: ExprCode): String =
    consume(ctx, input)
}

/**
 * Marks an aggregate that [[RewriteSkewGroupBys]] rewrites with these options, once Spark has
 * placed the exchanges.
 */
final case class SkewGroupByExec(options: SkewOptions, child: SparkPlan) extends TransparentExec {
  override protected def withNewChildInternal(c: SparkPlan): SkewGroupByExec = copy(child = c)
}
