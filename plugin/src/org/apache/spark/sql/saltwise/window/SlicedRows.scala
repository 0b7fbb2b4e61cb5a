package org.apache.spark.sql.saltwise.window

import org.apache.spark.rdd.{PartitionPruningRDD, RDD}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, UnknownPartitioning}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.saltwise.compat.SparkCompat
import org.apache.spark.sql.saltwise.split.{DecidedRead, KeepPartitionsExec, WholeKeys}

/**
 * The exchange of the rows of oversize partitions, which two nodes read.
 *
 * @param slice the slice of a row, or the partition of other keys behind all slices
 */
final class ExchangeOfSlices(slice: SliceOfKey) {
  private var made: Option[ShuffleExchangeExec] = None

  def of(read: SparkPlan): ShuffleExchangeExec = synchronized {
    val exchange = made.getOrElse(
      SparkCompat.exchange(new SlicePartitioning(slice, slice.n + slice.others), read))
    made = Some(exchange)
    exchange
  }

  def ofHotKeys(read: SparkPlan): SlicedRowsExec =
    SlicedRowsExec(0 until slice.n, UnknownPartitioning(slice.n), this, read)

  def ofOtherKeys(read: SparkPlan, keys: Seq[Expression]): SlicedRowsExec =
    SlicedRowsExec(
      slice.n until slice.n + slice.others, WholeKeys(keys, slice.others), this, read)
}

/** Some of the partitions of an [[ExchangeOfSlices]]. */
final case class SlicedRowsExec(
    partitions: Range,
    override val outputPartitioning: Partitioning,
    @transient exchange: ExchangeOfSlices,
    @transient read: SparkPlan,
    keep: SparkPlan = KeepPartitionsExec())
  extends DecidedRead {

  override def isBesideSlices: Boolean = true
  override lazy val metrics: Map[String, SQLMetric] = exchange.of(read).metrics

  override protected def doExecute(): RDD[InternalRow] =
    PartitionPruningRDD.create(exchange.of(read).execute(), partitions.contains(_))

  override def simpleString(maxFields: Int): String = s"SlicedRows in ${partitions.length} tasks"

  override protected def withNewChildrenInternal(
      newRead: SparkPlan, newKeep: SparkPlan): SlicedRowsExec =
    copy(read = newRead, keep = newKeep)
}
