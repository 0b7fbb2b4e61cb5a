package org.apache.spark.sql.saltwise.window

import org.apache.spark.rdd.{PartitionPruningRDD, RDD}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BindReferences, Expression}
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, UnknownPartitioning}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.saltwise.compat.SparkCompat
import org.apache.spark.sql.saltwise.split.{DecidedRead, KeepPartitionsExec}

/**
 * An exchange of the rows of oversize partitions, which one or two nodes read. It is no node of the
 * plan, because adaptive execution accepts no plan with more exchanges than before.
 */
final class HiddenExchange(partitioning: Partitioning) {
  private var made: Option[ShuffleExchangeExec] = None

  // A thread that reads df.rdd may have no session.
  def of(rows: SparkPlan): ShuffleExchangeExec = synchronized(rows.session.withActive {
    val exchange = made.getOrElse(SparkCompat.exchange(partitioning, rows))
    made = Some(exchange)
    exchange
  })
}

/** Some of the partitions of a [[HiddenExchange]]. */
final case class SlicedRowsExec(
    partitions: Range,
    override val outputPartitioning: Partitioning,
    @transient exchange: HiddenExchange,
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

/** Rows of oversize partitions: those with a hot key, or those without. */
final case class RowsOfKeysExec(
    keys: Seq[Expression],
    hot: Seq[SlicedKey],
    areHot: Boolean,
    @transient read: SparkPlan,
    keep: SparkPlan = KeepPartitionsExec())
  extends DecidedRead {

  override def isBesideSlices: Boolean = true
  override def outputPartitioning: Partitioning =
    UnknownPartitioning(read.outputPartitioning.numPartitions)

  override protected def doExecute(): RDD[InternalRow] = {
    val (ofKeys, hotKeys, wanted) = (BindReferences.bindReferences(keys, output), hot, areHot)
    read.execute().mapPartitions { rows =>
      val numbers = new NumbersOfKeys(ofKeys, hotKeys)
      rows.filter(row => numbers.of(row) >= 0 == wanted)
    }
  }

  override def simpleString(maxFields: Int): String =
    s"RowsOfKeys ${if (areHot) "hot" else "others"}"

  override protected def withNewChildrenInternal(
      newRead: SparkPlan, newKeep: SparkPlan): RowsOfKeysExec =
    copy(read = newRead, keep = newKeep)
}
