package org.apache.spark.sql.saltwise.window

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, BindReferences, Expression}
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.SparkPlan

/**
 * Adds the aggregates of all rows of a window's partition to each of its rows. Each task reads its
 * rows twice, and nothing is shuffled: first it makes states of them, which the driver merges.
 *
 * @param keys  the keys of the window; none if it has no PARTITION BY
 * @param hot   the keys that the rows have
 * @param added the results of the aggregates
 */
final case class SkewTotalsExec(
    aggregates: Seq[AggregateExpression],
    added: Seq[Attribute],
    keys: Seq[Expression],
    hot: Seq[SlicedKey],
    child: SparkPlan)
  extends SlicesExec {

  override def outputPartitioning: Partitioning = child.outputPartitioning

  private def numbersOfKeys: () => NumbersOfKeys = {
    val (ofKeys, hotKeys) = (BindReferences.bindReferences(keys, child.output), hot)
    () => new NumbersOfKeys(ofKeys, hotKeys)
  }

  override protected def doExecute(): RDD[InternalRow] = {
    val (rows, numbers) = (child.execute(), numbersOfKeys)
    val (functions, input, n) = (aggregates, child.output, hot.length)
    val ofTasks = rows.mapPartitions { rows =>
      val (ofTask, number) = (new SlicesOfTask(n, Carried.states(functions), input), numbers())
      rows.foreach(row => ofTask.add(number.of(row), row))
      Iterator(ofTask.all)
    }.collect().toSeq
    report(ofTasks.map(_.map(_.rows).sum))
    val states = new SliceStates(functions, input)
    val totals = SentSlice.of(ofTasks, n, states, None).map(_.state).zipWithIndex.map {
      case (null, key) => inOneTask(rows, key)
      case (state, _) => state
    }
    val types = output.map(_.dataType).toArray
    rows.mapPartitions { rows =>
      if (!rows.hasNext) rows else {
        val (number, both) = (numbers(), new WithColumns(types))
        val results = totals.map(total => new SliceStates(functions, input).results(total)).toArray
        rows.map(row => both(row, results(number.of(row))))
      }
    }
  }

  /** What stock Spark does: one task adds all rows, in their order. So it fails where that does. */
  private def inOneTask(rows: RDD[InternalRow], key: Int): Array[Byte] = {
    val (functions, input, numbers) = (aggregates, child.output, numbersOfKeys)
    rows.coalesce(1).mapPartitions { rows =>
      val (states, number) = (new SliceStates(functions, input), numbers())
      val state = states.empty()
      rows.foreach(row => if (number.of(row) == key) states.add(state, row))
      Iterator(states.bytesOfAll(state))
    }.collect().head
  }

  override def simpleString(maxFields: Int): String = {
    val ofKeys = if (keys.isEmpty) "" else s" of ${hot.length} keys"
    s"SkewWindow [], slices$ofKeys${Carried.states(aggregates)}"
  }

  override protected def withNewChildInternal(c: SparkPlan): SkewTotalsExec = copy(child = c)
}
