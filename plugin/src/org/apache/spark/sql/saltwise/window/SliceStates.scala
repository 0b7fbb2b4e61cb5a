package org.apache.spark.sql.saltwise.window

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.saltwise.plan.StateFields
import org.apache.spark.sql.types.{DoubleType, IntegralType}

/**
 * The states of some aggregates for all rows of a slice, as Spark's Partial makes them, and the
 * state of several slices.
 *
 * Spark adds whole numbers as doubles to make their average. No bit is lost while the sum of their
 * absolute values is below 2^53, so states hold those sums too ([[Magnitudes]]).
 *
 * @param aggregates declarative functions
 * @param input      the columns of a row
 */
private[window] final class SliceStates(
    aggregates: Seq[AggregateExpression], input: Seq[Attribute]) {
  import SliceStates._

  private val added = aggregates ++ aggregates.collect(Magnitudes)
  private val functions = added.map(_.aggregateFunction.asInstanceOf[DeclarativeAggregate])
  private val fields = functions.flatMap(_.aggBufferAttributes)
  /** Those that a window in slices reads. */
  private val carriedFields =
    functions.take(aggregates.length).flatMap(_.aggBufferAttributes)

  private val initialize = MutableProjection.create(functions.flatMap(_.initialValues), Nil)
  private val update = MutableProjection.create(
    added.zip(functions).flatMap { case (aggregate, function) =>
      aggregate.filter.fold(function.updateExpressions) { passes =>
        function.updateExpressions.zip(function.aggBufferAttributes).map { case (updated, before) =>
          If(passes, updated, before)
        }
      }
    },
    fields ++ input)
  private val mergeBoth = MutableProjection.create(
    functions.flatMap(_.mergeExpressions),
    fields ++ functions.flatMap(_.inputAggBufferAttributes))
  private val asBytes = UnsafeProjection.create(fields.map(_.dataType).toArray)
  private val asCarried = UnsafeProjection.create(carriedFields.map(_.dataType).toArray)
  private val evaluate = UnsafeProjection.create(
    functions.take(aggregates.length).map(_.evaluateExpression), fields)
  private val stateAndRow = new JoinedRow

  /** The state of no rows. */
  def empty(): InternalRow = {
    val state = new SpecificInternalRow(fields.map(_.dataType))
    initialize.target(state)(InternalRow.empty)
    state
  }

  /** Adds a row to a state. */
  def add(state: InternalRow, row: InternalRow): Unit =
    update.target(state)(stateAndRow(state, row))

  /** The bytes of a state. It fails if a sum of decimals has more digits than bytes can hold. */
  def bytes(state: InternalRow): Array[Byte] = bytesBy(asBytes, state)

  /** The bytes of the state of all rows. A sum with too many digits has overflowed, as in stock. */
  def bytesOfAll(state: InternalRow): Array[Byte] = asBytes(state).getBytes.clone()

  /** @param write of the first fields, or of all */
  private def bytesBy(write: UnsafeProjection, state: InternalRow): Array[Byte] = {
    val written = write(state)
    (0 until written.numFields).foreach { i =>
      if (written.isNullAt(i) && !state.isNullAt(i)) {
        throw new ArithmeticException("The sum of these rows has too many digits.")
      }
    }
    written.getBytes.clone()
  }

  /** The results of the aggregates, once all rows are in the state. */
  def results(state: Array[Byte]): InternalRow = evaluate(fromBytes(state))

  /** What a slice carries if there are no others. */
  lazy val nothing: Array[Byte] = bytesBy(asCarried, empty())

  /**
   * For each slice, the state that its rows go on from, as
   * [[org.apache.spark.sql.saltwise.plan.StateFields]] reads it.
   *
   * @param slices the states of the slices, in their order
   * @param ofAll  for each function, whether it is the state of all other slices; else it is that
   *               of the slices before
   */
  def carried(slices: Seq[Array[Byte]], ofAll: Seq[Boolean]): Seq[Array[Byte]] = {
    val states = slices.map(fromBytes)
    val before = running(states).init
    val behind = running(states.reverse).init.reverse
    val fieldOfAll = functions.take(aggregates.length).zip(ofAll).flatMap { case (function, all) =>
      function.aggBufferAttributes.map(_ => all)
    }
    before.zip(behind).map { case (earlier, later) =>
      val others = merged(earlier, later)
      bytesBy(asCarried, InternalRow.fromSeq(fieldOfAll.zipWithIndex.map { case (all, i) =>
        (if (all) others else earlier).get(i, fields(i).dataType)
      }))
    }
  }

  /** The state of all rows of some states. */
  def merged(states: Seq[Array[Byte]]): Array[Byte] = {
    val all = empty()
    states.foreach(state => mergeBoth.target(all)(stateAndRow(all, fromBytes(state))))
    bytes(exact(all))
  }

  /** The same state. It fails if an average may have lost bits, and stock might lose others. */
  private def exact(state: InternalRow): InternalRow = {
    (carriedFields.length until fields.length).foreach { i =>
      if (!state.isNullAt(i) && state.getDouble(i) >= FirstInexact) {
        throw new ArithmeticException("The average of these rows depends on their order.")
      }
    }
    state
  }

  /** The states of no slice, the first slice, the first two, and so on. */
  private def running(states: Seq[InternalRow]): Seq[InternalRow] =
    states.scanLeft(empty())(merged)

  private def merged(one: InternalRow, other: InternalRow): InternalRow = {
    val state = new SpecificInternalRow(fields.map(_.dataType))
    fields.indices.foreach(i => state.update(i, one.get(i, fields(i).dataType)))
    exact(mergeBoth.target(state)(stateAndRow(state, other)).copy())
  }

  private def fromBytes(bytes: Array[Byte]): InternalRow = StateFields.row(bytes, fields.length)
}

private object SliceStates {

  /** Between this and its negative, doubles add whole numbers without a loss. */
  private val FirstInexact = (1L << 53).toDouble

  /** For an average of whole numbers, the sum of their absolute values. */
  private val Magnitudes: PartialFunction[AggregateExpression, AggregateExpression] = {
    case e @ AggregateExpression(average: Average, _, _, _, _)
        if average.child.dataType.isInstanceOf[IntegralType] =>
      e.copy(aggregateFunction = new Sum(new Abs(Cast(average.child, DoubleType))))
  }
}
