package org.apache.spark.sql.saltwise.split

import org.apache.spark.SparkContext
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive._
import org.apache.spark.sql.execution.exchange.{Exchange, ValidateRequirements}
import org.apache.spark.sql.execution.python.MapInBatchExec
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.saltwise.SkewOptions
import org.apache.spark.sql.saltwise.compat.SparkCompat
import org.apache.spark.sql.saltwise.local.CombineExec
import org.apache.spark.sql.saltwise.plan.AggregatePhases

/**
 * Decides which partitions are split, once the exchange of a
 * [[org.apache.spark.sql.saltwise.plan.RewriteSkewGroupBys]] has run, and writes the decision into
 * the plan.
 *
 * {{{
 *   before:  SkewSplit - Final - Exchange - Partial - SplitRead - ShuffleQueryStage
 *
 *   after, if no partition is oversize:
 *            Complete - ShuffleQueryStage
 *
 *   if some are:
 *            Union
 *            |- Complete - WholePartitions(6 in 5 tasks) - AQEShuffleRead - ShuffleQueryStage
 *            +- Final - Exchange - Partial - SlicedPartitions(2 in 7 slices) - AQEShuffleRead -
 *               ShuffleQueryStage
 *
 *   if some are, and an operator above needs the groups in their partitions:
 *            Final - Exchange - Partial - SlicedPartitions(2 in 13 slices) - AQEShuffleRead -
 *            ShuffleQueryStage
 * }}}
 *
 * Adaptive execution accepts a plan only if it has no more exchanges than the one before. None of
 * these adds one.
 */
object SplitSkewedPartitions extends Rule[SparkPlan] {
  private val MaxParts = 8L

  override def apply(plan: SparkPlan): SparkPlan = {
    val undecided = plan.collect { case split: SkewSplitExec => split }
    undecided.foldLeft(plan) { (before, split) =>
      def replaced(decision: SparkPlan): SparkPlan =
        before.transformDown { case node if node eq split => decision }
      val decisions = decisionsFor(split)
      decisions.find { decision =>
        val after = replaced(decision)
        // The plan before may lack something elsewhere, so it proves nothing about a decision.
        val fits = decision.outputPartitioning == split.outputPartitioning ||
          ValidateRequirements.validate(after)
        fits && !after.exists(isBarrierOverUnion)
      }.orElse(decisions.lastOption).fold(before)(replaced)
    }
  }

  /** Spark starts the tasks of a barrier stage together, and allows no union in it. */
  private def isBarrierOverUnion(plan: SparkPlan): Boolean = plan match {
    case node: MapInBatchExec => SparkCompat.isBarrier(node) && readsUnion(node)
    case _ => false
  }

  private def readsUnion(plan: SparkPlan): Boolean = plan match {
    case _: Exchange | _: QueryStageExec => false
    case node => node.isInstanceOf[UnionExec] || node.children.exists(readsUnion)
  }

  /**
   * The plans in place of `split`, the best one first. The last one has the partitioning that the
   * operators above were planned with. None while the exchange has not run.
   */
  private def decisionsFor(split: SkewSplitExec): Seq[SparkPlan] =
    AggregatePhases.of(split.child).toSeq.flatMap { phases =>
      phases.rows match {
        case SplitReadExec(content, stage: ShuffleQueryStageExec) if stage.isMaterialized =>
          decide(split.options, phases, content, stage)
        case _ => Nil
      }
    }

  private def decide(
      options: SkewOptions,
      phases: AggregatePhases,
      content: Seq[Attribute],
      stage: ShuffleQueryStageExec): Seq[SparkPlan] = {
    val combine = Option(stage.shuffle.child).collect { case combine: CombineExec => combine }
    val received = Received.of(stage)
    val partitions = received.bytes.length
    val tasks =
      if (options.workersGiven) partitions
      else adaptiveTasks(received, stage.session.sparkContext)
    // A list is as large as the rows that it was made from, so slices would save nothing.
    val byRows = combine.exists(_.makesLists)
    val sliced = received.oversize(tasks, byRows).flatMap(
      slices(stage, _, received, tasks, byContent = content.nonEmpty))
    val split = sliced.map(_.partition).toSet
    if (split.isEmpty) {
      Seq(phases.inOnePhase(clustered = true, stage), phases.inTwoPhases(stage))
    } else {
      val whole = (0 until partitions).filterNot(split).map { partition =>
        val spec = CoalescedPartitionSpec(partition, partition + 1, received.bytes(partition))
        Slices(partition, Seq(spec), Seq(Part(0, 1)))
      }
      val slicedBranch = phases.inTwoPhases(slicedPartitions(stage, content, sliced, split.size))
      // If bytes and rows disagree, every partition may be oversize.
      val union = if (whole.isEmpty) slicedBranch else UnionExec(Seq(
        phases.inOnePhase(clustered = false, wholePartitions(stage, received, tasks, split)),
        slicedBranch))
      Seq(union, phases.inTwoPhases(slicedPartitions(stage, content, whole ++ sliced, split.size)))
    }
  }

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
      content: Seq[Attribute],
      slices: Seq[Slices],
      split: Int): SlicedPartitionsExec = {
    val reads = AQEShuffleReadExec(stage, slices.flatMap(_.specs))
    SlicedPartitionsExec(split, slices.flatMap(_.parts), content, reads)
  }

  /** A partition in slices: for each slice, the read and the part of its rows to take. */
  private final case class Slices(
      partition: Int, specs: Seq[ShufflePartitionSpec], parts: Seq[Part])

  /**
   * Cuts a partition by ranges of map tasks. A range is cut further, by content, if one map task
   * sent too much. Each part reads the whole range, so there are at most `MaxParts` of them.
   *
   * @return None if the partition stays in one slice
   */
  private def slices(
      stage: ShuffleQueryStageExec,
      partition: Int,
      received: Received,
      tasks: Int,
      byContent: Boolean): Option[Slices] = {
    val bytes = received.bytes(partition)
    val target = math.max(1L, bytes / math.ceil(received.load(partition) * tasks).toLong)
    val ranges = stage.mapStats.flatMap { stats =>
      ShufflePartitionsUtil.createSkewPartitionSpecs(stats.shuffleId, partition, target)
    }.map(_.toSeq).getOrElse(
      Seq(PartialReducerPartitionSpec(partition, 0, stage.shuffle.numMappers, bytes)))
    val parts = ranges.flatMap { range =>
      val count =
        if (!byContent) 1
        else math.round(range.dataSize.toDouble / target).max(1).min(MaxParts).toInt
      val spec = range.copy(dataSize = range.dataSize / count)
      Seq.tabulate(count)(number => (spec, Part(number, count)))
    }
    if (parts.length > 1) Some(Slices(partition, parts.map(_._1), parts.map(_._2))) else None
  }

  /** The number of tasks that Spark itself would use for these bytes. */
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
