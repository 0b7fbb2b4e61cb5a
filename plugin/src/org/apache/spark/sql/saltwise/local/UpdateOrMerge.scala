package org.apache.spark.sql.saltwise.local

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.expressions.aggregate.ApproximatePercentile.PercentileDigest
import org.apache.spark.sql.saltwise.plan.StateFields
import org.apache.spark.sql.types.{DataType, StructField, StructType}

/**
 * Aggregates rows of two kinds in one pass: a raw row updates the buffer, and a row that carries a
 * state is merged into it. Spark's own operators do the rest in Complete mode, including spilling.
 *
 * The states of all functions of an aggregate are the fields of one row. A raw row has NULL in its
 * place. `first` is the position of the function's first field in that row.
 */
object UpdateOrMerge {

  /** The aggregates of a reduce side that reads these rows. */
  def apply(rows: RawRows): Seq[AggregateExpression] = {
    val buffers = rows.aggregates.map(_.aggregateFunction.aggBufferAttributes)
    val state = StateFields(rows.state, StructType(buffers.flatten.map(field =>
      StructField(field.name, field.dataType, field.nullable))))
    rows.aggregates.zip(buffers.scanLeft(0)(_ + _.length)).map { case (aggregate, first) =>
      val function = (aggregate.aggregateFunction: @unchecked) match {
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
  extends DeclarativeAggregate {

  override def children: Seq[Expression] = Seq(inner, state)
  override def dataType: DataType = inner.dataType
  override def nullable: Boolean = inner.nullable
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

  override def toAggString(isDistinct: Boolean): String = inner.toAggString(isDistinct)

  override protected def withNewChildrenInternal(
      children: IndexedSeq[Expression]): UpdateOrMergeDeclarative =
    copy(children(0).asInstanceOf[DeclarativeAggregate], children(1))
}

/**
 * For functions whose state is an object. Some of them cannot update a buffer after it has merged
 * (Theta sketches, Hive's evaluators). So the buffer that is updated and the states that are merged
 * stay separate until the end.
 *
 * The states of percentile_approx are merged many at once ([[QuantileMerge]]).
 */
final case class UpdateOrMergeTyped(
    inner: TypedImperativeAggregate[_],
    state: Expression,
    first: Int,
    mutableAggBufferOffset: Int = 0,
    inputAggBufferOffset: Int = 0)
  extends TypedImperativeAggregate[Any] {

  import UpdateOrMergeTyped.{MaxWaiting, RowsAndStates}

  @transient private lazy val function = inner.asInstanceOf[TypedImperativeAggregate[Any]]
  @transient private lazy val mergesMany = inner.isInstanceOf[ApproximatePercentile]

  override def children: Seq[Expression] = Seq(inner, state)
  override def dataType: DataType = inner.dataType
  override def nullable: Boolean = inner.nullable
  override def createAggregationBuffer(): Any = function.createAggregationBuffer()

  override def update(buffer: Any, row: InternalRow): Any = {
    val states = state.eval(row).asInstanceOf[InternalRow]
    if (states != null) merged(buffer, function.deserialize(states.getBinary(first)))
    else buffer match {
      case both: RowsAndStates =>
        both.updated = function.update(both.updated, row)
        both
      case updated => function.update(updated, row)
    }
  }

  override def merge(buffer: Any, input: Any): Any = merged(buffer, single(input))
  override def eval(buffer: Any): Any = function.eval(single(buffer))
  override def serialize(buffer: Any): Array[Byte] = function.serialize(single(buffer))
  override def deserialize(bytes: Array[Byte]): Any = function.deserialize(bytes)

  private def merged(buffer: Any, input: Any): RowsAndStates = {
    val both = buffer match {
      case both: RowsAndStates => both
      case updated =>
        val states = if (mergesMany) Nil else List(function.createAggregationBuffer())
        new RowsAndStates(updated, states)
    }
    both.states ::= input
    if (!mergesMany || both.states.length == MaxWaiting) both.states = List(mergeAll(both.states))
    both
  }

  private def mergeAll(states: List[Any]): Any =
    if (mergesMany) QuantileMerge(states.asInstanceOf[List[PercentileDigest]])
    else states.reduceRight((next, before) => function.merge(before, next))

  /**
   * The buffer as one state. What was updated is serialised first, because Final also gets the
   * states of Partial as bytes.
   */
  private def single(buffer: Any): Any = buffer match {
    case both: RowsAndStates =>
      mergeAll(function.deserialize(function.serialize(both.updated)) :: both.states)
    case updated => updated
  }

  override def toAggString(isDistinct: Boolean): String = inner.toAggString(isDistinct)

  override def withNewMutableAggBufferOffset(offset: Int): ImperativeAggregate =
    copy(mutableAggBufferOffset = offset)
  override def withNewInputAggBufferOffset(offset: Int): ImperativeAggregate =
    copy(inputAggBufferOffset = offset)
  override protected def withNewChildrenInternal(
      children: IndexedSeq[Expression]): UpdateOrMergeTyped =
    copy(children(0).asInstanceOf[TypedImperativeAggregate[_]], children(1))
}

private object UpdateOrMergeTyped {
  /** The buffer of a key that had states: `updated` by raw rows, and the states, last one first. */
  final class RowsAndStates(var updated: Any, var states: List[Any])

  /** This many states are merged with each other at once, where the function can do that. */
  private val MaxWaiting = 128
}

/** For functions that keep their state in the fields of the buffer, like approx_count_distinct. */
final case class UpdateOrMergeImperative(
    inner: ImperativeAggregate,
    state: Expression,
    first: Int,
    mutableAggBufferOffset: Int = 0,
    inputAggBufferOffset: Int = 0)
  extends ImperativeAggregate {

  /** The function, with its input fields at its position in the row of states. */
  @transient private lazy val merging = inner.withNewInputAggBufferOffset(first)

  override def children: Seq[Expression] = Seq(inner, state)
  override def dataType: DataType = inner.dataType
  override def nullable: Boolean = inner.nullable
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
  override def toAggString(isDistinct: Boolean): String = inner.toAggString(isDistinct)

  override def withNewMutableAggBufferOffset(offset: Int): ImperativeAggregate =
    copy(inner.withNewMutableAggBufferOffset(offset), mutableAggBufferOffset = offset)
  override def withNewInputAggBufferOffset(offset: Int): ImperativeAggregate =
    copy(inner.withNewInputAggBufferOffset(offset), inputAggBufferOffset = offset)
  override protected def withNewChildrenInternal(
      children: IndexedSeq[Expression]): UpdateOrMergeImperative =
    copy(children(0).asInstanceOf[ImperativeAggregate], children(1))
}
