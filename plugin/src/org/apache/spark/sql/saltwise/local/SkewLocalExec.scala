package org.apache.spark.sql.saltwise.local

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, TypedImperativeAggregate}
import org.apache.spark.sql.execution.{PartitioningPreservingUnaryExecNode, SparkPlan}
import org.apache.spark.sql.execution.aggregate.AggregationIterator
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.saltwise.{Local, SkewOptions}
import org.apache.spark.sql.saltwise.sketch.SpaceSaving
import org.apache.spark.sql.types.BinaryType

/**
 * Combines the rows of head keys into states, and lets the rows of tail keys through.
 *
 * A SpaceSaving summary of bounded size says who is head, and its counters carry the states: a key gets one when the
 * summary is sure of enough rows of it, which is theta of all rows so far where states grow ([[GrowingStates]]). The
 * state leaves when its counter goes to another key. Until then, and without a counter, rows leave raw. Two keys of one
 * hash share no state.
 *
 * @param grouping   the keys
 * @param aggregates the functions in Partial mode
 * @param raw        what a raw row carries beside its key
 * @param state      the states of all functions, as StateFields reads them; NULL in a raw row
 * @param memory     bytes of rows that states may hold before all of them leave
 */
final case class SkewLocalExec(
    grouping: Seq[NamedExpression],
    aggregates: Seq[AggregateExpression],
    raw: Seq[NamedExpression],
    state: Attribute,
    options: SkewOptions,
    memory: Long,
    child: SparkPlan)
  extends PartitioningPreservingUnaryExecNode {

  override protected def outputExpressions: Seq[NamedExpression] = grouping ++ raw

  override def output: Seq[Attribute] =
    grouping.map(_.toAttribute) ++ raw.map(_.toAttribute.withNullability(true)) :+ state

  override def producedAttributes: AttributeSet = AttributeSet(state)

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "rows" -> SQLMetrics.createMetric(sparkContext, "rows"),
    "headRows" -> SQLMetrics.createMetric(sparkContext, "rows combined"),
    "states" -> SQLMetrics.createMetric(sparkContext, "states sent"),
    "peak" -> SQLMetrics.createSizeMetric(sparkContext, "peak memory of states"))

  override protected def doExecute(): RDD[InternalRow] = {
    val (keys, functions, columns) = (grouping, aggregates, raw)
    val (input, local, most) = (child.output, options, memory)
    val (rows, headRows) = (longMetric("rows"), longMetric("headRows"))
    val (sent, peak) = (longMetric("states"), longMetric("peak"))
    child.execute().mapPartitionsWithIndex { (partition: Int, in: Iterator[InternalRow]) =>
      if (in.isEmpty) Iterator.empty else {
        val out = new LocalIterator(keys, functions, columns, local, most, input, partition, in)
        TaskContext.get().addTaskCompletionListener[Unit] { _ =>
          rows += out.rows
          headRows += out.headRows
          sent += out.sent
          peak += out.peak
        }
        out
      }
    }
  }

  override def simpleString(maxFields: Int): String = s"SkewLocal ${grouping.mkString("[", ", ", "]")}, $options"

  override protected def withNewChildInternal(newChild: SparkPlan): SkewLocalExec = copy(child = newChild)
}

