package org.apache.spark.sql.saltwise.split

import scala.collection.mutable

import org.apache.spark.sql.execution.adaptive.ShuffleQueryStageExec
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec
import org.apache.spark.sql.saltwise.routing.SkewRouteExec
import org.apache.spark.util.AccumulatorV2

/**
 * What the partitions of a shuffle received.
 *
 * @param bytes of each, compressed
 * @param rows  of each; a hot key's rows are alike and compress well, so bytes alone would hide them
 */
final case class Received(bytes: Array[Long], rows: Array[Long]) {
  import Received._

  private val (allBytes, allRows) = (math.max(1L, bytes.sum).toDouble, math.max(1L, rows.sum).toDouble)

  /** The share of a partition, of bytes or of rows, whichever is more. */
  def load(partition: Int): Double = math.max(bytes(partition) / allBytes, rows(partition) / allRows)

  /** The partitions that are too much for one of so many tasks. */
  def oversize(tasks: Int): Seq[Int] = bytes.indices.filter(load(_) > Oversize / tasks)

  /**
   * Packs the partitions that are not split into tasks: the largest first, each into the task with the least so far.
   * Small neighbours stay together, because a run of them is read in one go.
   */
  def pack(tasks: Int, split: Set[Int]): Packed = {
    val runs = runsOf(split, most = 1.0 / (RunsPerTask * tasks))
    val loads = runs.map(_.map(load).sum)
    val bins = Array.fill(math.max(1, math.min(runs.length, math.round(loads.sum * tasks).toInt)))(
      new mutable.ArrayBuffer[Int])
    val filled = new Array[Double](bins.length)
    val least = mutable.PriorityQueue(bins.indices: _*)(Ordering.by((bin: Int) => (-filled(bin), -bin)))
    runs.indices.sortBy(-loads(_)).foreach { run =>
      val bin = least.dequeue()
      bins(bin) += run
      filled(bin) += loads(run)
      least.enqueue(bin)
    }
    Packed(runs, bins.map(_.sorted.toSeq).toSeq, math.min(1.0, filled.max))
  }

  /** Neighbouring partitions, as many together as have at most such a share. */
  private def runsOf(split: Set[Int], most: Double): Seq[Range] = {
    val runs = new mutable.ArrayBuffer[Range]
    var filled = 0.0
    bytes.indices.filterNot(split).foreach { i =>
      if (runs.nonEmpty && runs.last.end == i && filled + load(i) <= most) {
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

/** Runs of neighbouring partitions, for each task the numbers of its runs, and the largest task's share. */
final case class Packed(runs: Seq[Range], tasks: Seq[Seq[Int]], share: Double)

object Received {
  /** A partition of more than so many tasks' share is split; less is not worth the states that have to be merged. */
  private val Oversize = 1.5

  /** Tasks are even to about a quarter of the inverse, and a task makes hardly more than so many fetches. */
  private val RunsPerTask = 4

  def by(stage: ShuffleQueryStageExec, partitions: Int): Received = {
    val bytes = stage.mapStats.map(_.bytesByPartitionId).getOrElse(new Array[Long](partitions))
    val rows = stage.shuffle match {
      case exchange: ShuffleExchangeExec => exchange.child.collectFirst { case route: SkewRouteExec => route }
        .fold(new Array[Long](partitions))(_.received.value)
      case _ => new Array[Long](partitions)
    }
    Received(bytes, rows)
  }
}

/** Sums what tasks sent to each worker. A task that ran twice counts twice: it is a size, no answer hangs on it. */
final class RowsReceived(workers: Int) extends AccumulatorV2[Array[Long], Array[Long]] {
  private val sums = new Array[Long](workers)

  override def isZero: Boolean = sums.forall(_ == 0)
  override def copy(): RowsReceived = {
    val other = new RowsReceived(workers)
    other.add(sums)
    other
  }
  override def reset(): Unit = java.util.Arrays.fill(sums, 0L)
  override def add(rows: Array[Long]): Unit = rows.indices.foreach(i => sums(i) += rows(i))
  override def merge(other: AccumulatorV2[Array[Long], Array[Long]]): Unit = add(other.value)
  override def value: Array[Long] = sums.clone()
}
