package org.apache.spark.sql.saltwise.local

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.types.BinaryType

/**
 * The rows that a map task sends for the aggregates of `first`: the key, the columns that the
 * aggregates read, and a state.
 *
 * Only arguments travel, and not the columns that they are made of:
 * `percentile_approx(length(body), 0.5) FILTER (WHERE ok)` sends the length and the filter. The
 * argument becomes
 * `IF(ok, length(body), NULL)`, since it is not evaluated for other rows. An argument that its
 * function does not evaluate for each row stays as it is, because it might fail for the others. So
 * do all but the first argument of a function, and all of a declarative one.
 *
 * @param keys       the keys
 * @param columns    how the rows are made of the rows of `first`, apart from the state
 * @param aggregates the functions of `first`, in terms of these rows
 * @param noState    the last column, in a raw row: NULL in place of the states of all functions
 */
final case class RawRows(
    keys: Seq[Attribute],
    columns: Seq[NamedExpression],
    aggregates: Seq[AggregateExpression],
    noState: NamedExpression) {

  def state: Attribute = noState.toAttribute
}

object RawRows {
  def apply(first: BaseAggregateExec): RawRows = {
    val keys = first.groupingExpressions.map(_.toAttribute)
    val columns = new Columns(first)
    val aggregates = first.aggregateExpressions.map { aggregate =>
      val function = aggregate.aggregateFunction match {
        case function: ImperativeAggregate => withFirstArgument(function, aggregate.filter, columns)
        case function => function
      }
      val read = columns.in(function).asInstanceOf[AggregateFunction]
      aggregate.copy(read, filter = aggregate.filter.map(columns.as))
    }
    RawRows(
      keys,
      first.groupingExpressions ++ columns.all,
      aggregates,
      Alias(Literal(null, BinaryType), "state")())
  }

  private def withFirstArgument(
      function: ImperativeAggregate,
      filter: Option[Expression],
      columns: Columns): AggregateFunction = function.children match {
    case argument +: others if !argument.foldable && !argument.isInstanceOf[Attribute] =>
      val evaluated = filter.fold(argument)(If(_, argument, Literal(null, argument.dataType)))
      function.withNewChildren(columns.as(evaluated) +: others).asInstanceOf[AggregateFunction]
    case _ => function
  }

  /** The columns of the rows, beside the keys. */
  private final class Columns(first: BaseAggregateExec) {
    private val plainKeys =
      AttributeSet(first.groupingExpressions.collect { case key: Attribute => key })
    private val keys = AttributeSet(first.groupingExpressions.map(_.toAttribute))
    private val input = first.child.outputSet
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
