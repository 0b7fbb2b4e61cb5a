package org.apache.spark.sql.saltwise.window

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{JoinedRow, UnsafeProjection}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.saltwise.plan.ReportedSlices
import org.apache.spark.sql.types.DataType

/** An operator whose tasks have slices of the partitions of a window. */
trait SlicesExec extends UnaryExecNode with AddsColumns[SparkPlan] with ReportedSlices {

  override def nodeName: String = "SkewWindow"
  override lazy val metrics: Map[String, SQLMetric] = Map(
    "slices" -> SQLMetrics.createMetric(sparkContext, "slices"),
    "longest" -> SQLMetrics.createMetric(sparkContext, "rows of the longest slice"),
    "rows" -> SQLMetrics.createMetric(sparkContext, "rows"))

  protected final def report(rows: Seq[Long]): Unit = {
    longMetric("slices").set(rows.count(_ > 0))
    longMetric("longest").set(if (rows.isEmpty) 0 else rows.max)
    longMetric("rows").set(rows.sum)
    val execution = sparkContext.getLocalProperty("spark.sql.execution.id")
    SQLMetrics.postDriverMetricUpdates(sparkContext, execution, metrics.values.toSeq)
  }
}

/** Adds columns to rows. */
private[window] final class WithColumns(types: Array[DataType]) {
  private val project = UnsafeProjection.create(types)
  private val both = new JoinedRow

  def apply(row: InternalRow, columns: InternalRow): InternalRow = project(both(row, columns))
}
