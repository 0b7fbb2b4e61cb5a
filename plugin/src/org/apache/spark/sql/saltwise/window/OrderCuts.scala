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
import org.apache.spark.sql.saltwise.window.OrderSample.WeightedRows
import org.apache.spark.sql.types.{BinaryType, DataType}
import org.apache.spark.util.random.XORShiftRandom

/**
 * The values of an order where n ranges of about as many rows begin, from a sample of all rows.
 *
 * Each task draws a sample of its rows, and each row of a sample stands for as many rows. With s
 * rows for each range, the rows of a range have a standard deviation of 1 / sqrt(s) of their mean.
 * A task draws three times its share of the sample, as in Spark's range partitioning, since some
 * tasks have more rows than others.
 */
final case class OrderCuts(
    order: Seq[Expression],
    directions: Seq[(SortDirection, NullOrdering)],
    ranges: Int,
    mutableAggBufferOffset: Int = 0,
    inputAggBufferOffset: Int = 0)
  extends TypedImperativeAggregate[OrderSample] {

  @transient private lazy val project = UnsafeProjection.create(order)
  private def size: Int = {
    val tasks = Option(TaskContext.get()).fold(1)(_.numPartitions())
    math.max(OrderCuts.RowsOfTask, OrderCuts.share(ranges, tasks))
  }

  override def children: Seq[Expression] = order
  override def nullable: Boolean = false
  override def dataType: DataType = BinaryType
  override def prettyName: String = "order_cuts"

  override def createAggregationBuffer(): OrderSample = new OrderSample(size, Nil)

  override def update(sample: OrderSample, row: InternalRow): OrderSample = {
    if (sample.draws()) sample.add(project(row).getBytes.clone())
    sample
  }

  override def merge(sample: OrderSample, other: OrderSample): OrderSample = sample.merge(other)

  override def eval(sample: OrderSample): Any = {
    val ordering = OrderCuts.ordering(directions, order.map(_.dataType))
    val rows = sample.weighted.map { case (weight, bytes) =>
      (StateFields.row(bytes, order.length), weight)
    }
    OrderSample.write(OrderCuts.of(rows, ranges, ordering).map(1.0 -> _.getBytes))
  }

  override def serialize(sample: OrderSample): Array[Byte] = OrderSample.write(sample.weighted)

  override def deserialize(bytes: Array[Byte]): OrderSample =
    new OrderSample(size, OrderSample.read(bytes))

  override def withNewMutableAggBufferOffset(offset: Int): ImperativeAggregate =
    copy(mutableAggBufferOffset = offset)
  override def withNewInputAggBufferOffset(offset: Int): ImperativeAggregate =
    copy(inputAggBufferOffset = offset)
  override protected def withNewChildrenInternal(c: IndexedSeq[Expression]): OrderCuts =
    copy(order = c)
}

private[window] object OrderCuts {
  private val RowsOfRange = 100
  private val RowsOfTask = 1000

  def apply(order: Seq[SortOrder], ranges: Int): OrderCuts =
    OrderCuts(order.map(_.child), directions(order), ranges)

  def directions(order: Seq[SortOrder]): Seq[(SortDirection, NullOrdering)] =
    order.map(o => (o.direction, o.nullOrdering))

  /** The rows that one of so many tasks adds to a sample for so many ranges. */
  def share(ranges: Int, tasks: Int): Int = 3 * RowsOfRange * ranges / tasks

  /**
   * The rows where ranges begin, but the first range. If many rows are equal, there are fewer.
   *
   * @param sample rows, and how many each of them stands for
   */
  def of(
      sample: Seq[(UnsafeRow, Double)],
      ranges: Int,
      ordering: Ordering[InternalRow]): Seq[UnsafeRow] = {
    val rows = sample.sortBy(_._1: InternalRow)(ordering)
    val total = rows.map(_._2).sum
    // The rows that are before each row of the sample; a cut is where a range is full.
    val before = rows.scanLeft(0.0)(_ + _._2).init
    val ranks = before.map(rows => (rows * ranges / total).toInt)
    val cuts = rows.zip(ranks).zip(0 +: ranks).collect {
      case (((row, _), rank), last) if rank > last => row
    }
    val lasts = rows.map(_._1).take(1) ++ cuts
    lasts.zip(cuts).collect { case (last, cut) if ordering.compare(last, cut) != 0 => cut }
  }

  def ordering(
      directions: Seq[(SortDirection, NullOrdering)], types: Seq[DataType]): Ordering[InternalRow] =
    new LazilyGeneratedOrdering(directions.zip(types).zipWithIndex.map {
      case (((direction, nulls), dataType), i) =>
        SortOrder(BoundReference(i, dataType, nullable = true), direction, nulls, Nil)
    })
}

/**
 * A sample of the rows of a task, and those of other tasks. Each row draws a number, and those with
 * the smallest numbers are the sample.
 *
 * @param size   how many rows the sample of this task has, if there are as many
 * @param others the samples of other tasks: for each row, how many rows it stands for
 */
final class OrderSample(size: Int, private var others: WeightedRows) {
  private val kept = mutable.ArrayBuffer.empty[(Long, Array[Byte])]
  private var limit = Long.MaxValue
  private var number = 0L
  private var seen = 0L
  @transient private lazy val random = new XORShiftRandom(TaskContext.getPartitionId())

  /** Draws a number for the next row. Whether it may be among the smallest. */
  def draws(): Boolean = {
    seen += 1
    number = random.nextLong()
    number < limit
  }

  /** Adds the row for which the last number was drawn. */
  def add(row: Array[Byte]): Unit = {
    kept += number -> row
    if (kept.length >= 2 * size) shrink()
  }

  def merge(other: OrderSample): OrderSample = {
    others ++= other.weighted
    this
  }

  /** All rows of the samples, and how many rows each stands for. */
  def weighted: WeightedRows = {
    if (kept.length > size) shrink()
    others ++ kept.map { case (_, row) => (seen.toDouble / kept.length, row) }
  }

  private def shrink(): Unit = {
    val smallest = kept.sortBy(_._1).take(size)
    kept.clear()
    kept ++= smallest
    limit = smallest.last._1
  }
}

private[window] object OrderSample {
  /** Bytes of rows, and how many rows each of them stands for. */
  type WeightedRows = Seq[(Double, Array[Byte])]

  def write(rows: WeightedRows): Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    val out = new DataOutputStream(bytes)
    out.writeInt(rows.length)
    rows.foreach { case (weight, row) =>
      out.writeDouble(weight)
      out.writeInt(row.length)
      out.write(row)
    }
    bytes.toByteArray
  }

  def read(bytes: Array[Byte]): WeightedRows = {
    val in = new DataInputStream(new ByteArrayInputStream(bytes))
    Seq.fill(in.readInt()) {
      val weight = in.readDouble()
      val row = new Array[Byte](in.readInt())
      in.readFully(row)
      weight -> row
    }
  }
}