/** One map task of a SkewLocal: Spark's own Partial, for the keys that get a state. */
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

  var rows = 0L
  var headRows = 0L
  var sent = 0L
  /** The most bytes that states held at a time. */
  var peak = 0L

  private val Local(theta, capacity) = Local(options.parameters)
  private val functions = aggregates.map(_.aggregateFunction)
  private val share = if (GrowingStates.among(functions)) theta else 0.0
  private val fields = functions.flatMap(_.aggBufferAttributes)
  private val keyOf = UnsafeProjection.create(grouping, input)
  private val asRaw = UnsafeProjection.create(grouping ++ raw :+ Literal(null, BinaryType), input)
  private val asState = {
    val keys = grouping.zipWithIndex.map { case (key, i) => BoundReference(i, key.dataType, nullable = true) }
    val state = BoundReference(keys.length, BinaryType, nullable = false)
    UnsafeProjection.create(keys ++ raw.map(column => Literal(null, column.dataType)) :+ state)
  }
  private val keyAndState = new JoinedRow

  /** A buffer of fields that all have a fixed length is a row already, and needs no code that writes it. */
  private lazy val isFixed =
    aggregateFunctions.flatMap(_.aggBufferAttributes).forall(field => UnsafeRow.isFixedLength(field.dataType))

  override protected def generateResultProjection(): (UnsafeRow, InternalRow) => UnsafeRow =
    if (isFixed) (_, buffer) => buffer.asInstanceOf[UnsafeRow] else super.generateResultProjection()

  private val keys = new Array[UnsafeRow](capacity)
  private val states = new Array[InternalRow](capacity)
  private var held = 0L

  private var row: InternalRow = _
  private var key: UnsafeRow = _
  /** What leaves next, and what leaves after it. */
  private var ready: UnsafeRow = _
  private var behind: UnsafeRow = _
  /** The next counter whose state leaves, while all of them do. */
  private var flushing = capacity
  private var ended = false

  private val head = new SpaceSaving(capacity) {
    override protected def same(counter: Int): Boolean =
      states(counter) == null || keys(counter) == key

    override protected def store(counter: Int): Unit = if (states(counter) != null) ready = leave(counter)
  }

  /** What a state takes before it has seen a row: some sketches are large from the start. */
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
    ready = behind
    behind = null
    out
  }

  private def advance(): Unit = while (ready == null) {
    if (flushing < head.size) {
      if (states(flushing) != null) ready = leave(flushing)
      flushing += 1
    } else if (in.hasNext) {
      row = in.next()
      rows += 1
      key = keyOf(row)
      use(head.offer(LocalIterator.hash(key)))
    } else if (!ended) {
      ended = true
      flushing = 0
    } else return
  }

  /** Combines the row at hand, whose key has this counter, or lets it through. */
  private def use(counter: Int): Unit = {
    if (states(counter) == null && isHead(head.count(counter) - head.error(counter))) begin(counter)
    if (states(counter) != null) {
      processRow(states(counter), row)
      headRows += 1
      hold(LocalIterator.size(row))
    } else {
      val out = asRaw(row)
      if (ready == null) ready = out else behind = out
    }
  }

  private def isHead(sure: Long): Boolean = sure > RowsBeforeState && sure > share * rows

  private def begin(counter: Int): Unit = {
    keys(counter) = key.copy()
    states(counter) =
      if (isFixed) LocalIterator.emptyRow(fields.length) else new SpecificInternalRow(fields.map(_.dataType))
    initializeBuffer(states(counter))
    hold(emptySize)
  }

  /** A state takes no more than its rows do, whatever it keeps of them. */
  private def hold(bytes: Long): Unit = {
    held += bytes
    if (held > peak) peak = held
    if (held > memory) {
      held = 0
      flushing = 0
    }
  }

  private def leave(counter: Int): UnsafeRow = {
    val state = generateOutput(LocalIterator.NoKey, states(counter)).getBytes
    val out = asState(keyAndState(keys(counter), new GenericInternalRow(Array[Any](state))))
    states(counter) = null
    sent += 1
    out
  }
}

private[saltwise] object LocalIterator {

  /** Rows of a key that the summary is sure of, at least, before it gets a state: a state costs as much as some rows. */
  val RowsBeforeState = 32

  private val NoKey = new UnsafeRow(0)

  def emptyRow(fields: Int): UnsafeRow = {
    val row = new UnsafeRow(fields)
    val bytes = new Array[Byte](UnsafeRow.calculateBitSetWidthInBytes(fields) + 8 * fields)
    row.pointTo(bytes, bytes.length)
    row
  }

  /** Nothing is routed by this hash, so it need not be that of the routers. */
  def hash(key: UnsafeRow): Long =
    XXH64.hashUnsafeWords(key.getBaseObject, key.getBaseOffset, key.getSizeInBytes, 42L)

  def emptySize[T](function: TypedImperativeAggregate[T]): Long =
    function.serialize(function.createAggregationBuffer()).length.toLong

  def size(row: InternalRow): Long = row match {
    case unsafe: UnsafeRow => unsafe.getSizeInBytes.toLong
    case other => 16L * other.numFields
  }
}
