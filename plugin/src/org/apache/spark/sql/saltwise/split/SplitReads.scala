package org.apache.spark.sql.saltwise.split

import org.apache.spark.rdd.{PartitionCoalescer, PartitionGroup, RDD}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression, UnsafeProjection}
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.execution.{
  BinaryExecNode, CoalescedPartitionSpec, LeafExecNode, SparkPlan}
import org.apache.spark.sql.execution.adaptive.{AQEShuffleReadExec, ShuffleQueryStageExec}
import org.apache.spark.sql.saltwise.plan.ReportedRead
import org.apache.spark.sql.saltwise.routing.RepeatableOrderExec

/**
 * A read of a shuffle whose partitions stay as they were decided. Spark coalesces the partitions of
 * a read if all leaves below it are shuffles, so this node has another leaf.
 *
 * Spark's operators send their plan to each task. The description of all tasks stays on the driver,
 * because otherwise each of very many tasks would read it. So a task has no plan below this node.
 */
abstract class DecidedRead extends BinaryExecNode with ReportedRead {
  def keep: SparkPlan

  override def left: SparkPlan = read
  override def right: SparkPlan = keep
  override val output: Seq[Attribute] = read.output

  /** A sort-merge join calls this for the plan below it in each task, where `read` is null. */
  override protected[sql] def cleanupResources(): Unit = {}
}

/** Has no rows. It is the other leaf of a [[DecidedRead]]. */
final case class KeepPartitionsExec(output: Seq[Attribute] = Nil) extends LeafExecNode {
  override protected def doExecute(): RDD[InternalRow] = sparkContext.emptyRDD
}

/**
 * Reads the partitions that are not split. A task may read several of them.
 *
 * @param keys the keys of a window, which relies on them; none below an aggregate
 */
final case class WholePartitionsExec(
    packing: Packing,
    keys: Seq[Expression],
    @transient read: SparkPlan,
    keep: SparkPlan = KeepPartitionsExec())
  extends DecidedRead {

  override def isBesideSlices: Boolean = keys.nonEmpty
  override def outputPartitioning: Partitioning =
    if (keys.isEmpty) UnknownPartitioning(packing.tasks.length)
    else WholeKeys(keys, packing.tasks.length)

  override protected def doExecute(): RDD[InternalRow] =
    read.execute().coalesce(packing.tasks.length, shuffle = false, Some(packing))

  override def simpleString(maxFields: Int): String = s"WholePartitions $packing"

  override protected def withNewChildrenInternal(
      newRead: SparkPlan, newKeep: SparkPlan): WholePartitionsExec =
    copy(read = newRead, keep = newKeep)
}

object WholePartitionsExec {

  /** Reads the partitions but those in `split`, packed into tasks. */
  def apply(
      stage: ShuffleQueryStageExec,
      received: Received,
      tasks: Int,
      split: Set[Int],
      keys: Seq[Expression]): WholePartitionsExec = {
    val packed = received.pack(tasks, split)
    val runs = packed.runs.map { run =>
      CoalescedPartitionSpec(run.start, run.end, run.map(received.bytes(_)).sum)
    }
    val packing = Packing(packed.tasks, received.bytes.length - split.size, packed.share)
    WholePartitionsExec(packing, keys, AQEShuffleReadExec(stage, runs))
  }
}

/** All rows of a key are in one partition, but it is not Spark's hash that says which. */
final case class WholeKeys(keys: Seq[Expression], numPartitions: Int) extends Partitioning {
  override def satisfies0(required: Distribution): Boolean = required match {
    case clustered: ClusteredDistribution =>
      HashPartitioning(keys, numPartitions).satisfies(clustered)
    case _ => super.satisfies0(required)
  }
}

/**
 * The partitions of the child that each task reads.
 *
 * @param tasks for each task, the numbers of the child's partitions that it reads. Each of these is
 *              a run of partitions of the shuffle.
 * @param whole the number of partitions of the shuffle in the runs
 * @param share the largest task's share of all rows or bytes
 */
final case class Packing(@transient tasks: Seq[Seq[Int]], whole: Int, share: Double)
  extends PartitionCoalescer with Serializable {

  override def coalesce(maxPartitions: Int, parent: RDD[_]): Array[PartitionGroup] = {
    val partitions = parent.partitions
    tasks.map { numbers =>
      val group = new PartitionGroup()
      group.partitions ++= numbers.map(partitions(_))
      group
    }.toArray
  }

  override def toString: String =
    f"$whole%d in ${tasks.length}%d tasks, the largest with ${share * 100}%.1f%% of all"
}

/**
 * Reads the partitions that are split, one slice in each task.
 *
 * A slice has the rows that some of the map tasks sent. If a single map task sent too much, several
 * tasks read the same slice, and each takes the rows whose content hashes to its number.
 *
 * @param split   the number of partitions that are split
 * @param parts   for each of the child's partitions, the part of its rows to take
 * @param content the columns that choose the part of a row
 */
final case class SlicedPartitionsExec(
    split: Int,
    @transient parts: Seq[Part],
    content: Seq[Attribute],
    @transient read: SparkPlan,
    keep: SparkPlan = KeepPartitionsExec())
  extends DecidedRead {

  override def isBesideSlices: Boolean = false
  override def outputPartitioning: Partitioning = UnknownPartitioning(parts.length)

  override protected def doExecute(): RDD[InternalRow] = {
    val (columns, input) = (content, read.output)
    // Each task reads these, so they are arrays, not objects.
    val (numbers, counts) = (parts.map(_.number).toArray, parts.map(_.count).toArray)
    read.execute().mapPartitionsWithIndex { (task: Int, in: Iterator[InternalRow]) =>
      val (number, count) = (numbers(task), counts(task))
      if (count == 1) in else {
        val project = UnsafeProjection.create(columns, input)
        in.filter { row =>
          val hash = RepeatableOrderExec.contentHash(project(row))
          Math.floorMod(hash, count.toLong) == number
        }
      }
    }
  }

  override def simpleString(maxFields: Int): String =
    s"SlicedPartitions $split in ${parts.length} slices"

  override protected def withNewChildrenInternal(
      newRead: SparkPlan, newKeep: SparkPlan): SlicedPartitionsExec =
    copy(read = newRead, keep = newKeep)
}

/** A part of a slice: its number, from 0, and the number of parts of the slice. */
final case class Part(number: Int, count: Int)
