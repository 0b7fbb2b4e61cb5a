package org.apache.spark.sql.saltwise.local

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.expressions.aggregate.ApproximatePercentile.PercentileDigest
import org.apache.spark.sql.execution.aggregate.ScalaAggregator
import org.apache.spark.sql.saltwise.plan.StateFields
import org.apache.spark.sql.types.{DataType, StructField, StructType}

/**
 * Aggregates rows of two kinds in one pass: a raw row updates the buffer, and a row that carries a
 * state is merged into it. Spark's own operators do the rest in Complete mode, including spilling.
 *
 * The states of all functions of an aggregate are the fields of one row. A raw row has NULL in its
 * place. `first` is the position of the function's first field in that row.
 */
sealed trait UpdateOrMerge extends AggregateFunction {
  def inner: AggregateFunction
  def state: Expression
  def first: Int

  override def children: Seq[Expression] = Seq(inner, state)
  override def dataType: DataType = inner.dataType
  override def nullable: Boolean = inner.nullable
  override def defaultResult: Option[Literal] = inner.defaultResult
  override def prettyName: String = inner.prettyName
  override def toAggString(isDistinct: Boolean): String = inner.toAggString(isDistinct)
}

object UpdateOrMerge {

  /** The aggregates of a reduce side that reads these rows. */
  def apply(rows: RawRows): Seq[AggregateExpression] = {
    val buffers = rows.aggregates.map(_.aggregateFunction.aggBufferAttributes)
    val state = StateFields(rows.state, StructType(buffers.flatten.map(field =>
      StructField(field.name, field.dataType, field.nullable))))
    rows.aggregates.zip(buffers.scanLeft(0)(_ + _.length)).map { case (aggregate, first) =>
      val function = (aggregate.aggregateFunction: @unchecked) match {
        case same: UpdateOrMerge if same.state.references.contains(rows.state) => same
        case inner: DeclarativeAggregate => UpdateOrMergeDeclarative(inner, state, first)
        case inner: TypedImperativeAggregate[_] => UpdateOrMergeTyped(inner, state, first)
        case inner: ImperativeAggregate => UpdateOrMergeImperative(inner, state, first)
      }
      // The rows of a state were filtered before they were combined.
      val filter = aggregate.filter.map(Or(IsNotNull(state), _))
      aggregate.copy(function, Complete, filter = filter)
    }
  }
}

final case class UpdateOrMergeDeclarative(
    inner: DeclarativeAggregate, state: Expression, first: Int)
  extends DeclarativeAggregate with UpdateOrMerge {

  override lazy val aggBufferAttributes: Seq[AttributeReference] = inner.aggBufferAttributes
  override lazy val initialValues: Seq[Expression] = inner.initialValues
  override lazy val evaluateExpression: Expression = inner.evaluateExpression
  override lazy val mergeExpressions: Seq[Expression] = merging(inputAggBufferAttributes)

  override lazy val updateExpressions: Seq[Expression] = {
    val fields = aggBufferAttributes.zipWithIndex.map { case (attribute, i) =>
      val field = GetStructField(state, first + i)
      if (attribute.nullable) field else KnownNotNull(field)
    }
    merging(fields).zip(inner.updateExpressions).map { case (merged, updated) =>
      If(IsNotNull(state), merged, updated)
    }
  }

  private def merging(right: Seq[Expression]): Seq[Expression] = {
    val replaced = AttributeMap(inner.inputAggBufferAttributes.zip(right))
    inner.mergeExpressions.map(_.transform {
      case field: AttributeReference => replaced.getOrElse(field, field)
    })
  }

  override protected def withNewChildrenInternal(
      children: IndexedSeq[Expression]): UpdateOrMergeDeclarative =
    copy(children(0).asInstanceOf[DeclarativeAggregate], children(1))
}

/**
 * For functions whose state is an object.
 *
 * Most functions take rows and states in any order. The others (Theta sketches, Hive's evaluators)
 * take no row after a state. So the buffer that is updated and the one that is merged stay apart
 * until the end. The states of percentile_approx are merged many at once ([[QuantileMerge]]).
 */
final case class UpdateOrMergeTyped(
    inner: TypedImperativeAggregate[_],
    state: Expression,
    first: Int,
    mutableAggBufferOffset: Int = 0,
    inputAggBufferOffset: Int = 0)
  extends TypedImperativeAggregate[Any] with UpdateOrMerge {

  import UpdateOrMergeTyped._

  @transient private lazy val function = inner.asInstanceOf[TypedImperativeAggregate[Any]]
  @transient private lazy val mergesMany = inner.isInstanceOf[ApproximatePercentile]
  @transient private lazy val waitingSamples = new WaitingSamples
  @transient private lazy val takesBoth = inner match {
    case _: Collect[_] | _: PercentileBase | _: Mode | _: CountMinSketchAgg |
        _: BloomFilterAggregate | _: ScalaAggregator[_, _, _] => true
    case _ => false
  }

  override def createAggregationBuffer(): Any = NoRows

  override def update(buffer: Any, row: InternalRow): Any = {
    val states = state.eval(row).asInstanceOf[InternalRow]
    if (states != null) merge(buffer, function.deserialize(states.getBinary(first)))
    else buffer match {
      case both: RowsAndStates =>
        both.updated = function.update(both.updated, row)
        both.hasRows = true
        both
      case updated => function.update(begun(updated), row)
    }
  }

  override def merge(buffer: Any, input: Any): Any =
    if (takesBoth) function.merge(begun(buffer), input)
    else {
      val both = buffer match {
        case both: RowsAndStates => both
        case updated =>
          val both =
            if (mergesMany) new Digests(begun(updated), waitingSamples)
            else new Merged(begun(updated), function)
          both.hasRows = updated != NoRows
          both
      }
      both.add(single(input))
      both
    }

  /** A buffer that the function knows. */
  private def begun(buffer: Any): Any =
    if (buffer == NoRows) function.createAggregationBuffer() else buffer

  override def eval(buffer: Any): Any = function.eval(single(buffer))
  override def serialize(buffer: Any): Array[Byte] = function.serialize(single(buffer))
  override def deserialize(bytes: Array[Byte]): Any = function.deserialize(bytes)

  /**
   * The buffer as one state. The buffer of raw rows is serialised first, because Final also gets
   * the states of Partial as bytes.
   */
  private def single(buffer: Any): Any = buffer match {
    case both: RowsAndStates =>
      if (both.hasRows) {
        both.add(function.deserialize(function.serialize(both.updated)))
        both.updated = function.createAggregationBuffer()
        both.hasRows = false
      }
      both.merged
    case updated => begun(updated)
  }

  override def withNewMutableAggBufferOffset(offset: Int): ImperativeAggregate =
    copy(mutableAggBufferOffset = offset)
  override def withNewInputAggBufferOffset(offset: Int): ImperativeAggregate =
    copy(inputAggBufferOffset = offset)
  override protected def withNewChildrenInternal(
      children: IndexedSeq[Expression]): UpdateOrMergeTyped =
    copy(children(0).asInstanceOf[TypedImperativeAggregate[_]], children(1))
}

