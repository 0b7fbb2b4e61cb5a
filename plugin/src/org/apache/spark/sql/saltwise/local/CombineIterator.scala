package org.apache.spark.sql.saltwise.local

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.execution.aggregate.AggregationIterator
import org.apache.spark.sql.saltwise.local.StateTable.Entry
import org.apache.spark.sql.types.{BinaryType, ObjectType}
import org.apache.spark.unsafe.types.UTF8String

/**
 * One map task of a [[CombineExec]]. It runs Spark's own Partial for the keys that have a state.
 *
 * A raw row comes in as it leaves: its key, what the aggregates read, and NULL for the state.
 */
private final class CombineIterator(
    keys: Seq[Attribute],
    aggregates: Seq[AggregateExpression],
    input: Seq[Attribute],
    counters: Int,
    maxMemory: Long,
    partition: Int,
    in: Iterator[InternalRow])
  extends AggregationIterator(
    partition, Nil, input, aggregates, Nil, 0, Nil,
    (expressions, schema) => MutableProjection.create(expressions, schema)) {
  import CombineIterator._

  private val functions = aggregates.map(_.aggregateFunction)
  private val fields = functions.flatMap(_.aggBufferAttributes)
  private val keyOf = UnsafeProjection.create(keys, input)
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

  private val table = new StateTable
  private val memory = new StateMemory(TaskContext.get().taskMemoryManager(), maxMemory)
  val combining = new Combining(counters)

  // What the metrics show, apart from what `combining` counts.
  var rows = 0L
  var combinedRows = 0L
  var states = 0L
  def peakMemory: Long = memory.peak

  private var rowBytes = 0L
  private var lookedRows = 0L
  // What a combined row may add to the memory that states hold.
  private var heldPerRow = 0L
  private var emptyBytes = 0L

  private var ready: UnsafeRow = _
  private var leaving: Iterator[Entry] = Iterator.empty
  private var ended = false

  override def hasNext: Boolean = {
    if (ready == null) advance()
    ready != null
  }

  override def next(): UnsafeRow = {
    if (!hasNext) throw new NoSuchElementException
    val out = ready
    ready = null
    out
  }

  /** Frees what the task holds, if it ends before its last row. */
  def close(): Unit = memory.release()

  private def advance(): Unit = while (ready == null) {
    if (leaving.hasNext) {
      ready = sent(leaving.next())
      if (!leaving.hasNext) memory.release()
    } else if (in.hasNext) {
      val row = in.next().asInstanceOf[UnsafeRow]
      rows += 1
      if (combining.unseen > 0) {
        combining.unseen -= 1
        ready = row
      } else if (!combine(row)) ready = row
    } else if (!ended) {
      ended = true
      leaving = table.drain()
    } else return
  }

  /** Combines a row into the state of its key, if the key has one. */
  private def combine(row: UnsafeRow): Boolean = {
    if (lookedRows == 0) begin(row)
    lookedRows += 1
    rowBytes += row.getSizeInBytes
    val key = keyOf(row)
    val hash = hashOf(key)
    var entry = table.find(hash, key)
    if (entry == null && combining.admits(hash)) entry = addState(key, hash)
    if (entry != null) {
      processRow(entry.state, row)
      entry.rows += 1
      combinedRows += 1
      if (heldPerRow > 0) memory.hold(heldPerRow)
    }
    if (combining.seen(combined = entry != null)) {
      combining.look(measured, table.iterator.map(_.rows))
    }
    if (memory.full) sendAll()
    entry != null
  }

  private def begin(row: UnsafeRow): Unit = {
    val empty = newState()
    emptyBytes = sizeOf(empty)
    heldPerRow = if (isFixed) 0 else row.getSizeInBytes
    val key = keyOf(row).getSizeInBytes
    combining.begin(Combining.Sizes(row.getSizeInBytes, (key + emptyBytes).toDouble, 0))
  }

  private def addState(key: UnsafeRow, hash: Long): Entry = {
    val entry = new Entry(key.copy(), newState())
    table.add(hash, entry)
    memory.hold(ObjectBytes + key.getSizeInBytes + emptyBytes)
    entry
  }

  private def newState(): InternalRow = {
    val state =
      if (isFixed) emptyRow(fields.length) else new SpecificInternalRow(fields.map(_.dataType))
    initializeBuffer(state)
    state
  }

  private def sendAll(): Unit = {
    combining.full(table.iterator.map(_.rows))
    leaving = table.drain()
    if (!leaving.hasNext) memory.release()
  }

  private def sent(entry: Entry): UnsafeRow = {
    val state = generateOutput(NoKey, entry.state).getBytes
    states += 1
    asState(keyAndState(entry.key, new GenericInternalRow(Array[Any](state))))
  }

  /** The sizes of a row, and of some states: typical ones, and the one with the most rows. */
  private def measured: Combining.Sizes = {
    val row = rowBytes.toDouble / lookedRows
    if (table.size == 0) Combining.Sizes(row, emptyBytes.toDouble, 0) else {
      val sample = table.iterator.take(SampledStates).toSeq
      val key = sample.map(_.key.getSizeInBytes).sum.toDouble / sample.length
      val largest = table.iterator.maxBy(_.rows)
      val added = math.min(addedTo(sample), addedTo(Seq(largest)))
      heldPerRow = if (isFixed) 0 else math.ceil(math.min(row, 4 * added)).toLong
      Combining.Sizes(row, key + emptyBytes, added)
    }
  }

  private def addedTo(entries: Seq[Entry]): Double = {
    val bytes = entries.map(entry => sizeOf(entry.state) - emptyBytes).sum
    math.max(0.0, bytes.toDouble / entries.map(_.rows).sum)
  }

  /** The bytes of a state when it is sent. */
  private def sizeOf(state: InternalRow): Long =
    if (isFixed) state.asInstanceOf[UnsafeRow].getSizeInBytes
    else 8L * (1 + fields.length) + aggregateFunctions.indices.map { i =>
      aggregateFunctions(i) match {
        case typed: TypedImperativeAggregate[_] => serializedSize(typed, state, firstField(i))
        case function => function.aggBufferAttributes.indices.map { j =>
          valueSize(state.get(firstField(i) + j, function.aggBufferAttributes(j).dataType))
        }.sum
      }
    }.sum

  /** By function: the position of its first field in a buffer. */
  private lazy val firstField =
    aggregateFunctions.map(_.aggBufferAttributes.length).scanLeft(0)(_ + _)
}

