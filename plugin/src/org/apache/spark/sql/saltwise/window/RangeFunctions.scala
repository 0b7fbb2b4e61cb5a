package org.apache.spark.sql.saltwise.window

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._

/**
 * The functions of a window whose frames are distances of the order, such as `RANGE BETWEEN 7
 * PRECEDING AND CURRENT ROW`. A slice needs the rows of others within the distance, and no states:
 * a function finds all rows of its frame in the slice.
 *
 * @param distance   how far the frames reach
 * @param aggregates the functions without their frames
 * @param slice      the column with the number of the slice
 * @param isRow      the column that is false in rows of other slices
 * @param windows    the functions of a slice
 * @param results    the functions of the window, in terms of these
 */
private[window] final case class RangeFunctions(
    distance: Distance,
    aggregates: Seq[Expression],
    slice: Attribute,
    isRow: Attribute,
    windows: Seq[NamedExpression],
    results: Seq[NamedExpression])

private[window] object RangeFunctions {

  /** None if one of the functions needs all rows in one task. */
  def apply(functions: Seq[NamedExpression], order: Seq[SortOrder]): Option[RangeFunctions] =
    for {
      by <- order.headOption.filter(_ => order.length == 1)
      calls = functions.flatMap(_.collect { case call: WindowExpression => call })
      distances = calls.map(distanceOf(_, by.dataType))
      if distances.nonEmpty && distances.forall(_.isDefined)
    } yield {
      val columns = SliceColumns()
      val inSlices = calls.map { call =>
        val spec = WindowSpecDefinition(
          Seq(columns.slice), order, call.windowSpec.frameSpecification)
        call.canonicalized -> Alias(WindowExpression(call.windowFunction, spec), "inSlice")()
      }.toMap
      val results = functions.map(_.transformDown {
        case call: WindowExpression => inSlices(call.canonicalized).toAttribute
      }.asInstanceOf[NamedExpression])
      RangeFunctions(
        distances.flatten.reduce(_.or(_)), calls.map(_.windowFunction), columns.slice,
        columns.isRow, inSlices.values.toSeq, results)
    }

  private def distanceOf(call: WindowExpression, order: DataType): Option[Distance] =
    (call.windowFunction, call.windowSpec.frameSpecification) match {
      case (e: AggregateExpression, SpecifiedWindowFrame(RangeFrame, lower, upper))
          if CarriedFunctions.isExact(e) && !CarriedFunctions.addsLongDecimals(e) =>
        for {
          from <- offset(lower, order)
          to <- offset(upper, order)
          // Without ANSI, the end of a frame may come out at the other end of all numbers, and the
          // frame of another row with it. If frames have their own row, that stays near.
          if SQLConf.get.ansiEnabled || from <= 0 && to >= 0
        } yield {
          // With a time zone, a day may have an hour more or less, and one had none at all.
          val slack = if (order == TimestampType) DayAndHour else 0L
          Distance(
            Distance.sum(math.max(0L, if (from == Long.MinValue) Long.MaxValue else -from), slack),
            Distance.sum(math.max(0L, to), slack))
        }
      case _ => None
    }

  /** An end of a frame in units of the order: days, microseconds, or one. */
  private def offset(end: Expression, order: DataType): Option[Long] =
    if (end == CurrentRow) { if (hasUnits(order)) Some(0L) else None }
    else if (!end.foldable) None
    else (order, end.dataType, end.eval()) match {
      case (_: IntegralType | DateType, _: IntegralType, n: Number) => Some(n.longValue)
      case (TimestampType | TimestampNTZType, _: DayTimeIntervalType, n: Long) => Some(n)
      case _ => None
    }

  private def hasUnits(order: DataType): Boolean = order match {
    case _: IntegralType | DateType | TimestampType | TimestampNTZType => true
    case _ => false
  }

  private val DayAndHour = 25L * 3600 * 1000000
}

/** How far frames reach before a row and behind it, in units of the order. */
final case class Distance(before: Long, behind: Long) {
  def or(other: Distance): Distance =
    Distance(math.max(before, other.before), math.max(behind, other.behind))
}

object Distance {
  /** The sum, or the number that is nearest to it. */
  def sum(a: Long, b: Long): Long = {
    val found = a + b
    if (((a ^ found) & (b ^ found)) < 0) if (a < 0) Long.MinValue else Long.MaxValue else found
  }
}
