package org.apache.spark.sql.saltwise.local

import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.execution.aggregate.AggregationIterator
import org.apache.spark.sql.types.BinaryType

/**
 * Spark's own Partial for one state at a time: how a state begins, its size, and how it is sent.
 *
 * @param mayFail whether the arguments of a row may fail that stock Spark would not evaluate
 */
private[local] abstract class PartialStates(
    keys: Seq[Attribute],
    aggregates: Seq[AggregateExpression],
    input: Seq[Attribute],
    partition: Int,
    mayFail: Boolean)
  extends AggregationIterator(
    partition, Nil, input, aggregates, Nil, 0, Nil,
    (updates, schema) =>
      if (schema.length > updates.length) StateProjection.create(updates, schema)
      else MutableProjection.create(updates, schema)) {

  private val fields = aggregates.flatMap(_.aggregateFunction.aggBufferAttributes).map(_.dataType)
  private val asState = {
    val read = keys.zipWithIndex.map { case (key, i) =>
      BoundReference(i, key.dataType, nullable = true)
    }
    val raw = input.slice(keys.length, input.length - 1)
      .map(column => Literal(null, column.dataType))
    val state = BoundReference(keys.length, BinaryType, nullable = false)
    UnsafeProjection.create(read ++ raw :+ state)
  }
  private val keyAndState = new JoinedRow
  private val noKey = new UnsafeRow(0)

  /** The number of states that were sent, and the bytes of their rows. */
  var sentStates, sentBytes = 0L

  /**
   * Whether all fields of a buffer have a fixed length. Such a buffer is already an UnsafeRow, so
   * it needs no generated code to write it. Lazy, because the constructor of the superclass reads
   * it.
   */
  protected lazy val isFixed: Boolean = aggregateFunctions.flatMap(_.aggBufferAttributes)
    .forall(field => UnsafeRow.isFixedLength(field.dataType))

  override protected def generateResultProjection(): (UnsafeRow, InternalRow) => UnsafeRow =
    if (isFixed) (_, buffer) => buffer.asInstanceOf[UnsafeRow]
    else super.generateResultProjection()

  protected def emptyState(): InternalRow = {
    val state =
      if (isFixed) UnsafeRow.createFromByteArray(fixedBytes, fields.length)
      else new SpecificInternalRow(fields)
    initializeBuffer(state)
    state
  }

  /** How many rows failed. An error takes long, so there must not be many. */
  protected var failed = 0

  /** Adds a row to a state. If its arguments fail, the state stays as it was, and it is false. */
  protected def add(state: InternalRow, row: UnsafeRow): Boolean =
    try {
      processRow(state, row)
      true
    } catch {
      case NonFatal(_) if mayFail =>
        failed += 1
        false
    }

  private def fixedBytes: Int =
    UnsafeRow.calculateBitSetWidthInBytes(fields.length) + 8 * fields.length

  /** The bytes of a state before its first row, and of each of its fields. */
  protected lazy val emptyBytes: Long = fixedBytes + emptySizes.sum
  /** Spark sends no state of no rows, and some functions cannot. */
  protected lazy val emptySizes: Seq[Long] =
    try sizes(emptyState()) catch { case NonFatal(_) => fields.indices.map(_ => 0L) }

  /** The bytes that each field takes, beside its word in the row, when a state is sent. */
  protected def sizes(state: InternalRow): Seq[Long] = {
    // Spark writes the bytes of an object in its place, so a copy is sent.
    val row = generateOutput(noKey, state.copy())
    fields.indices.map(i => if (UnsafeRow.isFixedLength(fields(i))) 0L else row.getLong(i).toInt)
  }

  /** The fields that hold single values, like those of max_by. They do not grow with the rows. */
  protected lazy val singleFields: Seq[Int] = fieldsOf(_.isInstanceOf[DeclarativeAggregate])

  /** The fields whose values may grow as long as rows come. A digest stops growing. */
  protected lazy val growingFields: Seq[Int] =
    fieldsOf(!_.isInstanceOf[ApproximatePercentile]).diff(singleFields)

  private def fieldsOf(chosen: AggregateFunction => Boolean): Seq[Int] =
    aggregates.map(_.aggregateFunction).flatMap { function =>
      function.aggBufferAttributes.map(_ => chosen(function))
    }.zipWithIndex.collect { case (true, i) => i }

  /** The row that carries a state. */
  protected def stateRow(key: UnsafeRow, state: InternalRow): UnsafeRow = {
    val bytes = generateOutput(noKey, state).getBytes
    val row = asState(keyAndState(key, new GenericInternalRow(Array[Any](bytes))))
    sentStates += 1
    sentBytes += row.getSizeInBytes
    row
  }
}
