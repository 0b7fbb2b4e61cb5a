package org.apache.spark.sql.saltwise.routing

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, UnknownPartitioning}
import org.apache.spark.sql.connector.metric.CustomMetric
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.metric.{CustomMetrics, SQLMetric}
import org.apache.spark.sql.saltwise.placement.PlacementPartitioning

/** Counts the rows that each worker received. The UI shows this load. */
final case class SkewReceiveExec(child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output

  // A router partitions rows by none of their columns.
  override def outputPartitioning: Partitioning = child.outputPartitioning match {
    case placement: PlacementPartitioning => placement
    case routed => UnknownPartitioning(routed.numPartitions)
  }

  override lazy val metrics: Map[String, SQLMetric] = {
    // The initial value -1 means "no value", so that a worker without rows counts as 0 in the mean.
    val rows = new SQLMetric(CustomMetrics.buildV2CustomMetricTypeName(new WorkerLoadMetric), -1L)
    rows.register(sparkContext, Some(new WorkerLoadMetric().description), countFailedValues = false)
    Map("rows" -> rows)
  }

  override protected def doExecute(): RDD[InternalRow] = {
    val rows = longMetric("rows")
    child.execute().mapPartitions({ in =>
      rows.set(0)
      in.map { row => rows += 1; row }
    }, preservesPartitioning = true)
  }

  override protected def withNewChildInternal(c: SparkPlan): SkewReceiveExec = copy(child = c)
}

/** Rows per worker. Each task of a SkewReceive is one worker, and reports one value. */
class WorkerLoadMetric extends CustomMetric {
  override def name(): String = "rowsPerWorker"
  override def description(): String = "rows per worker"
  override def aggregateTaskMetrics(loads: Array[Long]): String =
    if (loads.isEmpty) "no rows" else {
      val mean = loads.sum.toDouble / loads.length
      f"max ${loads.max}%d, mean $mean%.1f, max/mean ${if (mean > 0) loads.max / mean else 1.0}%.3f"
    }
}
