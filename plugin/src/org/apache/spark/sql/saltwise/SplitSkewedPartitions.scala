package org.apache.spark.sql.saltwise

import scala.annotation.tailrec

import org.apache.spark.SparkContext
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.{AQEShuffleReadExec, ShufflePartitionsUtil, ShuffleQueryStageExec}
import org.apache.spark.sql.internal.SQLConf

/**
 * Decides, when the exchange of a [[SplitAggregation]] has run, which partitions are split, and fixes it in the plan.
 *
 * {{{
 *   before:  Union
 *            |- Complete - WholePartitions - ShuffleQueryStage
 *            +- Final - Exchange - Partial - SlicedPartitions - ShuffleQueryStage
 *
 *   after:   Union
 *            |- Complete - WholePartitions(6 of 8 in 5 tasks) - AQEShuffleRead - ShuffleQueryStage
 *            +- Final - Exchange - Partial - SlicedPartitions(2 split into 7) - AQEShuffleRead - the same ShuffleQueryStage
 *
 *   or:      Complete - WholePartitions(8 of 8 in 5 tasks) - AQEShuffleRead - ShuffleQueryStage
 * }}}
 *
 * Both branches read the stage of the first one, so each row is read once, whatever Spark did about reuse.
 */
object SplitSkewedPartitions extends Rule[SparkPlan] {

  override def apply(plan: SparkPlan): SparkPlan = plan.transformDown {
    case union @ UnionExec(Seq(whole, sliced)) =>
      (wholeRead(whole), slicedRead(sliced)) match {
        case (Some(WholePartitionsExec(options, None, stage: ShuffleQueryStageExec)), Some(slices))
            if stage.isMaterialized && slices.cuts.isEmpty =>
          decide(union, whole, sliced, options, slices, stage)
        case _ => union
      }
  }

  private def decide(
      union: UnionExec, whole: SparkPlan, sliced: SparkPlan, options: SkewOptions,
      slices: SlicedPartitionsExec, stage: ShuffleQueryStageExec): SparkPlan = {
    val received = Received.by(stage, options.workers)
    val tasks = if (options.workersGiven) options.workers else adaptiveTasks(received, stage.session.sparkContext)
    val pieces = received.oversize(tasks).flatMap(i => cut(stage, i, received, tasks, slices.content.nonEmpty))
    val split = pieces.map(_.partition).toSet
    val packed = received.pack(tasks, split)
    val newWhole = whole.transformDown {
      case read: WholePartitionsExec if read.packing.isEmpty =>
        val specs = packed.runs.map(run => CoalescedPartitionSpec(run.start, run.end, run.map(received.bytes(_)).sum))
        val packing = Packing(packed.tasks, options.workers - split.size, packed.share)
        read.copy(packing = Some(packing), child = AQEShuffleReadExec(stage, specs))
    }
    if (split.isEmpty) newWhole else {
      val newSliced = sliced.transformDown {
        case read: SlicedPartitionsExec if read.cuts.isEmpty =>
          val cuts = Cuts(split.size, pieces.flatMap(_.parts))
          read.copy(cuts = Some(cuts), child = AQEShuffleReadExec(stage, pieces.flatMap(_.specs)))
      }
      union.copy(children = Seq(newWhole, newSliced))
    }
  }

  /** A partition in slices: what to read, and which part of it to take. */
  private final case class Pieces(partition: Int, specs: Seq[PartialReducerPartitionSpec], parts: Seq[Part])

  /** Cuts a partition by map ranges, and these by content where one map task sent too much. */
  private def cut(
      stage: ShuffleQueryStageExec, partition: Int, received: Received, tasks: Int, byContent: Boolean): Option[Pieces] = {
    val bytes = received.bytes(partition)
    val target = math.max(1L, bytes / math.ceil(received.load(partition) * tasks).toLong)
    val ranges = stage.mapStats.flatMap(stats =>
      ShufflePartitionsUtil.createSkewPartitionSpecs(stats.shuffleId, partition, target)).map(_.toSeq)
      .getOrElse(Seq(PartialReducerPartitionSpec(partition, 0, stage.shuffle.numMappers, bytes)))
    val cuts = ranges.flatMap { range =>
      val of = if (byContent) math.max(1L, math.round(range.dataSize.toDouble / target)).toInt else 1
      Seq.tabulate(of)(number => (range.copy(dataSize = range.dataSize / of), Part(number, of)))
    }
    if (cuts.length > 1) Some(Pieces(partition, cuts.map(_._1), cuts.map(_._2))) else None
  }

  /** As many tasks as Spark itself would make of these bytes. */
  private def adaptiveTasks(received: Received, context: SparkContext): Int = {
    val most = received.bytes.length
    if (!conf.coalesceShufflePartitionsEnabled) most else {
      val wanted = conf.getConf(SQLConf.COALESCE_PARTITIONS_MIN_PARTITION_NUM).getOrElse(
        if (conf.getConf(SQLConf.COALESCE_PARTITIONS_PARALLELISM_FIRST)) context.defaultParallelism else 1)
      val total = received.bytes.sum
      val target = math.max(
        math.min(math.ceil(total.toDouble / wanted).toLong, conf.getConf(SQLConf.ADVISORY_PARTITION_SIZE_IN_BYTES)),
        conf.getConf(SQLConf.COALESCE_PARTITIONS_MIN_PARTITION_SIZE))
      math.min(most.toLong, math.max(1L, math.ceil(total.toDouble / math.max(1L, target)).toLong)).toInt
    }
  }

  @tailrec
  private def wholeRead(plan: SparkPlan): Option[WholePartitionsExec] = plan match {
    case read: WholePartitionsExec => Some(read)
    case node: UnaryExecNode => wholeRead(node.child)
    case _ => None
  }

  @tailrec
  private def slicedRead(plan: SparkPlan): Option[SlicedPartitionsExec] = plan match {
    case read: SlicedPartitionsExec => Some(read)
    case node: UnaryExecNode => slicedRead(node.child)
    case _ => None
  }
}
