package org.apache.spark.sql.saltwise.window

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet}
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, UnknownPartitioning}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.saltwise.split.Packing

/**
 * Adds the aggregates of all rows of a window's partition to each of its rows. The rows of a task
 * are a slice, and no slice has an order: each makes a state of its rows, and the driver merges
 * them.
 *
 * @param sent   what the map tasks sent to each slice. None if there is no exchange; then each task
 *               reads its rows twice.
 * @param values the results of the aggregates
 */
final case class SkewTotalsExec(
    aggregates: Seq[AggregateExpression],
    values: Seq[Attribute],
    partitions: Slices,
    sent: Option[OfTasks[Seq[SentSlice]]],
    child: SparkPlan)
  extends SlicesExec {

  override def output: Seq[Attribute] = child.output ++ values
  override def producedAttributes: AttributeSet = AttributeSet(values)
  override def outputPartitioning: Partitioning = child.outputPartitioning

  override protected def doExecute(): RDD[InternalRow] = {
    val rows = child.execute()
    val (functions, input) = (aggregates, child.output)
    val states = new SliceStates(functions, input)
    val slices = sent.fold(slicesIn(rows))(slicesOf(rows, _, states, None))
    report(slices.map(_.rows))
    val ofSlices = partitions.numbers(rows.getNumPartitions).flatMap { numbers =>
      val total = SentSlice.merged(numbers.map(slices(_).state), states)
      val known = if (total == null) inOneTask(rows, numbers) else total
      numbers.map(_ => known)
    }.toArray
    val types = output.map(_.dataType).toArray
    rows.mapPartitionsWithIndex { (slice, rows) =>
      if (!rows.hasNext) rows else {
        val totals = new SliceStates(functions, input).results(ofSlices(slice))
        val both = new WithColumns(types)
        rows.map(both(_, totals))
      }
    }
  }

  private def slicesIn(rows: RDD[InternalRow]): Seq[SentSlice] = {
    val (carried, input) = (Carried.states(aggregates), child.output)
    rows.mapPartitions { rows =>
      val slices = new SlicesOfTask(1, carried, input)
      rows.foreach(slices.add(0, _))
      slices.all.iterator
    }.collect().toSeq
  }

  /** What stock Spark does: one task adds all rows, in their order. So it fails where that does. */
  private def inOneTask(rows: RDD[InternalRow], numbers: Range): Array[Byte] = {
    val (functions, input) = (aggregates, child.output)
    val all = Packing(Seq(numbers), whole = numbers.length, share = 1.0)
    rows.coalesce(1, shuffle = false, Some(all)).mapPartitions { rows =>
      val states = new SliceStates(functions, input)
      val state = states.empty()
      rows.foreach(states.add(state, _))
      Iterator(states.bytes(state))
    }.collect().head
  }

  override def simpleString(maxFields: Int): String = s"SkewWindow [], $partitions"

  override protected def withNewChildInternal(c: SparkPlan): SkewTotalsExec = copy(child = c)
}
