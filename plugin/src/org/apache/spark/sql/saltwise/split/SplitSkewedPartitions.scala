package org.apache.spark.sql.saltwise.split

import scala.annotation.tailrec

import org.apache.spark.SparkContext
import org.apache.spark.sql.catalyst.expressions.aggregate.{Complete, Partial}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.{AQEShuffleReadExec, ShufflePartitionsUtil, ShuffleQueryStageExec}
import org.apache.spark.sql.execution.aggregate._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.saltwise.plan.AggregatePhases

/**
 * Decides, when the exchange of a [[SplitAggregation]] has run, which partitions are split, and fixes it in the plan.
 *
 * {{{
 *   before:  SkewSplit - Final - Exchange - Partial - SplitRead - ShuffleQueryStage
 *
 *   after:   Union
 *            |- Complete - WholePartitions(6 in 5 tasks) - AQEShuffleRead - ShuffleQueryStage
 *            +- Final - Exchange - Partial - SlicedPartitions(2 in 7 slices) - AQEShuffleRead - ShuffleQueryStage
 *
 *   or one of the two alone, where nothing is split, or everything.
 * }}}
 *
 * Adaptive execution takes a plan only if it has no more exchanges than the one before, and neither has.
 */
object SplitSkewedPartitions extends Rule[SparkPlan] {

  override def apply(plan: SparkPlan): SparkPlan = plan.transformDown {
    case split @ SkewSplitExec(last: BaseAggregateExec) =>
      last.collectFirst {
        case first: BaseAggregateExec if first.aggregateExpressions.forall(_.mode == Partial) => first
      }.flatMap { first =>
        readBelow(first.child).flatMap {
          case read @ SplitReadExec(_, _, stage: ShuffleQueryStageExec) if stage.isMaterialized =>
            inOnePhase(last, first).map(decide(_, last, read, stage))
          case _ => None
        }
      }.getOrElse(split)
  }

  @tailrec
  private def readBelow(plan: SparkPlan): Option[SplitReadExec] = plan match {
    case read: SplitReadExec => Some(read)
    case node: UnaryExecNode => readBelow(node.child)
    case _ => None
  }

  private def decide(
      complete: SparkPlan, last: SparkPlan, read: SplitReadExec, stage: ShuffleQueryStageExec): SparkPlan = {
    val n = read.options.workers
    val received = Received.by(stage, n)
    val tasks = if (read.options.workersGiven) n else adaptiveTasks(received, stage.session.sparkContext)
    val pieces = received.oversize(tasks).flatMap(cut(stage, _, received, tasks, read.content.nonEmpty))
    val split = pieces.map(_.partition).toSet
    def reading(aggregate: SparkPlan, instead: SparkPlan): SparkPlan =
      aggregate.transformUp { case node: SplitReadExec if node eq read => instead }
    // Where bytes and rows say different things, every partition may be oversize.
    val whole = if (split.size == n) None else {
      val packed = received.pack(tasks, split)
      val runs = packed.runs.map(run => CoalescedPartitionSpec(run.start, run.end, run.map(received.bytes(_)).sum))
      val packing = Packing(packed.tasks, n - split.size, packed.share)
      Some(reading(complete, WholePartitionsExec(packing, AQEShuffleReadExec(stage, runs))))
    }
    val sliced = if (split.isEmpty) None else {
      val slices = AQEShuffleReadExec(stage, pieces.flatMap(_.specs))
      Some(reading(last, SlicedPartitionsExec(split.size, pieces.flatMap(_.parts), read.content, slices)))
    }
    (whole ++ sliced).toSeq match {
      case Seq(branch) => branch
      case branches => UnionExec(branches)
    }
  }

  /** Final over Partial, folded into Complete. Its rows are grouped by key already, so it asks for no clustering. */
  private def inOnePhase(last: BaseAggregateExec, first: BaseAggregateExec): Option[SparkPlan] =
    AggregatePhases.inOnePhase(
      last, None, first.groupingExpressions, first.aggregateExpressions.map(_.copy(mode = Complete)), first.child)

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
}
