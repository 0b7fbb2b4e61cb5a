package org.apache.spark.sql.saltwise.routing

import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.rdd.{DeterministicLevel, RDD}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeRow, XXH64}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{RecordBinaryComparator, SparkPlan, UnaryExecNode, UnsafeExternalRowSorter}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.saltwise.sketch.SkewWorker
import org.apache.spark.util.collection.unsafe.sort.PrefixComparators

/**
 * Hands rows on in an order that a second run of the task repeats. Over a scan that is the order in which they come;
 * over a shuffle, where they come as they arrive, each task sorts them by a hash of their content, as Spark does
 * before a round-robin repartition (SPARK-23207). Equal rows may change places, which nobody can tell.
 *
 * So a choice that depends on the rows before is the same in both runs, and a lost executor changes nothing. To
 * flag the choice as order sensitive and let Spark roll back what was read from it would not do: from 4.2 on a
 * stage that adaptive execution submits anew, in a later job, is not rolled back in its first attempt.
 */
final case class RepeatableOrderExec(child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "peakMemory" -> SQLMetrics.createSizeMetric(sparkContext, "peak memory"),
    "spillSize" -> SQLMetrics.createSizeMetric(sparkContext, "spill size"))

  override protected def doExecute(): RDD[InternalRow] = {
    val rows = child.execute()
    if (rows.outputDeterministicLevel == DeterministicLevel.DETERMINATE) rows else sorted(rows)
  }

  private def sorted(rows: RDD[InternalRow]): RDD[InternalRow] = {
    val rowSchema = schema
    val (peakMemory, spillSize) = (longMetric("peakMemory"), longMetric("spillSize"))
    rows.mapPartitions({ in =>
      val sorter = UnsafeExternalRowSorter.createWithRecordComparator(
        rowSchema,
        () => new RecordBinaryComparator,
        PrefixComparators.LONG,
        new RepeatableOrderExec.ContentHash,
        SparkEnv.get.memoryManager.pageSizeBytes,
        // Radix sort looks at the prefix only, which is enough: it is a hash of 64 bits.
        true)
      val metrics = TaskContext.get().taskMetrics()
      val spilled = metrics.memoryBytesSpilled
      // Below every exchange rows are unsafe.
      val out = sorter.sort(in.asInstanceOf[Iterator[UnsafeRow]])
      peakMemory += sorter.getPeakMemoryUsage
      spillSize += metrics.memoryBytesSpilled - spilled
      metrics.incPeakExecutionMemory(sorter.getPeakMemoryUsage)
      out
    }, preservesPartitioning = true)
  }

  override protected def withNewChildInternal(newChild: SparkPlan): RepeatableOrderExec = copy(child = newChild)
}

object RepeatableOrderExec {
  def contentHash(row: UnsafeRow): Long =
    XXH64.hashUnsafeWords(row.getBaseObject, row.getBaseOffset, row.getSizeInBytes, 42L)

  private final class ContentHash extends UnsafeExternalRowSorter.PrefixComputer {
    private val prefix = new UnsafeExternalRowSorter.PrefixComputer.Prefix

    override def computePrefix(row: InternalRow): UnsafeExternalRowSorter.PrefixComputer.Prefix = {
      prefix.isNull = false
      prefix.value = contentHash(row.asInstanceOf[UnsafeRow])
      prefix
    }
  }
}

/**
 * Gives `skew_worker` its rows in a repeatable order.
 *
 * {{{
 *   before:  Project(skew_worker(...)) - child
 *   after:   Project(skew_worker(...)) - RepeatableOrder - child
 * }}}
 */
object OrderRowsOfSkewWorkers extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
    case node: UnaryExecNode if node.expressions.exists(_.exists(dependsOnOrder)) &&
        !node.child.isInstanceOf[RepeatableOrderExec] =>
      node.withNewChildren(Seq(RepeatableOrderExec(node.child)))
  }

  private def dependsOnOrder(expression: Any): Boolean = expression match {
    case worker: SkewWorker => worker.options.dependsOnOrder
    case _ => false
  }
}
