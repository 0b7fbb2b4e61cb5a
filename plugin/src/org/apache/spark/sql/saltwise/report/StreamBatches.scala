package org.apache.spark.sql.saltwise.report

import scala.jdk.CollectionConverters._
import scala.util.hashing.MurmurHash3

import org.apache.spark.sql.Row
import org.apache.spark.sql.saltwise.streaming.StreamMetrics
import org.apache.spark.sql.streaming.StreamingQueryProgress

/** Reads the routed aggregates of a stream's batch from its progress. */
private[report] object StreamBatches {
  private val MaxHotKeys = 10

  def of(progress: StreamingQueryProgress, showsKeys: Boolean): Seq[StreamBatchEvent] = {
    val metrics = progress.observedMetrics.asScala
    metrics.toSeq.sortBy(_._1).collect { case (aggregate, row) if isOurs(row) =>
      val head = row.getAs[Row]("head")
      val hot = head.getAs[scala.collection.Seq[Row]]("hot").take(MaxHotKeys).toSeq
      StreamBatchEvent(
        progress.runId.toString,
        Option(progress.name).getOrElse(""),
        progress.batchId,
        aggregate,
        row.getAs[String]("strategy"),
        row.getAs[Int]("workers"),
        head.getAs[Int]("choices"),
        head.getAs[Long]("rows"),
        metrics.get(aggregate + StreamMetrics.Received).map(_.getAs[Long]("most")).getOrElse(0L),
        hot.map(key => shown(key.getAs[Any]("item"), showsKeys)).toArray,
        hot.map(_.getAs[Long]("count")).toArray)
    }
  }

  private def isOurs(row: Row): Boolean =
    row.schema != null && Seq("strategy", "workers", "head").forall(row.schema.fieldNames.contains)

  private def shown(item: Any, showsKeys: Boolean): String = {
    val text = String.valueOf(item)
    if (showsKeys) text else f"${MurmurHash3.stringHash(text)}%08x"
  }
}
