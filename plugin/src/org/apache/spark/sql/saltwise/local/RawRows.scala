package org.apache.spark.sql.saltwise.local

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.saltwise.plan.StateFields
import org.apache.spark.sql.types.{BinaryType, DataType, ObjectType}

/**
 * The rows that a map task sends for some aggregates: the key, the columns that the aggregates
 * read, and a state.
 *
 * Only arguments travel, not the columns that they are computed from:
 * `percentile_approx(length(body), 0.5) FILTER (WHERE ok)` sends the length and the filter. The
 * argument becomes `IF(ok, length(body), NULL)`, because Spark evaluates it only for rows that pass
 * the filter. If a function may not evaluate an argument for every row, its columns travel instead,
 * because the argument might fail for the other rows: `max_by(10 / v, if(v = 0, NULL, t), 3)` does
 * not divide by 0. So an argument travels only if it is the first one of an imperative function,
 * and the others are constants. An object of the JVM, which typed aggregators take, never does.
 *
 * @param keys       the keys
 * @param columns    the expressions that make these rows from the input, without the state
 * @param aggregates the functions, in terms of these rows
 * @param noState    the last column, in a raw row: NULL in place of the states of all functions,
 *                   or the states that came from below a join
 */
final case class RawRows(
    keys: Seq[Attribute],
    columns: Seq[NamedExpression],
    aggregates: Seq[AggregateExpression],
    noState: NamedExpression) {

  def state: Attribute = noState.toAttribute
}

object RawRows {
  /**
   * The rows for the first phase of an aggregate.
   *
   * @param combines whether states travel, too
   */
  def apply(first: BaseAggregateExec, combines: Boolean): RawRows = {
    val carried = if (combines) stateBelow(first.aggregateExpressions) else None
    of(first.groupingExpressions, first.aggregateExpressions, first.child.outputSet, carried)
  }

  /** The rows for aggregates over `input`. */
  def apply(
      grouping: Seq[NamedExpression],
      functions: Seq[AggregateExpression],
      input: AttributeSet): RawRows = of(grouping, functions, input, carried = None)

  /** The column of states that come from below a join, if new ones have the same fields. */
  private def stateBelow(aggregates: Seq[AggregateExpression]): Option[Attribute] = {
    val merging = aggregates.map(_.aggregateFunction).collect { case f: UpdateOrMerge => f }
    val positions = merging.map(_.aggBufferAttributes.length).scanLeft(0)(_ + _)
    merging.map(_.state).distinct match {
      case Seq(StateFields(state: Attribute, fields))
          if merging.length == aggregates.length && merging.map(_.first) == positions.init &&
            fields.length == positions.last => Some(state)
      case _ => None
    }
  }

  private def of(
      grouping: Seq[NamedExpression],
      functions: Seq[AggregateExpression],
      input: AttributeSet,
      carried: Option[Attribute]): RawRows = {
    val columns = new Columns(grouping, input -- AttributeSet(carried))
    val aggregates = functions.map { aggregate =>
      val function = aggregate.aggregateFunction match {
        case function: ImperativeAggregate => withFirstArgument(function, aggregate.filter, columns)
        case function => function
      }
      val read = columns.in(function).asInstanceOf[AggregateFunction]
      aggregate.copy(read, filter = aggregate.filter.map(columns.as))
    }
    RawRows(
      grouping.map(_.toAttribute),
      grouping ++ columns.all,
      aggregates,
      carried.getOrElse(Alias(Literal(null, BinaryType), "state")()))
  }

  private def withFirstArgument(
      function: ImperativeAggregate,
      filter: Option[Expression],
      columns: Columns): AggregateFunction = function.children match {
    case argument +: others if !argument.foldable && !argument.isInstanceOf[Attribute] &&
        others.forall(_.foldable) && !argument.dataType.existsRecursively(isObject) =>
      val evaluated = filter.fold(argument)(If(_, argument, Literal(null, argument.dataType)))
      function.withNewChildren(columns.as(evaluated) +: others).asInstanceOf[AggregateFunction]
    case _ => function
  }

  private def isObject(dataType: DataType): Boolean = dataType.isInstanceOf[ObjectType]

  /** The columns of the rows, beside the keys. */
  private final class Columns(grouping: Seq[NamedExpression], input: AttributeSet) {
    private val plainKeys = AttributeSet(grouping.collect { case key: Attribute => key })
    private val keys = AttributeSet(grouping.map(_.toAttribute))
    private val added = mutable.LinkedHashMap.empty[Expression, NamedExpression]

    def all: Seq[NamedExpression] = added.values.toSeq

    /**
     * The column with these values. A normalised key, where -0.0 has become 0.0, has the same name
     * as its column. The aggregates read the original values, so the column travels under another
     * name.
     */
    def as(values: Expression): Attribute = values match {
      case key: Attribute if plainKeys.contains(key) => key
      case other => added.getOrElseUpdate(other.canonicalized, other match {
        case column: Attribute if !keys.contains(column) => column
        case _ => Alias(other, "argument")()
      }).toAttribute
    }

    /** The expression with columns in place of what it reads. */
    def in(expression: Expression): Expression = expression.transform {
      case read: Attribute if input.contains(read) => as(read)
    }
  }
}
