package org.apache.spark.sql.saltwise.auto

import scala.concurrent.TimeoutException
import scala.concurrent.duration._

import org.apache.spark.SparkContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution.adaptive.LogicalQueryStage
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.internal.{SessionState, SQLConf}
import org.apache.spark.sql.saltwise.SaltwiseConf
import org.apache.spark.sql.saltwise.plan.{GroupingKeys, SkewGroupByHint}
import org.apache.spark.util.ThreadUtils

/**
 * A bounded sample of the keys of an aggregate: the first rows of some tasks of the scan that the
 * key comes from.
 *
 * It passes projections and filters. At a join it follows the side that has the key. The other side
 * is not read, so the sample does not see which rows the join drops or repeats.
 *
 * It reads at most 1 % of the rows, and stops after spark.saltwise.auto.sampleTimeout, which
 * includes reading the footers of files ([[FooterRows]]). Nothing is sampled where reading means
 * computing: above an aggregate, a window, a cache that is still empty, or an RDD.
 */
object KeySample {
  private val MaxTasks = 8
  private val MaxRowsOfTask = 4096
  private val MinRowsOfTask = 128

  /** The plan of the keys' hashes: only the part of `plan` between the keys and their scan. */
  def lineage(keys: Seq[Expression], plan: LogicalPlan): Option[LogicalPlan] =
    if (!keys.forall(_.deterministic)) None
    else pathToScan(plan, AttributeSet(keys.flatMap(_.references)))
      .map(path => Project(Seq(Alias(GroupingKeys.hash(keys), "hash")()), path))

  /** @return None where there are no rows, or the time is over */
  def apply(
      lineage: LogicalPlan, state: SessionState, context: SparkContext): Option[KeyStatistics] = {
    val timeout = SQLConf.get.getConf(SaltwiseConf.SampleTimeout).millis
    if (timeout > Duration.Zero) sample(lineage, state, context, timeout.fromNow) else None
  }

  private def sample(
      lineage: LogicalPlan,
      state: SessionState,
      context: SparkContext,
      until: Deadline): Option[KeyStatistics] = {
    val hashes = state.executePlan(lineage).toRdd
    val tasks = hashes.getNumPartitions
    val sampledTasks = math.min(tasks, MaxTasks)
    val (guess, remark) = rowsOf(lineage.collectLeaves().head, state, until)
    val maxRows = (guess / 100 / math.max(1, sampledTasks))
      .max(MinRowsOfTask.toDouble).min(MaxRowsOfTask.toDouble).toInt
    val spread = Seq.tabulate(sampledTasks)(i => (i.toLong * tasks / sampledTasks).toInt)
    for (taken <- run(hashes, spread, maxRows, until, context) if taken.exists(_.nonEmpty)) yield {
      val all = taken.flatten
      // Where all tasks ended before they had maxRows, these are all rows of these tasks.
      val ended = taken.forall(_.length < maxRows)
      val rows = if (ended) all.length.toDouble * tasks / sampledTasks else guess
      KeyStatistics.ofSample(
        all, rows, tasks, s"a sample of ${all.length} rows${if (ended) "" else remark}")
    }
  }

  private def pathToScan(plan: LogicalPlan, keys: AttributeSet): Option[LogicalPlan] = plan match {
    case SkewGroupByHint(_, child) => pathToScan(child, keys)
    case Project(columns, child) if columns.forall(_.deterministic) =>
      val needed = columns.filter(column => keys.contains(column.toAttribute))
      pathToScan(child, AttributeSet(needed.flatMap(_.references))).map(Project(needed, _))
    case Filter(condition, child)
        if condition.deterministic && !SubqueryExpression.hasSubquery(condition) =>
      pathToScan(child, keys ++ condition.references).map(Filter(condition, _))
    case join: Join =>
      join.children.find(side => keys.subsetOf(side.outputSet)).flatMap(pathToScan(_, keys))
    // Once AQE has run a stage, this node stands for the plan that it ran.
    case stage: LogicalQueryStage => pathToScan(stage.logicalPlan, keys)
    case leaf: LeafNode if canBeSampled(leaf) => Some(leaf)
    case _ => None
  }

  private def canBeSampled(leaf: LeafNode): Boolean = leaf match {
    case relation: LogicalRelation => relation.relation.isInstanceOf[HadoopFsRelation]
    case _: Range | _: LocalRelation => true
    case _ => false
  }

  /** The number of rows that a scan reads, and a remark where the number is not exact. */
  private def rowsOf(leaf: LogicalPlan, state: SessionState, until: Deadline): (Double, String) = {
    def guess =
      leaf.stats.sizeInBytes.toDouble / leaf.schema.map(_.dataType.defaultSize).sum.max(1)
    (leaf.stats.rowCount, leaf) match {
      case (Some(rows), _) => (rows.toDouble, "")
      case (_, relation: LogicalRelation) =>
        val files = relation.relation.asInstanceOf[HadoopFsRelation]
        FooterRows(files, state.newHadoopConf(), until)
          .getOrElse((guess, ", a number of rows guessed from bytes"))
      case _ => (guess, "")
    }
  }

  /** The first rows of each partition; None where the job fails, or the time is over. */
  private def run(
      hashes: RDD[InternalRow],
      partitions: Seq[Int],
      maxRows: Int,
      until: Deadline,
      context: SparkContext): Option[Array[Array[Long]]] = {
    val taken = new Array[Array[Long]](partitions.length)
    val job = context.submitJob[InternalRow, Array[Long], Unit](
      hashes,
      rows => rows.take(maxRows).map(_.getLong(0)).toArray,
      partitions,
      (i, firstRows) => taken(i) = firstRows,
      ())
    try {
      ThreadUtils.awaitReady(job, until.timeLeft.max(Duration.Zero))
      job.value.get.toOption.map(_ => taken)
    } catch {
      case _: TimeoutException =>
        job.cancel()
        None
    }
  }
}
