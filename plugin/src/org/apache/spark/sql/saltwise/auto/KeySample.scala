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
 * A bounded sample of the keys of an aggregate: the first rows of some tasks of the scan that the key comes from.
 *
 * It goes through projections and filters, and through a join to the side that has the key; the other side is not
 * read, so what the join drops or repeats is not seen. It reads at most 1 % of the rows, and gives up after
 * spark.saltwise.auto.sampleTimeout, footers of files ([[FooterRows]]) included. Nothing is sampled where reading means computing: over an aggregate, a window, a
 * cache that is still empty, an RDD.
 */
object KeySample {
  private val MostTasks = 8
  private val MostRowsOfTask = 4096
  private val LeastRowsOfTask = 128

  /** The hashes of the keys, over what of the plan leads to the scan that they come from. */
  def lineage(keys: Seq[Expression], plan: LogicalPlan): Option[LogicalPlan] =
    if (!keys.forall(_.deterministic)) None
    else along(plan, AttributeSet(keys.flatMap(_.references)))
      .map(scan => Project(Seq(Alias(GroupingKeys.hash(keys), "hash")()), scan))

  /** @return None where there are no rows, or there is no time */
  def apply(lineage: LogicalPlan, state: SessionState, context: SparkContext): Option[KeyStatistics] = {
    val timeout = SQLConf.get.getConf(SaltwiseConf.SampleTimeout).millis
    if (timeout > Duration.Zero) take(lineage, state, context, timeout.fromNow) else None
  }

  private def take(
      lineage: LogicalPlan, state: SessionState, context: SparkContext, until: Deadline): Option[KeyStatistics] = {
    val hashes = state.executePlan(lineage).toRdd
    val tasks = hashes.getNumPartitions
    val chosen = math.min(tasks, MostTasks)
    val (guess, remark) = rowsOf(lineage.collectLeaves().head, state, until)
    val most = (guess / 100 / math.max(1, chosen)).max(LeastRowsOfTask.toDouble).min(MostRowsOfTask.toDouble).toInt
    val spread = Seq.tabulate(chosen)(i => (i.toLong * tasks / chosen).toInt)
    for (taken <- run(hashes, spread, most, until, context) if taken.exists(_.nonEmpty)) yield {
      val all = taken.flatten
      // Tasks that ended before their part was taken say how many rows there are.
      val ended = taken.forall(_.length < most)
      val rows = if (ended) all.length.toDouble * tasks / chosen else guess
      KeyStatistics.ofSample(all, rows, tasks, s"a sample of ${all.length} rows${if (ended) "" else remark}")
    }
  }

  private def along(plan: LogicalPlan, keys: AttributeSet): Option[LogicalPlan] = plan match {
    case SkewGroupByHint(_, child) => along(child, keys)
    case Project(columns, child) if columns.forall(_.deterministic) =>
      val needed = columns.filter(column => keys.contains(column.toAttribute))
      along(child, AttributeSet(needed.flatMap(_.references))).map(Project(needed, _))
    case Filter(condition, child) if condition.deterministic && !SubqueryExpression.hasSubquery(condition) =>
      along(child, keys ++ condition.references).map(Filter(condition, _))
    case join: Join => join.children.find(side => keys.subsetOf(side.outputSet)).flatMap(along(_, keys))
    // Once AQE has run a stage, this node stands for what it ran.
    case stage: LogicalQueryStage => along(stage.logicalPlan, keys)
    case leaf: LeafNode if canBeSampled(leaf) => Some(leaf)
    case _ => None
  }

  private def canBeSampled(leaf: LeafNode): Boolean = leaf match {
    case relation: LogicalRelation => relation.relation.isInstanceOf[HadoopFsRelation]
    case _: Range | _: LocalRelation => true
    case _ => false
  }

  /** How many rows a scan reads, and a remark on that where it is not exact. */
  private def rowsOf(leaf: LogicalPlan, state: SessionState, until: Deadline): (Double, String) = {
    def guess = leaf.stats.sizeInBytes.toDouble / leaf.schema.map(_.dataType.defaultSize).sum.max(1)
    (leaf.stats.rowCount, leaf) match {
      case (Some(rows), _) => (rows.toDouble, "")
      case (_, relation: LogicalRelation) =>
        FooterRows(relation.relation.asInstanceOf[HadoopFsRelation], state.newHadoopConf(), until)
          .getOrElse((guess, ", a number of rows guessed from bytes"))
      case _ => (guess, "")
    }
  }

  private def run(
      hashes: RDD[InternalRow],
      partitions: Seq[Int],
      most: Int,
      until: Deadline,
      context: SparkContext): Option[Array[Array[Long]]] = {
    val taken = new Array[Array[Long]](partitions.length)
    val job = context.submitJob[InternalRow, Array[Long], Unit](
      hashes, rows => rows.take(most).map(_.getLong(0)).toArray, partitions, (i, found) => taken(i) = found, ())
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
