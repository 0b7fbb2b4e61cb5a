package org.apache.spark.sql.saltwise.local

import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.execution.aggregate.AggregationIterator
import org.apache.spark.sql.types.BinaryType

/**
 * Spark's own Partial for one state at a time: how a state begins, its size, and how it is sent. Of
 * Spark's iterator, only its functions are used. No rows come out of this one.
 *
 * @param mayFail whether the arguments of a row may fail that stock Spark would not evaluate
 */
private[local] final class PartialStates(
    keyOf: KeyOfRow, aggregates: Seq[AggregateExpression], partition: Int, mayFail: Boolean)
  extends AggregationIterator(
    partition, Nil, keyOf.input, aggregates, Nil, 0, Nil,
    (updates, schema) =>
      if (schema.length > updates.length) StateProjection.create(updates, schema)
      else MutableProjection.create(updates, schema)) {

  private val fields = aggregates.flatMap(_.aggregateFunction.aggBufferAttributes).map(_.dataType)
  private val asState = {
    val read = keyOf.keys.zipWithIndex.map { case (key, i) =>
      BoundReference(i, key.dataType, nullable = true)
    }
    val raw = keyOf.input.slice(read.length, keyOf.input.length - 1)
      .map(column => Literal(null, column.dataType))
    val state = BoundReference(read.length, BinaryType, nullable = false)
    UnsafeProjection.create(read ++ raw :+ state)
  }
  private val keyAndState = new JoinedRow
  private val noKey = new UnsafeRow(0)
  private val row = new UnsafeRow(keyOf.input.length)

  override def hasNext: Boolean = false
  override def next(): UnsafeRow = throw new NoSuchElementException

  /** The number of states that were sent, and the bytes of their rows. */
  var sentStates, sentBytes = 0L

  /**
   * Whether all fields of a buffer have a fixed length. Such a buffer is already an UnsafeRow, so
   * it needs no generated code to write it. Lazy, because the constructor of the superclass reads
   * it.
   */
  lazy val isFixed: Boolean = aggregateFunctions.flatMap(_.aggBufferAttributes)
    .forall(field => UnsafeRow.isFixedLength(field.dataType))

  override protected def generateResultProjection(): (UnsafeRow, InternalRow) => UnsafeRow =
    if (isFixed) (_, buffer) => buffer.asInstanceOf[UnsafeRow]
    else super.generateResultProjection()

  def emptyState(): InternalRow = {
    val state =
      if (isFixed) UnsafeRow.createFromByteArray(fixedBytes, fields.length)
      else new SpecificInternalRow(fields)
    initializeBuffer(state)
    state
  }

  /** How many rows failed. An error takes long, so there must not be many. */
  var failed = 0

  /** Adds a row to a state. If its arguments fail, the state stays as it was, and it is false. */
  def add(state: InternalRow, row: UnsafeRow): Boolean =
    try {
      processRow(state, row)
      true
    } catch {
      case NonFatal(_) if mayFail =>
        failed += 1
        false
    }

  /** Makes a state that of no rows again. */
  def clear(state: InternalRow): Unit = initializeBuffer(state)

  /**
   * Adds the first rows of a run that are of this group, and returns their number. Mostly it is the
   * whole run, but other keys may have the same hash, and the arguments of a row may fail.
   */
  def addRun(
      group: UnsafeRow, state: InternalRow, bucket: RowBucket, begin: Int, end: Int): Int = {
    var i = begin
    while (i < end && keyOf.groups.areSame(group, keyOf.group(bucket.read(i, row))) &&
        add(state, row)) i += 1
    i - begin
  }

  private def fixedBytes: Int =
    UnsafeRow.calculateBitSetWidthInBytes(fields.length) + 8 * fields.length

  /** The bytes of a state before its first row, and of each of its fields. */
  lazy val emptyBytes: Long = fixedBytes + emptySizes.sum

  /** Spark sends no state of no rows, and some functions cannot. */
  private lazy val emptySizes: Seq[Long] =
    try sizes(emptyState()) catch { case NonFatal(_) => fields.indices.map(_ => 0L) }

  /** The bytes by which each field of a state has grown. */
  def grownBy(state: InternalRow): Seq[Long] =
    sizes(state).zip(emptySizes).map { case (now, empty) => now - empty }

  /** The bytes that each field takes, beside its word in the row, when a state is sent. */
  private def sizes(state: InternalRow): Seq[Long] = {
    // Spark writes the bytes of an object in its place, so a copy is sent.
    val row = generateOutput(noKey, state.copy())
    fields.indices.map(i => if (UnsafeRow.isFixedLength(fields(i))) 0L else row.getLong(i).toInt)
  }

  /**
   * The fields that grow as rows come. Single values, like those of max_by, do not.
   *
   * @param fewKeys whether there are so few keys that each comes again and again. Then a digest
   *                stops growing.
   */
  def growingFields(fewKeys: Boolean): Seq[Int] =
    aggregates.map(_.aggregateFunction).flatMap { function =>
      val grows = function match {
        case _: DeclarativeAggregate => false
        case _: ApproximatePercentile => !fewKeys
        case _ => true
      }
      function.aggBufferAttributes.map(_ => grows)
    }.zipWithIndex.collect { case (true, i) => i }

  /** The row that carries a state. */
  def stateRow(key: UnsafeRow, state: InternalRow): UnsafeRow = {
    val bytes = generateOutput(noKey, state).getBytes
    val row = asState(keyAndState(key, new GenericInternalRow(Array[Any](bytes))))
    sentStates += 1
    sentBytes += row.getSizeInBytes
    row
  }
}
