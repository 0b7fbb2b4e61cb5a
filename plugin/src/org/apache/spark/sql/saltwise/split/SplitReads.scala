package org.apache.spark.sql.saltwise.split

import org.apache.spark.rdd.{PartitionCoalescer, PartitionGroup, RDD}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeProjection}
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, UnknownPartitioning}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.saltwise.routing.RepeatableOrderExec

/** Reads the partitions that are not split, several to a task. */
final case class WholePartitionsExec(packing: Packing, child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = UnknownPartitioning(packing.tasks.length)

  override protected def doExecute(): RDD[InternalRow] =
    child.execute().coalesce(packing.tasks.length, shuffle = false, Some(packing))

  override def simpleString(maxFields: Int): String = s"WholePartitions $packing"

  override protected def withNewChildInternal(newChild: SparkPlan): WholePartitionsExec = copy(child = newChild)
}

/**
 * Which of the child's partitions each task reads.
 *
 * @param tasks for each task, the numbers of runs of partitions
 * @param whole partitions of the shuffle that they make up
 * @param share the largest task's, of all rows or bytes
 */
final case class Packing(tasks: Seq[Seq[Int]], whole: Int, share: Double) extends PartitionCoalescer with Serializable {

  override def coalesce(maxPartitions: Int, parent: RDD[_]): Array[PartitionGroup] = {
    val partitions = parent.partitions
    tasks.map { numbers =>
      val group = new PartitionGroup()
      group.partitions ++= numbers.map(partitions(_))
      group
    }.toArray
  }

  override def toString: String = f"$whole%d in ${tasks.length}%d tasks, the largest with ${share * 100}%.1f%% of all"
}

/**
 * Reads the partitions that are split, a slice to a task.
 *
 * A slice is what some of the map tasks sent. Where one map task alone sent too much, several tasks read the same
 * slice, and each takes the rows whose content hashes to it.
 *
 * @param split how many partitions these are
 * @param parts for each of the child's partitions, which part of its rows to take, and of how many parts
 */
final case class SlicedPartitionsExec(split: Int, parts: Seq[Part], content: Seq[Attribute], child: SparkPlan)
  extends UnaryExecNode {

  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = UnknownPartitioning(parts.length)

  override protected def doExecute(): RDD[InternalRow] = {
    val (columns, input, wanted) = (content, child.output, parts)
    child.execute().mapPartitionsWithIndex { (i: Int, in: Iterator[InternalRow]) =>
      val Part(number, of) = wanted(i)
      if (of == 1) in else {
        val project = UnsafeProjection.create(columns, input)
        in.filter(row => Math.floorMod(RepeatableOrderExec.contentHash(project(row)), of.toLong) == number)
      }
    }
  }

  override def simpleString(maxFields: Int): String = s"SlicedPartitions $split in ${parts.length} slices"

  override protected def withNewChildInternal(newChild: SparkPlan): SlicedPartitionsExec = copy(child = newChild)
}

/** Part `number` of `of`, counted from 0. */
final case class Part(number: Int, of: Int)