private object UpdateOrMergeTyped {

  /** The buffer of a key before its first row or state. Some functions cannot send theirs. */
  object NoRows

  /** The buffer of a key that had states. `updated` has its raw rows, if it has any. */
  sealed abstract class RowsAndStates(var updated: Any) {
    var hasRows = false
    def add(state: Any): Unit
    def merged: Any
  }

  /** Merges each state as it comes. */
  final class Merged(updated: Any, function: TypedImperativeAggregate[Any])
    extends RowsAndStates(updated) {
    private var all: Any = function.createAggregationBuffer()
    override def add(state: Any): Unit = all = function.merge(all, state)
    override def merged: Any = all
  }

  /** The digests that wait to be merged, of all keys of a task, and their samples. */
  final class WaitingSamples {
    private val keys = mutable.Set.empty[Digests]
    var ofAllKeys = 0L

    def add(key: Digests, samples: Int): Unit = {
      keys += key
      ofAllKeys += samples
    }

    def remove(key: Digests, samples: Int): Unit = {
      keys -= key
      ofAllKeys -= samples
    }

    /** Merges all, if there are too many. */
    def limit(): Unit = if (ofAllKeys > MaxWaitingInTask) keys.toSeq.foreach(_.merged)
  }

  /**
   * Merges the waiting digests once they have twice as many samples as the merged one, and those of
   * all keys if they have too many together. To merge each new one at once, as stock Spark does,
   * would look at all samples of its key again for each.
   */
  final class Digests(updated: Any, inTask: WaitingSamples) extends RowsAndStates(updated) {
    private var digests = List.empty[PercentileDigest]
    private var waiting = 0
    private var maxWaiting = MinWaiting

    override def add(state: Any): Unit = {
      val digest = state.asInstanceOf[PercentileDigest]
      val samples = digest.quantileSummaries.sampled.length
      digests ::= digest
      waiting += samples
      inTask.add(this, samples)
      if (waiting > maxWaiting) {
        maxWaiting = math.max(MinWaiting, 2 * merged.quantileSummaries.sampled.length)
      } else inTask.limit()
    }

    override def merged: PercentileDigest = {
      val all = QuantileMerge(digests)
      digests = List(all)
      inTask.remove(this, waiting)
      waiting = 0
      all
    }
  }

  /** As many samples of a key may always wait, unless those of all keys are too many: 2 MB. */
  private val MinWaiting = 1 << 16

  /** About 40 MB, which is what stock Spark holds for the 128 keys of a hash aggregate. */
  private val MaxWaitingInTask = 1L << 20
}

/** For functions that keep their state in the fields of the buffer, like approx_count_distinct. */
final case class UpdateOrMergeImperative(
    inner: ImperativeAggregate,
    state: Expression,
    first: Int,
    mutableAggBufferOffset: Int = 0,
    inputAggBufferOffset: Int = 0)
  extends ImperativeAggregate with UpdateOrMerge {

  /** The function, with its input fields at its position in the row of states. */
  @transient private lazy val merging = inner.withNewInputAggBufferOffset(first)

  override lazy val aggBufferSchema = inner.aggBufferSchema
  override lazy val aggBufferAttributes: Seq[AttributeReference] = inner.aggBufferAttributes
  override lazy val inputAggBufferAttributes: Seq[AttributeReference] =
    inner.inputAggBufferAttributes
  override def initialize(buffer: InternalRow): Unit = inner.initialize(buffer)

  override def update(buffer: InternalRow, row: InternalRow): Unit = {
    val states = state.eval(row).asInstanceOf[InternalRow]
    if (states == null) inner.update(buffer, row) else merging.merge(buffer, states)
  }

  override def merge(buffer: InternalRow, input: InternalRow): Unit = inner.merge(buffer, input)
  override def eval(buffer: InternalRow): Any = inner.eval(buffer)
  override def withNewMutableAggBufferOffset(offset: Int): ImperativeAggregate =
    copy(inner.withNewMutableAggBufferOffset(offset), mutableAggBufferOffset = offset)
  override def withNewInputAggBufferOffset(offset: Int): ImperativeAggregate =
    copy(inner.withNewInputAggBufferOffset(offset), inputAggBufferOffset = offset)
  override protected def withNewChildrenInternal(
      children: IndexedSeq[Expression]): UpdateOrMergeImperative =
    copy(children(0).asInstanceOf[ImperativeAggregate], children(1))
}
