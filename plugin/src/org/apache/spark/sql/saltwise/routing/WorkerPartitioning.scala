package org.apache.spark.sql.saltwise.routing

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, LeafExpression}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode, FalseLiteral}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.saltwise.plan.ReportedPartitioning
import org.apache.spark.sql.types.{DataType, IntegerType}

/**
 * Partitions rows by the worker that the SkewRoute right below gave them.
 *
 * Spark's exchange accepts only Spark's own partitionings, so this is a HashPartitioning whose
 * partition id is not a hash. Its expression is not a grouping key, so it satisfies no required
 * clustering.
 *
 * The worker is not a column, so rows are not copied and do not grow in the shuffle.
 */
final class WorkerPartitioning(workers: Int)
  extends HashPartitioning(Seq(CurrentWorker()), workers) with ReportedPartitioning {

  override def sentBy: String = "routed"
  override def partitionIdExpression: Expression = expressions.head
  override protected def withNewChildrenInternal(
      children: IndexedSeq[Expression]): WorkerPartitioning = this
  override def equals(other: Any): Boolean = other match {
    case that: WorkerPartitioning => that.numPartitions == numPartitions
    case _ => false
  }
  override def hashCode(): Int = 31 * classOf[WorkerPartitioning].hashCode + workers
  override def toString: String = s"skewpartitioning($workers)"
}

/**
 * The worker of the row that SkewRoute returned last. The exchange reads it once for each row, in
 * the same thread.
 */
final case class CurrentWorker() extends LeafExpression {
  @transient private lazy val current = CurrentWorker.threadHolder.get()

  override def nullable: Boolean = false
  override def dataType: DataType = IntegerType
  override lazy val deterministic: Boolean = false

  def get(): Int = current.worker

  override def eval(row: InternalRow): Any = get()

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val self = ctx.addReferenceObj("currentWorker", this)
    ev.copy(code = code"final int ${ev.value} = $self.get();", isNull = FalseLiteral)
  }
}

object CurrentWorker {
  /** SkewRoute writes the worker, and the exchange above reads it. */
  final class Holder {
    var worker: Int = 0
  }

  private val threadHolder = new ThreadLocal[Holder]

  /** Call this at the start of a task, before its first row. */
  def begin(): Holder = {
    val holder = new Holder
    threadHolder.set(holder)
    holder
  }
}
