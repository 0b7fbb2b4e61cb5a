package org.apache.spark.sql.saltwise.local

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.expressions.aggregate.ApproximatePercentile.PercentileDigest
import org.apache.spark.sql.saltwise.plan.StateFields
import org.apache.spark.sql.types.DataType

/**
 * Aggregates rows of two kinds in one pass: a raw row updates the buffer, and a row that carries a state is merged into
 * it. Spark's own operators do the rest, in Complete mode, spilling included.
 *
 * The states of all functions of an aggregate are the fields of one row, which is NULL in a raw row. `first` is the
 * place of the function's first field there.
 */
object UpdateOrMerge {

  /** @param renamed columns that go by another name where the two kinds of rows are read */
  def apply(
      aggregate: AggregateExpression,
      renamed: AttributeMap[Attribute],
      state: StateFields,
      first: Int): AggregateExpression = {
    val read = aggregate.transform { case column: AttributeReference => renamed.getOrElse(column, column) }
      .asInstanceOf[AggregateExpression]
    val function = (read.aggregateFunction: @unchecked) match {
      case inner: DeclarativeAggregate => UpdateOrMergeDeclarative(inner, state, first)
      case inner: TypedImperativeAggregate[_] => UpdateOrMergeTyped(inner, state, first)
      case inner: ImperativeAggregate => UpdateOrMergeImperative(inner, state, first)
    }
    // A state has been filtered already, row by row.
    read.copy(function, Complete, filter = read.filter.map(Or(IsNotNull(state), _)))
  }
}

final case class UpdateOrMergeDeclarative(inner: DeclarativeAggregate, state: Expression, first: Int)
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
    merging(fields).zip(inner.updateExpressions).map { case (merged, updated) => If(IsNotNull(state), merged, updated) }
  }

  private def merging(right: Seq[Expression]): Seq[Expression] = {
    val replaced = AttributeMap(inner.inputAggBufferAttributes.zip(right))
    inner.mergeExpressions.map(_.transform { case a: AttributeReference => replaced.getOrElse(a, a) })
  }

  override def toAggString(isDistinct: Boolean): String = inner.toAggString(isDistinct)

  override protected def withNewChildrenInternal(children: IndexedSeq[Expression]): UpdateOrMergeDeclarative =
    copy(children(0).asInstanceOf[DeclarativeAggregate], children(1))
}

/**
 * Functions with a state of their own. A buffer that has merged need not take rows any more (Theta sketches do not, nor do
 * Hive's evaluators), so what is updated and what is merged stay apart until the end.
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

  import UpdateOrMergeTyped.{Both, Together}

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
      case both: Both =>
        both.updated = function.update(both.updated, row)
        both
      case updated => function.update(updated, row)
    }
  }

  override def merge(buffer: Any, input: Any): Any = merged(buffer, one(input))
  override def eval(buffer: Any): Any = function.eval(one(buffer))
  override def serialize(buffer: Any): Array[Byte] = function.serialize(one(buffer))
  override def deserialize(bytes: Array[Byte]): Any = function.deserialize(bytes)

  private def merged(buffer: Any, input: Any): Both = {
    val both = buffer match {
      case both: Both => both
      case updated => new Both(updated, if (mergesMany) Nil else List(function.createAggregationBuffer()))
    }
    both.states ::= input
    if (!mergesMany || both.states.length == Together) both.states = List(together(both.states))
    both
  }

  private def together(states: List[Any]): Any =
    if (mergesMany) QuantileMerge(states.asInstanceOf[List[PercentileDigest]])
    else states.reduceRight((next, before) => function.merge(before, next))

  /** As Final gets it from Partial: in bytes. */
  private def one(buffer: Any): Any = buffer match {
    case both: Both => together(function.deserialize(function.serialize(both.updated)) :: both.states)
    case updated => updated
  }

  override def toAggString(isDistinct: Boolean): String = inner.toAggString(isDistinct)

  override def withNewMutableAggBufferOffset(offset: Int): ImperativeAggregate = copy(mutableAggBufferOffset = offset)
  override def withNewInputAggBufferOffset(offset: Int): ImperativeAggregate = copy(inputAggBufferOffset = offset)
  override protected def withNewChildrenInternal(children: IndexedSeq[Expression]): UpdateOrMergeTyped =
    copy(children(0).asInstanceOf[TypedImperativeAggregate[_]], children(1))
}

private object UpdateOrMergeTyped {
  /** What there is of a key: its rows, and its states, the last one first. */
  final class Both(var updated: Any, var states: List[Any])

  /** States that wait to be merged with each other, where that is done with many at once. */
  private val Together = 128
}

/** For functions that keep their state in the fields of the buffer, as approx_count_distinct does. */
final case class UpdateOrMergeImperative(
    inner: ImperativeAggregate,
    state: Expression,
    first: Int,
    mutableAggBufferOffset: Int = 0,
    inputAggBufferOffset: Int = 0)
  extends ImperativeAggregate {

  @transient private lazy val ofStates = inner.withNewInputAggBufferOffset(first)

  override def children: Seq[Expression] = Seq(inner, state)
  override def dataType: DataType = inner.dataType
  override def nullable: Boolean = inner.nullable
  override lazy val aggBufferSchema = inner.aggBufferSchema
  override lazy val aggBufferAttributes: Seq[AttributeReference] = inner.aggBufferAttributes
  override lazy val inputAggBufferAttributes: Seq[AttributeReference] = inner.inputAggBufferAttributes
  override def initialize(buffer: InternalRow): Unit = inner.initialize(buffer)

  override def update(buffer: InternalRow, row: InternalRow): Unit = {
    val states = state.eval(row).asInstanceOf[InternalRow]
    if (states == null) inner.update(buffer, row) else ofStates.merge(buffer, states)
  }

  override def merge(buffer: InternalRow, input: InternalRow): Unit = inner.merge(buffer, input)
  override def eval(buffer: InternalRow): Any = inner.eval(buffer)
  override def toAggString(isDistinct: Boolean): String = inner.toAggString(isDistinct)

  override def withNewMutableAggBufferOffset(offset: Int): ImperativeAggregate =
    copy(inner.withNewMutableAggBufferOffset(offset), mutableAggBufferOffset = offset)
  override def withNewInputAggBufferOffset(offset: Int): ImperativeAggregate =
    copy(inner.withNewInputAggBufferOffset(offset), inputAggBufferOffset = offset)
  override protected def withNewChildrenInternal(children: IndexedSeq[Expression]): UpdateOrMergeImperative =
    copy(children(0).asInstanceOf[ImperativeAggregate], children(1))
}
