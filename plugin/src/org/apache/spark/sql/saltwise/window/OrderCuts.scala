package org.apache.spark.sql.saltwise.window

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream}

import scala.collection.mutable

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{
  ImperativeAggregate, TypedImperativeAggregate}
import org.apache.spark.sql.catalyst.expressions.codegen.LazilyGeneratedOrdering
import org.apache.spark.sql.saltwise.plan.StateFields
import org.apache.spark.sql.types.{BinaryType, DataType}
import org.apache.spark.util.random.XORShiftRandom

/**
 * The values of an order where n ranges of about as many rows begin, from a sample of all rows.
 *
 * Each row draws a number, and the rows with the smallest are the sample. So samples of tasks are
 * merged as if one task had drawn. With s rows for each range, the rows of a range have a standard
 * deviation of 1 / sqrt(s) of their mean.
 */
final case class OrderCuts(
    order: Seq[Expression],
    directions: Seq[(SortDirection, NullOrdering)],
    ranges: Int,
    mutableAggBufferOffset: Int = 0,
    inputAggBufferOffset: Int = 0)
  extends TypedImperativeAggregate[OrderSample] {

  @transient private lazy val project = UnsafeProjection.create(order)
  private def size = OrderCuts.RowsOfRange * ranges

  override def children: Seq[Expression] = order
  override def nullable: Boolean = false
  override def dataType: DataType = BinaryType
  override def prettyName: String = "order_cuts"

  override def createAggregationBuffer(): OrderSample = new OrderSample(size)

  override def update(sample: OrderSample, row: InternalRow): OrderSample = {
    if (sample.draws()) sample.add(project(row).getBytes.clone())
    sample
  }

  override def merge(sample: OrderSample, other: OrderSample): OrderSample = sample.merge(other)

  override def eval(sample: OrderSample): Any = {
    val ordering = OrderCuts.ordering(directions, order.map(_.dataType))
    val rows = sample.rows.map(StateFields.row(_, order.length)).sorted(ordering)
    val cuts = (1 until ranges).map(i => rows.length * i / ranges).filter(_ > 0).map(rows(_))
    val distinct = cuts.headOption ++ cuts.zip(cuts.drop(1)).collect {
      case (one, next) if ordering.compare(one, next) != 0 => next
    }
    OrderSample.write(distinct.toSeq.map(0L -> _.getBytes))
  }

  override def serialize(sample: OrderSample): Array[Byte] = OrderSample.write(sample.drawn)

  override def deserialize(bytes: Array[Byte]): OrderSample = {
    val sample = new OrderSample(size)
    OrderSample.read(bytes).foreach { case (number, row) => sample.add(number, row) }
    sample
  }

  override def withNewMutableAggBufferOffset(offset: Int): ImperativeAggregate =
    copy(mutableAggBufferOffset = offset)
  override def withNewInputAggBufferOffset(offset: Int): ImperativeAggregate =
    copy(inputAggBufferOffset = offset)
  override protected def withNewChildrenInternal(c: IndexedSeq[Expression]): OrderCuts =
    copy(order = c)
}

private[window] object OrderCuts {
  private val RowsOfRange = 100

  def apply(order: Seq[SortOrder], ranges: Int): OrderCuts =
    OrderCuts(order.map(_.child), order.map(o => (o.direction, o.nullOrdering)), ranges)

  def ordering(
      directions: Seq[(SortDirection, NullOrdering)], types: Seq[DataType]): Ordering[InternalRow] =
    new LazilyGeneratedOrdering(directions.zip(types).zipWithIndex.map {
      case (((direction, nulls), dataType), i) =>
        SortOrder(BoundReference(i, dataType, nullable = true), direction, nulls, Nil)
    })
}

/** The rows with the smallest numbers among those that were drawn. */
final class OrderSample(size: Int) {
  private val kept = mutable.ArrayBuffer.empty[(Long, Array[Byte])]
  private var limit = Long.MaxValue
  private var number = 0L
  @transient private lazy val random = new XORShiftRandom(TaskContext.getPartitionId())

  def drawn: Seq[(Long, Array[Byte])] = kept.toSeq
  def rows: Seq[Array[Byte]] = drawn.map(_._2)

  /** Draws a number for the next row. Whether it may be among the smallest. */
  def draws(): Boolean = {
    number = random.nextLong()
    number < limit
  }

  /** Adds the row for which the last number was drawn. */
  def add(row: Array[Byte]): Unit = add(number, row)

  def add(number: Long, row: Array[Byte]): Unit = {
    kept += number -> row
    if (kept.length >= 2 * size) shrink()
  }

  def merge(other: OrderSample): OrderSample = {
    other.drawn.foreach { case (number, row) => add(number, row) }
    this
  }

  private def shrink(): Unit = {
    val smallest = kept.sortBy(_._1).take(size)
    kept.clear()
    kept ++= smallest
    limit = smallest.last._1
  }
}

private[window] object OrderSample {
  def write(rows: Seq[(Long, Array[Byte])]): Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    val out = new DataOutputStream(bytes)
    out.writeInt(rows.length)
    rows.foreach { case (number, row) =>
      out.writeLong(number)
      out.writeInt(row.length)
      out.write(row)
    }
    bytes.toByteArray
  }

  def read(bytes: Array[Byte]): Seq[(Long, Array[Byte])] = {
    val in = new DataInputStream(new ByteArrayInputStream(bytes))
    Seq.fill(in.readInt()) {
      val number = in.readLong()
      val row = new Array[Byte](in.readInt())
      in.readFully(row)
      number -> row
    }
  }
}
