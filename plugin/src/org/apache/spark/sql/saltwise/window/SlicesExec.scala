package org.apache.spark.sql.saltwise.window

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection
import org.apache.spark.sql.catalyst.expressions.JoinedRow
import org.apache.spark.sql.execution.UnaryExecNode
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.saltwise.plan.ReportedSlices
import org.apache.spark.sql.types.DataType

/** An operator whose tasks have slices of the partitions of a window. */
trait SlicesExec extends UnaryExecNode with ReportedSlices {

  /** The numbers of the slices of each partition of the window. */
  def partitions: Slices

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "slices" -> SQLMetrics.createMetric(sparkContext, "slices"),
    "longest" -> SQLMetrics.createMetric(sparkContext, "rows of the longest slice"),
    "rows" -> SQLMetrics.createMetric(sparkContext, "rows"))

  /** What the map tasks of the exchange below sent to each slice. */
  private[window] final def slicesOf(
      rows: RDD[InternalRow],
      sent: OfTasks[Seq[SentSlice]],
      states: SliceStates,
      near: Option[NearRows]): Seq[SentSlice] = {
    // Adaptive execution has run the map tasks before, if it sees their exchange.
    if (sent.isZero) rows.mapPartitions(_ => Iterator[Int]()).count()
    SentSlice.of(sent.all, rows.getNumPartitions, states, near)
  }

  protected final def report(rows: Seq[Long]): Unit = {
    longMetric("slices").set(rows.count(_ > 0))
    longMetric("longest").set(if (rows.isEmpty) 0 else rows.max)
    longMetric("rows").set(rows.sum)
    val execution = sparkContext.getLocalProperty("spark.sql.execution.id")
    SQLMetrics.postDriverMetricUpdates(sparkContext, execution, metrics.values.toSeq)
  }
}

/**
 * The slices of a window's partitions.
 *
 * @param ofKeys for each key that is sliced, how many slices it has. None if the window has no
 *               PARTITION BY, so that all slices are those of one partition.
 */
final case class Slices(ofKeys: Option[Seq[Int]]) {

  /** The numbers of the slices of each partition, if there are n slices. */
  def numbers(n: Int): Seq[Range] = ofKeys.fold(Seq(0 until n)) { counts =>
    counts.scanLeft(0)(_ + _).zip(counts).map { case (first, count) => first until first + count }
  }

  override def toString: String = ofKeys.fold("")(keys => s" of ${keys.length} keys")
}

/** Adds columns to rows. */
private[window] final class WithColumns(types: Array[DataType]) {
  private val project = UnsafeProjection.create(types)
  private val both = new JoinedRow

  def apply(row: InternalRow, columns: InternalRow): InternalRow = project(both(row, columns))
}
