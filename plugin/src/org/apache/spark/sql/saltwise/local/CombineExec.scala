package org.apache.spark.sql.saltwise.local

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.plans.physical.{
  Partitioning, PartitioningCollection, SinglePartition, UnknownPartitioning}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.saltwise.SkewOptions
import org.apache.spark.sql.saltwise.plan.{ReportedJoin, ReportedOperator}
import org.apache.spark.sql.saltwise.sketch.{HotKeysOfTask, HotKeysSeen, KeyNames}

/**
 * Combines rows into states where that pays, and lets the other rows pass ([[BatchSize]]).
 *
 * The child's rows are raw rows: the key, the columns that the aggregates read, and NULL for the
 * state. A raw row is sent as it came. In a row that carries a state, the columns are NULL. Two
 * keys with the same hash never share a state.
 *
 * @param keys       the keys, the first columns of the child
 * @param aggregates the functions in Partial mode
 * @param memory     the bytes that the states and the waiting rows of a task may hold
 * @param belowJoin  whether a join, which may drop rows, is between this and the aggregate
 */
final case class CombineExec(
    keys: Seq[Attribute],
    aggregates: Seq[AggregateExpression],
    options: SkewOptions,
    memory: Long,
    belowJoin: Boolean,
    child: SparkPlan)
  extends UnaryExecNode with ReportedOperator {

  /** Whether each state, and each result, keeps all of its rows. */
  def makesLists: Boolean =
    aggregates.nonEmpty && aggregates.forall(_.aggregateFunction.isInstanceOf[CollectList])

  override def forJoin: Option[ReportedJoin] =
    if (!belowJoin) None
    else Some(ReportedJoin(keys, aggregates.map(_.aggregateFunction.prettyName).distinct))

  override def output: Seq[Attribute] =
    child.output.take(keys.length) ++ child.output.drop(keys.length).map(_.withNullability(true))

  // Rows that carry states have NULL in the other columns that the child may be partitioned by.
  override def outputPartitioning: Partitioning = {
    def byKeys(partitioning: Partitioning): Seq[Partitioning] = partitioning match {
      case several: PartitioningCollection => several.partitionings.flatMap(byKeys)
      case one @ SinglePartition => Seq(one)
      case by: Expression if by.references.subsetOf(AttributeSet(keys)) => Seq(by)
      case _ => Nil
    }
    byKeys(child.outputPartitioning) match {
      case Nil => UnknownPartitioning(child.outputPartitioning.numPartitions)
      case Seq(one) => one
      case several => PartitioningCollection(several)
    }
  }

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "rows" -> SQLMetrics.createMetric(sparkContext, "rows"),
    "combined" -> SQLMetrics.createMetric(sparkContext, "rows combined"),
    "all" -> SQLMetrics.createMetric(sparkContext, "rows taken as all"),
    "head" -> SQLMetrics.createMetric(sparkContext, "rows taken as head"),
    "raw" -> SQLMetrics.createMetric(sparkContext, "rows taken as raw"),
    "saved" -> SQLMetrics.createSizeMetric(sparkContext, "bytes saved"),
    "states" -> SQLMetrics.createMetric(sparkContext, "states sent"),
    "peak" -> SQLMetrics.createSizeMetric(sparkContext, "peak memory of states"))

  private lazy val keysSeen = HotKeysSeen.registered(sparkContext)
  override def hotKeys: Seq[HotKeysSeen.HotKey] = keysSeen.value

  override protected def doExecute(): RDD[InternalRow] = {
    val (hotKeys, newNames) = (keysSeen, KeyNames.factory(keys, keys, conf))
    val (grouping, functions, columns, lists) = (keys, aggregates, child.output, makesLists)
    val (maxMemory, isBelowJoin) = (memory, belowJoin)
    val Seq(rows, combined, all, head, raw, saved, states, peak) =
      Seq("rows", "combined", "all", "head", "raw", "saved", "states", "peak").map(longMetric)
    child.execute().mapPartitionsWithIndex { (partition: Int, in: Iterator[InternalRow]) =>
      if (in.isEmpty) Iterator.empty else {
        val hot = new HotKeysOfTask(newNames())
        val out = new CombineIterator(
          grouping, functions, lists, columns, maxMemory, isBelowJoin, partition, hot, in)
        TaskContext.get().addTaskCompletionListener[Unit] { _ =>
          out.close()
          rows += out.rows
          combined += out.combinedRows
          all += out.allRows
          head += out.headRows
          raw += out.rows - out.allRows - out.headRows
          saved += out.savedBytes
          states += out.sentStates
          peak += out.peakMemory
          hot.keys(out.rows).foreach(hotKeys.add)
        }
        out
      }
    }
  }

  override def simpleString(maxFields: Int): String =
    s"Combine ${keys.mkString("[", ", ", "]")}, $options${if (belowJoin) ", below a join" else ""}"

  override protected def withNewChildInternal(c: SparkPlan): CombineExec = copy(child = c)
}
