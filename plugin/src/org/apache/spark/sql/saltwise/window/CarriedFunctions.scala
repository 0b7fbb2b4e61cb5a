package org.apache.spark.sql.saltwise.window

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.saltwise.SaltwiseConf
import org.apache.spark.sql.saltwise.compat.SparkCompat
import org.apache.spark.sql.saltwise.local.UpdateOrMergeDeclarative
import org.apache.spark.sql.saltwise.plan.{GroupingKeys, StateFields}
import org.apache.spark.sql.types._

/**
 * The functions of a window with an order, in terms of its slices.
 *
 * Most functions go on from states. Each slice begins with a row that carries states
 * ([[SliceColumns]]). It is a copy of the slice's first row, so the order takes both as equal. An
 * aggregate merges the states into its own, and goes on. Of a rank in the slice, the row itself is
 * taken away, and the rows before the slice are added. Others read rows of other slices, near ones
 * or the first ones, and each slice has those ([[NearRows]]).
 *
 * Where there are both, a slice is: the first rows of the partition, the row that carries states,
 * the rows right before the slice, its own, the rows right behind it, the last row. All but its own
 * have states, so no aggregate adds them. The slice with the first row of a partition has nothing
 * ahead: no states are before it.
 *
 * @param order the order of the window
 */
private[window] final class CarriedFunctions(order: Seq[SortOrder]) {
  import CarriedFunctions._

  private val columns = SliceColumns()
  private val aggregates = mutable.ArrayBuffer.empty[(AggregateExpression, Boolean)]
  private val inSlices = mutable.LinkedHashMap.empty[(Expression, Expression), Alias]
  private var distinct = false
  private var before, behind, firsts = 0
  private var last, begins, mayOverflow = false

  /** @param input the columns of the window's input */
  private def all(
      functions: Seq[NamedExpression], input: Seq[Attribute]): Option[SlicedFunctions] = {
    val results = functions.map(_.transformDown {
      case e @ WindowExpression(function, spec) =>
        of(function, spec.frameSpecification).getOrElse(e)
    }.asInstanceOf[NamedExpression])
    // The first slice has no row that could carry the states of those behind it.
    val totalsBesideNear = readsNear && aggregates.exists { case (_, ofAll) => ofAll }
    // The frames of rows of other slices would hold rows that no frame of stock Spark has.
    val sumsBesideOthers = mayOverflow && (begins || firsts > 0 || last)
    if (results.exists(WindowExpression.hasWindowExpression) || totalsBesideNear ||
        sumsBesideOthers) None
    else {
      if (readsNear && begins) before = math.max(1, before)
      val near =
        if (!readsNear) None else Some(NearRows(before, behind, firsts, last, order, input))
      def withRowsAhead(e: NamedExpression): NamedExpression =
        if (readsNear) e
        else e.transform { case ahead if ahead == columns.ahead => one }
          .asInstanceOf[NamedExpression]
      val (windows, inTermsOfThese) = (windowsInSlices, results.map(withRowsAhead))
      Some(SlicedFunctions(
        columns,
        columns.in(AttributeSet(inTermsOfThese ++ windows) ++
          AttributeSet(Seq(columns.slice, columns.isRow))),
        Carried(
          aggregates.map(_._1).toSeq, aggregates.map(_._2).toSeq, distinct, begins || !readsNear,
          near),
        windows,
        inTermsOfThese))
    }
  }

  /** The windows that run in slices, once [[of]] has seen all functions. */
  private def windowsInSlices: Seq[NamedExpression] = {
    val fields = StructType(aggregates.toSeq.flatMap(bufferOf(_)).map(field =>
      StructField(field.name, field.dataType, field.nullable)))
    inSlices.values.toSeq.map(_.transform {
      case merge: UpdateOrMergeDeclarative =>
        merge.copy(state = StateFields(columns.state, fields))
    }.asInstanceOf[NamedExpression])
  }

  private def readsNear: Boolean = before > 0 || behind > 0 || firsts > 0 || last

  /** The result of a function, in terms of its window in slices. None if there is no way. */
  private def of(function: Expression, frame: WindowFrame): Option[Expression] = {
    val found = goingOn(function, frame)
    begins ||= found.isDefined
    found.orElse(amongNear(function, frame)).orElse(atAnEnd(function, frame))
  }

  /**
   * A function that reads some rows before a row and behind it, by their number.
   *
   * The frames of rows that come from another slice lack rows. What is left is the beginning of a
   * frame of stock Spark, which adds its rows in order, so no sum overflows that does not there.
   * But only stock's results of whole frames may have too many digits for a decimal.
   */
  private def amongNear(function: Expression, frame: WindowFrame): Option[Expression] = {
    val mayRead = function match {
      case lag: Lag => !lag.ignoreNulls
      case lead: Lead => !lead.ignoreNulls
      case aggregate: AggregateExpression =>
        aggregate.deterministic && !addsLongDecimals(aggregate) &&
          !aggregate.exists(_.isInstanceOf[UserDefinedExpression])
      case _ => false
    }
    frame match {
      case SpecifiedWindowFrame(RowFrame, Rows(from), Rows(to))
          if mayRead && from >= -MaxNear && to <= MaxNear =>
        before = math.max(before, -from)
        behind = math.max(behind, to)
        mayOverflow ||= CarriedFunctions.mayOverflow(function)
        Some(inSlice(function, frame))
      case _ => None
    }
  }

  /** A function that reads the first rows of its partition, or the last row, or that of a frame. */
  private def atAnEnd(function: Expression, frame: WindowFrame): Option[Expression] =
    (function, frame) match {
      case (Nth(n), SpecifiedWindowFrame(_, UnboundedPreceding, CurrentRow | UnboundedFollowing))
          if n <= MaxNear =>
        firsts = math.max(firsts, n)
        Some(inSlice(function, frame))
      // The last row of such a frame is near, or the current one.
      case (last, SpecifiedWindowFrame(_, UnboundedPreceding, CurrentRow)) if isLast(last) =>
        Some(inSlice(function, frame))
      case (ofAll, SpecifiedWindowFrame(_, UnboundedPreceding, UnboundedFollowing))
          if isLast(ofAll) =>
        last = true
        Some(inSlice(function, frame))
      case _ => None
    }

  /** A function that goes on from the states of the slices before. */
  private def goingOn(
      function: Expression, frame: WindowFrame): Option[Expression] = (function, frame) match {
    case (_: RowNumber, _) => Some(asInt(rowNumber))
    case (_: Rank, _) => Some(asInt(rank))
    case (_: DenseRank, _) =>
      distinct = true
      Some(asInt(new Add(long(inSlice(DenseRank(orders), UpToCurrentRow)), columns.distinct)))
    case (_: PercentRank, _) => Some(If(
      GreaterThan(columns.total, one),
      new Divide(double(new Subtract(rank, one)), double(new Subtract(columns.total, one))),
      Literal(0.0)))
    case (_: CumeDist, _) =>
      val soFar = aggregate(Count(one).toAggregateExpression(), UpToPeers, ofAll = false)
      Some(new Divide(double(soFar), double(columns.total)))
    case (tiles: NTile, _) if tiles.buckets.foldable => Some(asInt(tile(long(tiles.buckets))))
    case (e: AggregateExpression,
        soFar @ SpecifiedWindowFrame(_, UnboundedPreceding, CurrentRow)) if isExact(e) =>
      Some(aggregate(e, soFar, ofAll = false))
    case (e: AggregateExpression,
        whole @ SpecifiedWindowFrame(_, UnboundedPreceding, UnboundedFollowing)) if isExact(e) =>
      Some(aggregate(e, whole, ofAll = true))
    case _ => None
  }

  private def rowNumber: Expression =
    new Add(
      new Subtract(long(inSlice(RowNumber(), UpToCurrentRow)), columns.ahead), columns.before)

  /** If the row that carries the states is the only one ahead, the first rows are equal to it. */
  private def rank: Expression = {
    val inThis = long(inSlice(Rank(orders), UpToCurrentRow))
    new Add(columns.before, If(EqualTo(inThis, one), one, new Subtract(inThis, columns.ahead)))
  }

  /** The first tiles have one row more than the others, if the rows cannot be dealt out evenly. */
  private def tile(tiles: Expression): Expression = {
    val size = new IntegralDivide(columns.total, tiles)
    val larger = new Remainder(columns.total, tiles)
    val inLarger = new Multiply(larger, new Add(size, one))
    val number = new Subtract(rowNumber, one)
    new Add(one, If(
      LessThan(number, inLarger),
      new IntegralDivide(number, new Add(size, one)),
      new Add(larger, new IntegralDivide(new Subtract(number, inLarger), size))))
  }

  private def aggregate(
      e: AggregateExpression, frame: WindowFrame, ofAll: Boolean): Expression = {
    val first = aggregates.toSeq.flatMap(bufferOf(_)).length
    aggregates += (e -> ofAll)
    val merging = UpdateOrMergeDeclarative(
      e.aggregateFunction.asInstanceOf[DeclarativeAggregate], columns.state, first)
    val filter = e.filter.map(Or(IsNotNull(columns.state), _))
    inSlice(e.copy(aggregateFunction = merging, filter = filter), frame)
  }

  private def bufferOf(aggregate: (AggregateExpression, Boolean)): Seq[AttributeReference] =
    aggregate._1.aggregateFunction.aggBufferAttributes

  private def inSlice(function: Expression, frame: WindowFrame): Attribute = {
    val spec = WindowSpecDefinition(Seq(columns.slice), order, frame)
    inSlices.getOrElseUpdate(
      (function.canonicalized, frame.canonicalized),
      Alias(WindowExpression(function, spec), "inSlice")()).toAttribute
  }

  private def orders: Seq[Expression] = order.map(_.child)
}

