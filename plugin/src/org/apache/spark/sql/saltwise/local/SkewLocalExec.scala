package org.apache.spark.sql.saltwise.local

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.execution.{PartitioningPreservingUnaryExecNode, SparkPlan}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.saltwise.SkewOptions

/**
 * Combines the rows of head keys into states, and lets the rows of tail keys pass.
 *
 * A SpaceSaving summary of bounded size finds the head, and its counters hold the states. A key
 * gets a state once the summary is sure of enough rows of it. Where states grow
 * ([[GrowingStates]]), the key also needs a share of theta of all rows so far. A state leaves when
 * its counter is given to another key. A row whose key has no state leaves raw. Two keys with the
 * same hash never share a state.
 *
 * @param grouping   the keys
 * @param aggregates the functions in Partial mode
 * @param raw        the columns of a raw row beside its key
 * @param state      the states of all functions, as StateFields reads them; NULL in a raw row
 * @param memory     the bytes of rows that states may hold before all of them leave
 */
final case class SkewLocalExec(
    grouping: Seq[NamedExpression],
    aggregates: Seq[AggregateExpression],
    raw: Seq[NamedExpression],
    state: Attribute,
    options: SkewOptions,
    memory: Long,
    child: SparkPlan)
  extends PartitioningPreservingUnaryExecNode {

  override protected def outputExpressions: Seq[NamedExpression] = grouping ++ raw

  override def output: Seq[Attribute] =
    grouping.map(_.toAttribute) ++ raw.map(_.toAttribute.withNullability(true)) :+ state

  override def producedAttributes: AttributeSet = AttributeSet(state)

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "rows" -> SQLMetrics.createMetric(sparkContext, "rows"),
    "headRows" -> SQLMetrics.createMetric(sparkContext, "rows combined"),
    "states" -> SQLMetrics.createMetric(sparkContext, "states sent"),
    "peak" -> SQLMetrics.createSizeMetric(sparkContext, "peak memory of states"))

  override protected def doExecute(): RDD[InternalRow] = {
    val (keys, functions, columns) = (grouping, aggregates, raw)
    val (input, local, maxHeld) = (child.output, options, memory)
    val (rows, headRows) = (longMetric("rows"), longMetric("headRows"))
    val (sent, peak) = (longMetric("states"), longMetric("peak"))
    child.execute().mapPartitionsWithIndex { (partition: Int, in: Iterator[InternalRow]) =>
      if (in.isEmpty) Iterator.empty else {
        val out =
          new LocalIterator(keys, functions, columns, local, maxHeld, input, partition, in)
        TaskContext.get().addTaskCompletionListener[Unit] { _ =>
          rows += out.rows
          headRows += out.headRows
          sent += out.sent
          peak += out.peak
        }
        out
      }
    }
  }

  override def simpleString(maxFields: Int): String =
    s"SkewLocal ${grouping.mkString("[", ", ", "]")}, $options"

  override protected def withNewChildInternal(newChild: SparkPlan): SkewLocalExec =
    copy(child = newChild)
}
