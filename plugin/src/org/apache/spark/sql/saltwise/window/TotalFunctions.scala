package org.apache.spark.sql.saltwise.window

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression

/**
 * The functions of a window without an order: aggregates, each of which has one value for all rows
 * of a partition.
 *
 * @param values  the columns of these values
 * @param results the functions of the window, in terms of these
 */
private[window] final case class TotalFunctions(
    aggregates: Seq[AggregateExpression],
    values: Seq[Attribute],
    results: Seq[NamedExpression])

private[window] object TotalFunctions {

  /** None if one of the functions needs all rows in one task. */
  def apply(functions: Seq[NamedExpression]): Option[TotalFunctions] = {
    val values = mutable.LinkedHashMap.empty[Expression, (AggregateExpression, Attribute)]
    val results = functions.map(_.transformDown {
      case WindowExpression(e: AggregateExpression, spec)
          if isWhole(spec.frameSpecification) && CarriedFunctions.isExact(e) =>
        values.getOrElseUpdate(
          e.canonicalized,
          (e, AttributeReference("total", e.dataType, e.nullable)()))._2
    }.asInstanceOf[NamedExpression])
    if (results.exists(WindowExpression.hasWindowExpression)) None
    else Some(TotalFunctions(
      values.values.map(_._1).toSeq, values.values.map(_._2).toSeq, results))
  }

  private def isWhole(frame: WindowFrame): Boolean = frame match {
    case SpecifiedWindowFrame(_, UnboundedPreceding, UnboundedFollowing) => true
    case _ => false
  }
}
