package org.apache.spark.sql.saltwise.local

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.execution.aggregate.AggregationIterator
import org.apache.spark.sql.saltwise.{Local, SkewOptions}
import org.apache.spark.sql.saltwise.sketch.SpaceSaving
import org.apache.spark.sql.types.BinaryType

/**
 * One map task of a [[SkewLocalExec]]. It runs Spark's own Partial for the keys that have a state.
 *
 * @param memory the bytes of rows that states may hold before all of them leave
 */
private final class LocalIterator(
    grouping: Seq[NamedExpression],
    aggregates: Seq[AggregateExpression],
    raw: Seq[NamedExpression],
    options: SkewOptions,
    memory: Long,
    input: Seq[Attribute],
    partition: Int,
    in: Iterator[InternalRow])
  extends AggregationIterator(
    partition, Nil, input, aggregates, Nil, 0, Nil,
    (expressions, schema) => MutableProjection.create(expressions, schema)) {
  import LocalIterator.RowsBeforeState

  // What the metrics show. `peak` is the largest number of bytes that states held at one time.
  var rows = 0L
  var headRows = 0L
  var sent = 0L
  var peak = 0L

  private val Local(theta, capacity) = Local(options.parameters)
  private val functions = aggregates.map(_.aggregateFunction)
  private val minShare = if (GrowingStates.among(functions)) theta else 0.0
  private val fields = functions.flatMap(_.aggBufferAttributes)
  private val keyOf = UnsafeProjection.create(grouping, input)
  private val asRaw = UnsafeProjection.create(grouping ++ raw :+ Literal(null, BinaryType), input)
  private val asState = {
    val keys = grouping.zipWithIndex.map { case (key, i) =>
      BoundReference(i, key.dataType, nullable = true)
    }
    val state = BoundReference(keys.length, BinaryType, nullable = false)
    UnsafeProjection.create(keys ++ raw.map(column => Literal(null, column.dataType)) :+ state)
  }
  private val keyAndState = new JoinedRow

  /**
   * Whether all fields of a buffer have a fixed length. Such a buffer is an UnsafeRow already, and
   * needs no generated code to write it. Lazy, because the superclass asks for it while it is
   * constructed.
   */
  private lazy val isFixed = aggregateFunctions.flatMap(_.aggBufferAttributes)
    .forall(field => UnsafeRow.isFixedLength(field.dataType))

  override protected def generateResultProjection(): (UnsafeRow, InternalRow) => UnsafeRow =
    if (isFixed) (_, buffer) => buffer.asInstanceOf[UnsafeRow]
    else super.generateResultProjection()

  // By counter: the key and the state on it.
  private val keys = new Array[UnsafeRow](capacity)
  private val states = new Array[InternalRow](capacity)

  private var heldBytes = 0L
  private var row: InternalRow = _
  private var key: UnsafeRow = _

  // The row that leaves next, and the row that leaves after it.
  private var ready: UnsafeRow = _
  private var afterReady: UnsafeRow = _

  // While all states leave: the next counter whose state leaves.
  private var flushing = capacity
  private var ended = false

  private val head = new SpaceSaving(capacity) {
    override protected def holdsCurrent(counter: Int): Boolean =
      states(counter) == null || keys(counter) == key

    override protected def storeCurrent(counter: Int): Unit =
      if (states(counter) != null) ready = removeState(counter)
  }

  /** The size of a state before its first row. Some sketches are large from the start. */
  private lazy val emptySize: Long = functions.map {
    case typed: TypedImperativeAggregate[_] => LocalIterator.emptySize(typed)
    case function => 16L * function.aggBufferAttributes.length
  }.sum

  override def hasNext: Boolean = {
    if (ready == null) advance()
    ready != null
  }

  override def next(): UnsafeRow = {
    if (!hasNext) throw new NoSuchElementException
    val out = ready
    ready = afterReady
    afterReady = null
    out
  }

  private def advance(): Unit = while (ready == null) {
    if (flushing < head.size) {
      if (states(flushing) != null) ready = removeState(flushing)
      flushing += 1
    } else if (in.hasNext) {
      row = in.next()
      rows += 1
      key = keyOf(row)
      useRow(head.offer(LocalIterator.hash(key)))
    } else if (!ended) {
      ended = true
      flushing = 0
    } else return
  }

  /** Combines the current row, whose key has this counter, or lets it pass. */
  private def useRow(counter: Int): Unit = {
    val certainRows = head.count(counter) - head.error(counter)
    if (states(counter) == null && isHead(certainRows)) addState(counter)
    if (states(counter) != null) {
      processRow(states(counter), row)
      headRows += 1
      hold(LocalIterator.size(row))
    } else {
      val out = asRaw(row)
      if (ready == null) ready = out else afterReady = out
    }
  }

  private def isHead(certainRows: Long): Boolean =
    certainRows > RowsBeforeState && certainRows > minShare * rows

  private def addState(counter: Int): Unit = {
    keys(counter) = key.copy()
    states(counter) =
      if (isFixed) LocalIterator.emptyRow(fields.length)
      else new SpecificInternalRow(fields.map(_.dataType))
    initializeBuffer(states(counter))
    hold(emptySize)
  }

  /** Counts bytes of rows in place of bytes of states, since no state is larger than its rows. */
  private def hold(bytes: Long): Unit = {
    heldBytes += bytes
    if (heldBytes > peak) peak = heldBytes
    if (heldBytes > memory) {
      heldBytes = 0
      flushing = 0
    }
  }

  /** Takes the state off a counter; returns the row that carries it. */
  private def removeState(counter: Int): UnsafeRow = {
    val state = generateOutput(LocalIterator.NoKey, states(counter)).getBytes
    val out = asState(keyAndState(keys(counter), new GenericInternalRow(Array[Any](state))))
    states(counter) = null
    sent += 1
    out
  }
}

private[saltwise] object LocalIterator {

  /**
   * A key gets a state once the summary is sure of more rows of it than this. A state costs as much
   * as some rows.
   */
  val RowsBeforeState = 32

  private val NoKey = new UnsafeRow(0)

  def emptyRow(fields: Int): UnsafeRow = {
    val row = new UnsafeRow(fields)
    val bytes = new Array[Byte](UnsafeRow.calculateBitSetWidthInBytes(fields) + 8 * fields)
    row.pointTo(bytes, bytes.length)
    row
  }

  /** This hash routes no row, so it need not be the hash of the routers. */
  def hash(key: UnsafeRow): Long =
    XXH64.hashUnsafeWords(key.getBaseObject, key.getBaseOffset, key.getSizeInBytes, 42L)

  def emptySize[T](function: TypedImperativeAggregate[T]): Long =
    function.serialize(function.createAggregationBuffer()).length.toLong

  def size(row: InternalRow): Long = row match {
    case unsafe: UnsafeRow => unsafe.getSizeInBytes.toLong
    case other => 16L * other.numFields
  }
}
