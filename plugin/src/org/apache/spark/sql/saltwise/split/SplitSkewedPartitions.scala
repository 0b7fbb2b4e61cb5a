package org.apache.spark.sql.saltwise.split

import org.apache.spark.sql.catalyst.expressions.{Attribute, DynamicPruning}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive._
import org.apache.spark.sql.execution.exchange.BroadcastExchangeLike
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
      val decisions = decisionsFor(before, split)
      decisions.iterator.flatMap(split.decidedIn(before, _)).find(!BarrierOverUnion.isIn(_))
        .orElse(decisions.lastOption.map(split.replacedIn(before, _)))
        .getOrElse(before)
    }
  }

  /**
   * The plans in place of `split`, the best one first. The last one has the partitioning that the
   * operators above were planned with. None while the exchange has not run.
   */
  private def decisionsFor(plan: SparkPlan, split: SkewSplitExec): Seq[SparkPlan] =
    AggregatePhases.of(split.child).toSeq.flatMap { phases =>
      phases.rows match {
        case SplitReadExec(content, stage: ShuffleQueryStageExec) if stage.isMaterialized =>
          if (prunes(plan, split)) even(split, phases, stage)
          else decide(split, phases, content, stage)
        case _ => Nil
      }
    }

  private def decide(
      undecided: SkewSplitExec,
      phases: AggregatePhases,
      content: Seq[Attribute],
      stage: ShuffleQueryStageExec): Seq[SparkPlan] = {
    val combine = Option(stage.shuffle.child).collect { case combine: CombineExec => combine }
    val received = Received.of(stage)
    val partitions = received.bytes.length
    val tasks =
      if (undecided.options.workersGiven) partitions
      else received.tasks(conf, stage.session.sparkContext)
    // A list is as large as the rows that it was made from, so slices would save nothing.
    val byRows = combine.exists(_.makesLists)
    val sliced = received.oversize(tasks, byRows).flatMap(
      slices(stage, _, received, tasks, byContent = content.nonEmpty))
    val split = sliced.map(_.partition).toSet
    if (split.isEmpty) even(undecided, phases, stage) else {
      val whole = (0 until partitions).filterNot(split).map { partition =>
        val spec = CoalescedPartitionSpec(partition, partition + 1, received.bytes(partition))
        Slices(partition, Seq(spec), Seq(Part(0, 1)))
      }
      val slicedBranch = phases.inTwoPhases(slicedPartitions(stage, content, sliced, split.size))
      // If bytes and rows disagree, every partition may be oversize.
      val union = if (whole.isEmpty) slicedBranch else UnionExec(Seq(
        phases.inOnePhase(
          clustered = false, WholePartitionsExec(stage, received, tasks, split, keys = Nil)),
        slicedBranch))
      Seq(union, phases.inTwoPhases(slicedPartitions(stage, content, whole ++ sliced, split.size)))
    }
  }

  private def even(
      undecided: SkewSplitExec, phases: AggregatePhases, stage: SparkPlan): Seq[SparkPlan] =
    undecided.even.toSeq :+ phases.inTwoPhases(stage)

  /**
   * Whether Spark may prune partitions by a side of a join that is broadcast, and that has this
   * aggregate. It would not find that side if the aggregate were split.
   */
  private def prunes(plan: SparkPlan, split: SkewSplitExec): Boolean =
    plan.exists(_.expressions.exists(_.exists(_.isInstanceOf[DynamicPruning]))) && plan.exists {
      case side: BroadcastExchangeLike => side.exists(_ eq split)
      case _ => false
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
    val ranges = Received.ranges(stage, partition, target)
    val parts = ranges.flatMap { range =>
      val count =
        if (!byContent) 1
        else math.round(range.dataSize.toDouble / target).max(1).min(MaxParts).toInt
      val spec = range.copy(dataSize = range.dataSize / count)
      Seq.tabulate(count)(number => (spec, Part(number, count)))
    }
    if (parts.length > 1) Some(Slices(partition, parts.map(_._1), parts.map(_._2))) else None
  }
}
