package org.apache.spark.sql.saltwise

import org.apache.spark.rdd.{PartitionCoalescer, PartitionGroup, RDD}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeProjection}
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, UnknownPartitioning}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}

/**
 * Reads the partitions that are not split. Until [[SplitSkewedPartitions]] has decided, that is all of them, so the
 * plan is right where adaptive execution never asks.
 *
 * @param packing which of the child's partitions each task reads, once it is decided
 */
final case class WholePartitionsExec(options: SkewOptions, packing: Option[Packing], child: SparkPlan)
  extends UnaryExecNode {

  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = UnknownPartitioning(0)

  override protected def doExecute(): RDD[InternalRow] = packing match {
    case Some(packing) => child.execute().coalesce(packing.tasks.length, shuffle = false, Some(packing))
    case None => child.execute()
  }

  override def simpleString(maxFields: Int): String =
    s"WholePartitions n=${options.workers}" + packing.map(p => s", $p").getOrElse("")

  override protected def withNewChildInternal(newChild: SparkPlan): WholePartitionsExec = copy(child = newChild)
}

/**
 * Which parts of a shuffle each task reads.
 *
 * @param tasks for each task, numbers of the child's partitions
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

  override def toString: String = f"$whole%d whole ones in ${tasks.length}%d tasks, the largest ${share * 100}%.1f %%"
}

/**
 * Reads the partitions that are split, slice by slice: none until [[SplitSkewedPartitions]] has decided.
 *
 * A slice is what some of the map tasks sent. Where one map task alone sent too much, several tasks read the same
 * slice, and each takes the rows whose content hashes to it; only columns that a second run gives again count.
 *
 * @param content columns that tell rows apart
 * @param cuts    for each of the child's partitions, once it is decided: which part of its rows to take, and of how many
 */
final case class SlicedPartitionsExec(content: Seq[Attribute], cuts: Option[Cuts], child: SparkPlan)
  extends UnaryExecNode {

  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = UnknownPartitioning(0)

  override protected def doExecute(): RDD[InternalRow] = cuts match {
    case None => sparkContext.emptyRDD[InternalRow]
    case Some(cuts) if cuts.parts.forall(_.of == 1) => child.execute()
    case Some(cuts) =>
      val (columns, input, parts) = (content, child.output, cuts.parts)
      child.execute().mapPartitionsWithIndex { (i: Int, in: Iterator[InternalRow]) =>
        val part = parts(i)
        if (part.of == 1) in else {
          val project = UnsafeProjection.create(columns, input)
          in.filter(row => Math.floorMod(RepeatableOrderExec.contentHash(project(row)), part.of.toLong) == part.number)
        }
      }
  }

  override def simpleString(maxFields: Int): String = "SlicedPartitions" + cuts.map(c => s" $c").getOrElse("")

  override protected def withNewChildInternal(newChild: SparkPlan): SlicedPartitionsExec = copy(child = newChild)
}

/** Part `number` of `of` parts of a slice. */
final case class Part(number: Int, of: Int)

final case class Cuts(split: Int, parts: Seq[Part]) {
  override def toString: String = s"$split split into ${parts.length} slices"
}
