package org.apache.spark.sql.saltwise.split

import org.apache.spark.{SparkContext, TaskContext}
import org.apache.spark.sql.catalyst.expressions.{Expression, UnaryExpression}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.saltwise.Split
import org.apache.spark.sql.saltwise.plan.ReportedPartitioning
import org.apache.spark.sql.types.DataType
import org.apache.spark.util.AccumulatorV2

/**
 * Spark's hash partitioning, which also counts the rows of each partition. All rules treat it as
 * Spark's own.
 *
 * @param received the rows of large partitions, once the exchange has run
 */
final class CountingPartitioning(keys: Seq[Expression], n: Int, val received: RowsReceived)
  extends HashPartitioning(keys, n) with ReportedPartitioning {

  override def sentBy: String = Split.name

  override def partitionIdExpression: Expression =
    CountRows(super.partitionIdExpression, n, received)

  override def nodeName: String = "HashPartitioning"

  override protected def withNewChildrenInternal(
      newKeys: IndexedSeq[Expression]): CountingPartitioning =
    new CountingPartitioning(newKeys, n, received)
}

/** Counts the rows of each partition in one map task. `child` is the partition of a row. */
final case class CountRows(child: Expression, n: Int, received: RowsReceived)
  extends UnaryExpression {

  @transient private lazy val counts = {
    val rows = new Array[Long](n)
    TaskContext.get().addTaskCompletionListener[Unit](_ => received.addTask(rows))
    rows
  }

  def count(partition: Int): Int = {
    counts(partition) += 1
    partition
  }

  override def nullable: Boolean = false
  override def dataType: DataType = child.dataType
  override protected def nullSafeEval(partition: Any): Any = count(partition.asInstanceOf[Int])

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val self = ctx.addReferenceObj("countRows", this)
    defineCodeGen(ctx, ev, partition => s"$self.count($partition)")
  }

  override protected def withNewChildInternal(c: Expression): CountRows = copy(child = c)
}

/**
 * The rows of a shuffle's large partitions, and the sum of all rows. A map task only sends the
 * counts of partitions that got more than their share of its rows, because there may be thousands
 * of tasks and partitions. A task that ran twice counts twice. This is only a measure of size, and
 * no answer depends on it.
 */
final class RowsReceived extends AccumulatorV2[(Int, Long), Map[Int, Long]] {
  import RowsReceived._

  private var rows = Map.empty[Int, Long]

  /** The sum of all rows, under a number that no partition has. */
  def total: Long = rows.getOrElse(All, 0L)

  def of(partition: Int): Long = rows.getOrElse(partition, 0L)

  def addTask(counts: Array[Long]): Unit = {
    val sum = counts.sum
    val large = math.max(MinRows, MinShare * sum / counts.length)
    add((All, sum))
    for (i <- counts.indices if counts(i) > large) add((i, counts(i)))
  }

  override def isZero: Boolean = rows.isEmpty
  override def copy(): RowsReceived = {
    val other = new RowsReceived
    other.rows = rows
    other
  }
  override def reset(): Unit = rows = Map.empty
  override def add(count: (Int, Long)): Unit =
    rows += count._1 -> (rows.getOrElse(count._1, 0L) + count._2)
  override def merge(other: AccumulatorV2[(Int, Long), Map[Int, Long]]): Unit =
    other.value.foreach(add)
  override def value: Map[Int, Long] = rows
}

object RowsReceived {
  private val All = -1
  private val MinRows = 64.0
  private val MinShare = 1.25

  def apply(context: SparkContext): RowsReceived = {
    val rows = new RowsReceived
    context.register(rows)
    rows
  }
}