// Arithmetic is made by `new`, since only these constructors are the same in all lines of Spark.
private[window] object CarriedFunctions {

  /** The functions of a window in slices. None if one of them needs all rows in one task. */
  def apply(
      functions: Seq[NamedExpression],
      order: Seq[SortOrder],
      input: Seq[Attribute]): Option[SlicedFunctions] =
    new CarriedFunctions(order).all(functions, input)

  private val UpToCurrentRow = SpecifiedWindowFrame(RowFrame, UnboundedPreceding, CurrentRow)
  private val UpToPeers = SpecifiedWindowFrame(RangeFrame, UnboundedPreceding, CurrentRow)
  private val one = Literal(1L)

  /** The most rows before or behind a row that are near. Each task sends them to the driver. */
  private val MaxNear = 100

  /** An end of a frame of rows: how many rows behind the current one it is. */
  private object Rows {
    def unapply(end: Expression): Option[Int] = end match {
      case CurrentRow => Some(0)
      case rows if rows.foldable => Option(rows.eval()).collect { case n: Int => n }
      case _ => None
    }
  }

  /** Whether this is last_value, and counts NULLs. */
  private def isLast(e: Expression): Boolean = e match {
    case AggregateExpression(last: Last, _, false, None, _) => !last.ignoreNulls
    case _ => false
  }

  /** first_value and nth_value that count NULLs: the number of the row that they read. */
  private object Nth {
    def unapply(e: Expression): Option[Int] = e match {
      case AggregateExpression(first: First, _, false, None, _) if !first.ignoreNulls => Some(1)
      case nth: NthValue if !nth.ignoreNulls && nth.offset.foldable =>
        Option(nth.offset.eval()).collect { case n: Int => n }
      case _ => None
    }
  }

  private def long(e: Expression): Expression = Cast(e, LongType)
  private def double(e: Expression): Expression = Cast(e, DoubleType)

  /** As in Spark, the number of a row beyond the largest int begins anew. */
  private def asInt(e: Expression): Expression =
    Cast(e, IntegerType, None, EvalMode.LEGACY)

  /**
   * Whether the states of slices, merged, are to the bit what one task makes of all rows. The
   * session may allow other last bits of sums and averages. A sum that answers NULL once it has
   * overflowed depends on the order in which it adds.
   */
  def isExact(e: AggregateExpression): Boolean = !e.isDistinct && e.deterministic &&
    !SparkCompat.triesToAdd(e.aggregateFunction) && (e.aggregateFunction match {
      case Adds(added) => !isFloat(added) || SQLConf.get.getConf(SaltwiseConf.WindowFloats)
      case _: Count | _: CountIf => true
      case best @ (_: Min | _: Max) => !GroupingKeys.isCollated(best.dataType)
      case _: BitAndAgg | _: BitOrAgg | _: BitXorAgg => true
      case _ => false
    })

  /** Whether a sum fails where it overflows, although more rows might bring it back. */
  def mayOverflow(e: Expression): Boolean = e match {
    case AggregateExpression(sum: Sum, _, _, _, _) if sum.child.dataType == LongType =>
      SparkCompat.failsToAdd(sum)
    case AggregateExpression(Adds(_: DayTimeIntervalType | _: YearMonthIntervalType), _, _, _, _) =>
      true
    case _ => false
  }

  /** Whether sums of so few rows as a short frame has may have too many digits. */
  def addsLongDecimals(e: AggregateExpression): Boolean = e.aggregateFunction match {
    case Adds(added: DecimalType) => added.precision > DecimalType.MAX_PRECISION - 10
    case _ => false
  }

  /** Whether the last bits of a function depend on the order in which it adds doubles. */
  def addsFloats(e: Expression): Boolean = e match {
    case AggregateExpression(Adds(added), _, _, _, _) => isFloat(added)
    case _ => false
  }

  /** A sum or an average, and the type of what it adds. */
  private object Adds {
    def unapply(function: AggregateFunction): Option[DataType] = function match {
      case sum: Sum => Some(sum.child.dataType)
      case average: Average => Some(average.child.dataType)
      case _ => None
    }
  }

  private def isFloat(dataType: DataType): Boolean =
    dataType == FloatType || dataType == DoubleType
}

/**
 * The functions of a window, as its slices run them.
 *
 * @param columns the columns that slices add to rows
 * @param added   those of them that are read
 * @param windows the functions of a slice
 * @param results the functions of the window, in terms of these
 */
private[window] final case class SlicedFunctions(
    columns: SliceColumns,
    added: Seq[Attribute],
    carried: Carried,
    windows: Seq[NamedExpression],
    results: Seq[NamedExpression])
