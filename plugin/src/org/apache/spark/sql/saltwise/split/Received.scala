package org.apache.spark.sql.saltwise.split

import scala.collection.mutable

import org.apache.spark.SparkContext
import org.apache.spark.sql.execution.PartialReducerPartitionSpec
import org.apache.spark.sql.execution.adaptive.{ShufflePartitionsUtil, ShuffleQueryStageExec}
import org.apache.spark.sql.internal.SQLConf

/**
 * The bytes and rows that the partitions of a shuffle received.
 *
 * @param bytes compressed bytes of each partition
 * @param rows  rows of each large partition. The rows of a hot key are alike and compress well, so
 *              bytes alone would hide them.
 * @param allRows rows of all partitions
 */
final case class Received(bytes: Array[Long], rows: Array[Long], allRows: Long) {
  import Received._

  private val allBytes = math.max(1L, bytes.sum).toDouble

  /** A partition's share of all bytes or of all rows, whichever is larger. */
  def load(partition: Int): Double = math.max(bytes(partition) / allBytes, shareOfRows(partition))

  private def shareOfRows(partition: Int): Double =
    rows(partition) / math.max(1L, allRows).toDouble

  /** The number of tasks that Spark itself would use for these bytes. */
  def tasks(conf: SQLConf, context: SparkContext): Int =
    if (!conf.coalesceShufflePartitionsEnabled) bytes.length else {
      val minTasks = conf.getConf(SQLConf.COALESCE_PARTITIONS_MIN_PARTITION_NUM).getOrElse(
        if (conf.getConf(SQLConf.COALESCE_PARTITIONS_PARALLELISM_FIRST)) context.defaultParallelism
        else 1)
      val total = bytes.sum
      val target = math.max(
        math.min(
          math.ceil(total.toDouble / minTasks).toLong,
          conf.getConf(SQLConf.ADVISORY_PARTITION_SIZE_IN_BYTES)),
        conf.getConf(SQLConf.COALESCE_PARTITIONS_MIN_PARTITION_SIZE))
      val tasks = math.ceil(total.toDouble / math.max(1L, target)).toLong
      math.min(bytes.length.toLong, math.max(1L, tasks)).toInt
    }

  /**
   * The partitions that are too large for one task.
   *
   * @param tasks  the number of tasks that share the partitions
   * @param byRows whether only rows count, and bytes do not
   */
  def oversize(tasks: Int, byRows: Boolean): Seq[Int] = bytes.indices.filter { partition =>
    (if (byRows) shareOfRows(partition) else load(partition)) > Oversize / tasks
  }

  /**
   * Packs the partitions that are not split into tasks: the largest first, each into the task that
   * has the least so far. Small neighbours stay together, because a task reads a run of them at
   * once.
   */
  def pack(tasks: Int, split: Set[Int]): Packed = {
    val runs = runsOfNeighbours(split, maxShare = 1.0 / (RunsPerTask * tasks))
    val loads = runs.map(_.map(load).sum)
    val bins = Array.fill(
      math.max(1, math.min(runs.length, math.round(loads.sum * tasks).toInt)))(
      new mutable.ArrayBuffer[Int])
    val filled = new Array[Double](bins.length)
    val least = mutable.PriorityQueue(bins.indices: _*)(
      Ordering.by((bin: Int) => (-filled(bin), -bin)))
    runs.indices.sortBy(-loads(_)).foreach { run =>
      val bin = least.dequeue()
      bins(bin) += run
      filled(bin) += loads(run)
      least.enqueue(bin)
    }
    Packed(runs, bins.map(_.sorted.toSeq).toSeq, math.min(1.0, filled.max))
  }

  /** Runs of neighbouring partitions without those in `split`. A run has at most this share. */
  private def runsOfNeighbours(split: Set[Int], maxShare: Double): Seq[Range] = {
    val runs = new mutable.ArrayBuffer[Range]
    var filled = 0.0
    bytes.indices.filterNot(split).foreach { i =>
      if (runs.nonEmpty && runs.last.end == i && filled + load(i) <= maxShare) {
        runs(runs.length - 1) = runs.last.start until i + 1
        filled += load(i)
      } else {
        runs += (i until i + 1)
        filled = load(i)
      }
    }
    runs.toSeq
  }
}

/**
 * Partitions packed into tasks.
 *
 * @param runs  runs of neighbouring partitions
 * @param tasks for each task, the numbers of its runs
 * @param share the share of the largest task
 */
final case class Packed(runs: Seq[Range], tasks: Seq[Seq[Int]], share: Double)

object Received {
  /**
   * A partition is split if its load is more than the share of this many tasks. Otherwise the
   * states that have to be merged cost more than the split gains.
   */
  private val Oversize = 1.5

  /**
   * A run has at most 1 / 4 of a task's share. So the loads of tasks differ by about that much, and
   * few tasks have to fetch more than 4 runs.
   */
  private val RunsPerTask = 4

  /** Reads a partition in ranges of map tasks that sent about `target` bytes each. */
  def ranges(
      stage: ShuffleQueryStageExec,
      partition: Int,
      target: Long): Seq[PartialReducerPartitionSpec] =
    stage.mapStats.flatMap { stats =>
      ShufflePartitionsUtil.createSkewPartitionSpecs(stats.shuffleId, partition, target)
    }.map(_.toSeq).getOrElse {
      val bytes = stage.mapStats.fold(0L)(_.bytesByPartitionId(partition))
      Seq(PartialReducerPartitionSpec(partition, 0, stage.shuffle.numMappers, bytes))
    }

  /** The report of a finished shuffle stage, with zeros where Spark has no number. */
  def of(stage: ShuffleQueryStageExec): Received = {
    val n = stage.shuffle.outputPartitioning.numPartitions
    val bytes = stage.mapStats.map(_.bytesByPartitionId).getOrElse(new Array[Long](n))
    val received = stage.shuffle.outputPartitioning match {
      case counting: CountingPartitioning => counting.received
      case _ => new RowsReceived
    }
    Received(bytes, Array.tabulate(n)(received.of), received.total)
  }
}
