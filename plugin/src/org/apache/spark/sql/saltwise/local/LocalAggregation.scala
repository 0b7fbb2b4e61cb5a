package org.apache.spark.sql.saltwise.local

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.Partial
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.aggregate._
import org.apache.spark.sql.saltwise.SkewOptions
import org.apache.spark.sql.saltwise.compat.SparkCompat
import org.apache.spark.sql.saltwise.plan.{AggregatePhases, StateFields}
import org.apache.spark.sql.types.{BinaryType, StructField, StructType}

/**
 * The `local` plan: map tasks combine the rows of head keys, and send the rows of tail keys as they
 * are.
 *
 * {{{
 *   before:  Final(k) - Exchange(k) - Partial(k) - t
 *
 *   after:   Complete(k) - Exchange(k) - SkewLocal(k) - t
 * }}}
 *
 * [[SkewLocalExec]] sends rows of two kinds: states of head keys, and raw rows of tail keys.
 * Complete merges the states and updates from the raw rows ([[UpdateOrMerge]]). A hot key reaches
 * its reducer as a few states from each map task, so reducers are balanced. The tail costs nothing
 * extra. A row's partition is a function of its key alone, so any task may run again.
 */
object LocalAggregation {

  /** @param stock the aggregate as Spark planned it, in two phases */
  def apply(options: SkewOptions, memory: Long, stock: SparkPlan): SparkPlan = stock.transformUp {
    case last: BaseAggregateExec if isFinal(last) =>
      val first = last.child.asInstanceOf[BaseAggregateExec]
      val buffers = first.aggregateExpressions.map(_.aggregateFunction.aggBufferAttributes)
      val state = AttributeReference("state", BinaryType)()
      val fields = StateFields(state, StructType(buffers.flatten.map(field =>
        StructField(field.name, field.dataType, field.nullable))))
      val (raw, renamed) = rawColumns(first)
      val combined = SkewLocalExec(
        first.groupingExpressions, first.aggregateExpressions, raw, state, options, memory,
        first.child)
      val firstFields = buffers.scanLeft(0)(_ + _.length)
      val complete = first.aggregateExpressions.zip(firstFields).map {
        case (aggregate, firstField) => UpdateOrMerge(aggregate, renamed, fields, firstField)
      }
      val keys = first.groupingExpressions.map(_.toAttribute)
      // Without this exchange Spark adds one, and may coalesce its partitions.
      val rows = if (!options.workersGiven) combined else {
        SparkCompat.exchange(HashPartitioning(keys, options.workers), combined)
      }
      AggregatePhases.inOnePhase(last, Some(keys), keys, complete, rows).getOrElse(last)
  }

  private def isFinal(node: BaseAggregateExec): Boolean = node.child match {
    case child: BaseAggregateExec => child.aggregateExpressions.forall(_.mode == Partial)
    case _ => false
  }

  /**
   * The columns that a raw row needs beside its key, and the new names of some of them. A
   * normalised key, where -0.0 has become 0.0, has the same name as its column. The aggregates read
   * the original values, so the column travels under another name.
   */
  private def rawColumns(
      first: BaseAggregateExec): (Seq[NamedExpression], AttributeMap[Attribute]) = {
    val plainKeys = AttributeSet(first.groupingExpressions.collect { case key: Attribute => key })
    val keys = AttributeSet(first.groupingExpressions.map(_.toAttribute))
    val needed = AttributeSet(first.aggregateExpressions.flatMap(_.references))
      .intersect(first.child.outputSet)
    val renamed = needed
      .filter(column => keys.contains(column) && !plainKeys.contains(column)).toSeq
      .map(column => column -> Alias(column, column.name)())
    val columns = needed.filterNot(keys.contains).toSeq ++ renamed.map(_._2)
    (columns, AttributeMap(renamed.map { case (column, alias) => column -> alias.toAttribute }))
  }
}