private[saltwise] object CombineIterator {

  /** What the Java objects of a key and its state take, beside their bytes. */
  private val ObjectBytes = 160

  private val SampledStates = 16

  private val NoKey = new UnsafeRow(0)

  private def emptyRow(fields: Int): UnsafeRow = {
    val row = new UnsafeRow(fields)
    val bytes = new Array[Byte](UnsafeRow.calculateBitSetWidthInBytes(fields) + 8 * fields)
    row.pointTo(bytes, bytes.length)
    row
  }

  /** This hash routes no row, so it need not be the hash of the routers. */
  private def hashOf(key: UnsafeRow): Long =
    XXH64.hashUnsafeWords(key.getBaseObject, key.getBaseOffset, key.getSizeInBytes, 42L)

  private def serializedSize[T](
      function: TypedImperativeAggregate[T], state: InternalRow, field: Int): Long =
    function.serialize(state.get(field, AnyObject).asInstanceOf[T]).length.toLong

  private val AnyObject = ObjectType(classOf[AnyRef])

  private def valueSize(value: Any): Long = value match {
    case string: UTF8String => string.numBytes.toLong
    case bytes: Array[Byte] => bytes.length.toLong
    case row: UnsafeRow => row.getSizeInBytes.toLong
    case array: UnsafeArrayData => array.getSizeInBytes.toLong
    case map: UnsafeMapData => map.getSizeInBytes.toLong
    case _ => 0L
  }
}
