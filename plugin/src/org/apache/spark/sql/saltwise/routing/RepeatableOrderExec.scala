package org.apache.spark.sql.saltwise.routing

import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.rdd.{DeterministicLevel, RDD}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder, UnsafeRow, XXH64}
import org.apache.spark.sql.catalyst.expressions.codegen.LazilyGeneratedOrdering
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.UnsafeExternalRowSorter.PrefixComputer
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.util.collection.unsafe.sort.PrefixComparators

/**
 * Returns rows in an order that a second run of the task repeats.
 *
 * Over a scan, this is the order in which the rows come. After a shuffle, rows come in the order
 * of their arrival, which may change. There each task sorts them by a hash of their content, as
 * Spark does before a round-robin repartition (SPARK-23207). Equal rows may change places, and
 * this makes no difference. If the rows have an order, they keep it, and the hash is for those that
 * tie.
 *
 * So a choice that depends on earlier rows is the same in both runs, and a lost executor changes
 * nothing. It is not enough to flag the choice as order sensitive and let Spark roll back what
 * read from it: from Spark 4.2, a stage that adaptive execution submits again, in a later job, is
 * not rolled back in its first attempt.
 */
final case class RepeatableOrderExec(child: SparkPlan) extends UnaryExecNode {
  import RepeatableOrderExec._

  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "peakMemory" -> SQLMetrics.createSizeMetric(sparkContext, "peak memory"),
    "spillSize" -> SQLMetrics.createSizeMetric(sparkContext, "spill size"))

  override protected def doExecute(): RDD[InternalRow] = {
    val rows = child.execute()
    if (rows.outputDeterministicLevel == DeterministicLevel.DETERMINATE) rows else sorted(rows)
  }

  private def sorted(rows: RDD[InternalRow]): RDD[InternalRow] = {
    val (rowSchema, order, input) = (schema, child.outputOrdering, child.output)
    val (peakMemory, spillSize) = (longMetric("peakMemory"), longMetric("spillSize"))
    rows.mapPartitions({ in =>
      val pageSize = SparkEnv.get.memoryManager.pageSizeBytes
      val sorter =
        // Radix sort compares only the prefix. This is enough, because the prefix is a 64-bit hash.
        if (order.isEmpty) UnsafeExternalRowSorter.createWithRecordComparator(
          rowSchema, () => new RecordBinaryComparator, PrefixComparators.LONG,
          new ContentHash, pageSize, true)
        else UnsafeExternalRowSorter.create(
          rowSchema, new LazilyGeneratedOrdering(HashOfRow.repeatable(order, input), input),
          PrefixComparators.LONG, NoPrefix, pageSize, false)
      val metrics = TaskContext.get().taskMetrics()
      val spilledBefore = metrics.memoryBytesSpilled
      // The input of every exchange is unsafe rows.
      val out = sorter.sort(in.asInstanceOf[Iterator[UnsafeRow]])
      peakMemory += sorter.getPeakMemoryUsage
      spillSize += metrics.memoryBytesSpilled - spilledBefore
      metrics.incPeakExecutionMemory(sorter.getPeakMemoryUsage)
      out
    }, preservesPartitioning = true)
  }

  override protected def withNewChildInternal(c: SparkPlan): RepeatableOrderExec = copy(child = c)
}

object RepeatableOrderExec {
  def contentHash(row: UnsafeRow): Long =
    XXH64.hashUnsafeWords(row.getBaseObject, row.getBaseOffset, row.getSizeInBytes, 42L)

  private object NoPrefix extends PrefixComputer {
    private val prefix = new PrefixComputer.Prefix
    override def computePrefix(row: InternalRow): PrefixComputer.Prefix = prefix
  }

  private final class ContentHash extends PrefixComputer {
    private val prefix = new PrefixComputer.Prefix

    override def computePrefix(row: InternalRow): PrefixComputer.Prefix = {
      prefix.isNull = false
      prefix.value = contentHash(row.asInstanceOf[UnsafeRow])
      prefix
    }
  }
}
