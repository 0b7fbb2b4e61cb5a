package org.apache.spark.sql.saltwise.split

import scala.annotation.tailrec

import org.apache.spark.SparkContext
import org.apache.spark.sql.catalyst.expressions.aggregate.{Complete, Partial}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive._
import org.apache.spark.sql.execution.aggregate._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.saltwise.plan.AggregatePhases

/**
 * Decides which partitions of a [[SplitAggregation]] are split, once its exchange has run, and
 * writes the decision into the plan.
 *
 * {{{
 *   before:  SkewSplit - Final - Exchange - Partial - SplitRead - ShuffleQueryStage
 *
 *   after:   Union
 *            |- Complete - WholePartitions(6 in 5 tasks) - AQEShuffleRead - ShuffleQueryStage
 *            +- Final - Exchange - Partial - SlicedPartitions(2 in 7 slices) - AQEShuffleRead -
 *               ShuffleQueryStage
 *
 *   or only one of the branches, where no partition is split, or every one.
 * }}}
 *
 * Adaptive execution accepts a plan only if it has no more exchanges than the one before. Neither
 * branch adds one.
 */
object SplitSkewedPartitions extends Rule[SparkPlan] {

  override def apply(plan: SparkPlan): SparkPlan = plan.transformDown {
    case split @ SkewSplitExec(last: BaseAggregateExec) => decided(last).getOrElse(split)
  }

  /** The plan in place of `last`; None while its exchange has not run. */
  private def decided(last: BaseAggregateExec): Option[SparkPlan] =
    for {
      first <- last.collectFirst {
        case node: BaseAggregateExec if node.aggregateExpressions.forall(_.mode == Partial) => node
      }
      read <- readBelow(first.child)
      stage <- finishedStage(read)
      complete <- inOnePhase(last, first)
    } yield decide(complete, last, read, stage)

  @tailrec
  private def readBelow(plan: SparkPlan): Option[SplitReadExec] = plan match {
    case read: SplitReadExec => Some(read)
    case node: UnaryExecNode => readBelow(node.child)
    case _ => None
  }

  private def finishedStage(read: SplitReadExec): Option[ShuffleQueryStageExec] = read.child match {
    case stage: ShuffleQueryStageExec if stage.isMaterialized => Some(stage)
    case _ => None
  }

  /**
   * Final over Partial, folded into Complete. It requires no clustering, because its rows are
   * grouped by key already.
   */
  private def inOnePhase(last: BaseAggregateExec, first: BaseAggregateExec): Option[SparkPlan] =
    AggregatePhases.inOnePhase(
      last,
      None,
      first.groupingExpressions,
      first.aggregateExpressions.map(_.copy(mode = Complete)),
      first.child)

  private def decide(
      complete: SparkPlan,
      last: SparkPlan,
      read: SplitReadExec,
      stage: ShuffleQueryStageExec): SparkPlan = {
    val partitions = read.options.workers
    val received = Received.of(stage, partitions)
    val tasks =
      if (read.options.workersGiven) partitions
      else adaptiveTasks(received, stage.session.sparkContext)
    val sliced = received.oversize(tasks).flatMap(
      slices(stage, _, received, tasks, byContent = read.content.nonEmpty))
    val split = sliced.map(_.partition).toSet
    // Where bytes and rows disagree, every partition may be oversize.
    val wholeBranch = if (split.size == partitions) None else Some(
      replaceRead(complete, read, wholePartitions(stage, received, tasks, split)))
    val slicedBranch = if (split.isEmpty) None else Some(
      replaceRead(last, read, slicedPartitions(stage, read, sliced)))
    (wholeBranch ++ slicedBranch).toSeq match {
      case Seq(branch) => branch
      case branches => UnionExec(branches)
    }
  }

  private def replaceRead(
      aggregate: SparkPlan, read: SplitReadExec, newRead: SparkPlan): SparkPlan =
    aggregate.transformUp { case node: SplitReadExec if node eq read => newRead }

  private def wholePartitions(
      stage: ShuffleQueryStageExec,
      received: Received,
      tasks: Int,
      split: Set[Int]): WholePartitionsExec = {
    val packed = received.pack(tasks, split)
    val runs = packed.runs.map { run =>
      CoalescedPartitionSpec(run.start, run.end, run.map(received.bytes(_)).sum)
    }
    val packing = Packing(packed.tasks, received.bytes.length - split.size, packed.share)
    WholePartitionsExec(packing, AQEShuffleReadExec(stage, runs))
  }

  private def slicedPartitions(
      stage: ShuffleQueryStageExec,
      read: SplitReadExec,
      sliced: Seq[SlicedPartition]): SlicedPartitionsExec = {
    val reads = AQEShuffleReadExec(stage, sliced.flatMap(_.specs))
    SlicedPartitionsExec(sliced.length, sliced.flatMap(_.parts), read.content, reads)
  }

  /** A partition in slices: for each slice, what to read, and which part of it to take. */
  private final case class SlicedPartition(
      partition: Int, specs: Seq[PartialReducerPartitionSpec], parts: Seq[Part])

  /**
   * Cuts a partition by ranges of map tasks. A range is cut further, by content, where one map task
   * sent too much.
   *
   * @return None where the partition stays in one slice
   */
  private def slices(
      stage: ShuffleQueryStageExec,
      partition: Int,
      received: Received,
      tasks: Int,
      byContent: Boolean): Option[SlicedPartition] = {
    val bytes = received.bytes(partition)
    val target = math.max(1L, bytes / math.ceil(received.load(partition) * tasks).toLong)
    val ranges = stage.mapStats.flatMap { stats =>
      ShufflePartitionsUtil.createSkewPartitionSpecs(stats.shuffleId, partition, target)
    }.map(_.toSeq).getOrElse(
      Seq(PartialReducerPartitionSpec(partition, 0, stage.shuffle.numMappers, bytes)))
    val parts = ranges.flatMap { range =>
      val count =
        if (byContent) math.max(1L, math.round(range.dataSize.toDouble / target)).toInt else 1
      val spec = range.copy(dataSize = range.dataSize / count)
      Seq.tabulate(count)(number => (spec, Part(number, count)))
    }
    if (parts.length > 1) Some(SlicedPartition(partition, parts.map(_._1), parts.map(_._2)))
    else None
  }

  /** As many tasks as Spark itself would use for these bytes. */
  private def adaptiveTasks(received: Received, context: SparkContext): Int = {
    val partitions = received.bytes.length
    if (!conf.coalesceShufflePartitionsEnabled) partitions else {
      val minTasks = conf.getConf(SQLConf.COALESCE_PARTITIONS_MIN_PARTITION_NUM).getOrElse(
        if (conf.getConf(SQLConf.COALESCE_PARTITIONS_PARALLELISM_FIRST)) context.defaultParallelism
        else 1)
      val total = received.bytes.sum
      val target = math.max(
        math.min(
          math.ceil(total.toDouble / minTasks).toLong,
          conf.getConf(SQLConf.ADVISORY_PARTITION_SIZE_IN_BYTES)),
        conf.getConf(SQLConf.COALESCE_PARTITIONS_MIN_PARTITION_SIZE))
      val tasks = math.ceil(total.toDouble / math.max(1L, target)).toLong
      math.min(partitions.toLong, math.max(1L, tasks)).toInt
    }
  }
}
