package org.apache.spark.sql.saltwise.window

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, JoinedRow, UnsafeProjection}
import org.apache.spark.sql.execution.UnaryExecNode
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.saltwise.plan.ReportedSlices
import org.apache.spark.sql.types.DataType

/** An operator whose tasks have slices of the partitions of a window. */
trait SlicesExec extends UnaryExecNode with ReportedSlices {

  def partitions: Slices

  override def keys: Seq[Expression] = partitions.keys
  override def nodeName: String = "SkewWindow"
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
 * @param keys   the keys of the window
 * @param ofKeys for each key that is sliced, how many slices it has
 */
final case class Slices(keys: Seq[Expression], ofKeys: Seq[Int]) {

  /** The numbers of the slices of each partition, if there are n slices. */
  def numbers(n: Int): Seq[Range] = if (keys.isEmpty) Seq(0 until n) else {
    ofKeys.scanLeft(0)(_ + _).zip(ofKeys).map { case (first, count) => first until first + count }
  }

  override def toString: String = if (keys.isEmpty) "slices" else s"slices of ${ofKeys.length} keys"
}

object Slices {
  /** Without PARTITION BY, all slices are those of one partition. */
  val OfAllRows: Slices = Slices(Nil, Nil)
}

/** Adds columns to rows. */
private[window] final class WithColumns(types: Array[DataType]) {
  private val project = UnsafeProjection.create(types)
  private val both = new JoinedRow

  def apply(row: InternalRow, columns: InternalRow): InternalRow = project(both(row, columns))
}
