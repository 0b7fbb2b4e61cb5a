package org.apache.spark.sql.saltwise.window

import java.util.{HashMap => JavaMap}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.saltwise.plan.StateFields
import org.apache.spark.sql.saltwise.window.OrderSample.WeightedRows
import org.apache.spark.sql.types.DataType

/**
 * A key that has too many rows for one task.
 *
 * @param key    the bytes of its row
 * @param share  its share of all rows
 * @param slices how many slices its rows make; without an order, how many tasks they are for
 * @param begins the values of the order where the slices begin, but the first one
 */
final case class SlicedKey(
    key: Array[Byte], share: Double, slices: Int, begins: Seq[Array[Byte]])

object SlicedKey {
  /** The key of all rows, if there are no keys: the bytes of a row without columns. */
  val OfAllRows: SlicedKey = SlicedKey(Array.emptyByteArray, 1.0, 1, Nil)
}

private[window] object SlicedKeys {
  /** A key with less than the rows of so many tasks stays whole: its rows would travel twice. */
  private val Oversize = 1.5

  /**
   * The keys with too many rows, those with the most rows first.
   *
   * @param samples rows of (keys, order)
   * @param keys    the types of the keys
   * @param tasks   the number of tasks that share all rows
   */
  def of(
      samples: WeightedRows,
      keys: Seq[DataType],
      order: Seq[SortOrder],
      tasks: Int): Seq[SlicedKey] = {
    val types = keys ++ order.map(_.dataType)
    val columns = types.zipWithIndex.map { case (t, i) => BoundReference(i, t, nullable = true) }
    val keyOf = UnsafeProjection.create(columns.take(keys.length))
    val valueOf = UnsafeProjection.create(columns.drop(keys.length))
    val rows = samples.map { case (weight, bytes) =>
      val row = StateFields.row(bytes, types.length)
      (keyOf(row).copy(), (valueOf(row).copy(), weight))
    }
    val total = rows.map(_._2._2).sum
    val ordering = OrderCuts.ordering(OrderCuts.directions(order), order.map(_.dataType))
    rows.groupBy(_._1).toSeq.map { case (key, ofKey) =>
      (key, ofKey.map(_._2), ofKey.map(_._2._2).sum / total)
    }.filter(_._3 * tasks > Oversize).sortBy(-_._3).map { case (key, values, share) =>
      val ranges = math.ceil(share * tasks).toInt
      val begins = if (order.isEmpty) Nil else OrderCuts.of(values, ranges, ordering)
      val slices = if (order.isEmpty) ranges else begins.length + 1
      SlicedKey(key.getBytes, share, slices, begins.map(_.getBytes))
    }.filter(_.slices > 1)
  }
}

/**
 * Finds which of the hot keys a row has.
 *
 * @param keys the columns of the key
 */
private[window] final class NumbersOfKeys(keys: Seq[Expression], hot: Seq[SlicedKey]) {
  private val keyOf = UnsafeProjection.create(keys)
  private val numbers = new JavaMap[UnsafeRow, Integer]
  hot.zipWithIndex.foreach { case (key, i) =>
    numbers.put(StateFields.row(key.key, keys.length), i)
  }
  private var last: UnsafeRow = _

  /** The number of its key, or -1. Without columns, all rows have the one key there is. */
  def of(row: InternalRow): Int = if (keys.isEmpty) 0 else {
    last = keyOf(row)
    val number = numbers.get(last)
    if (number == null) -1 else number
  }

  /** A hash of the key of the row that was seen last. */
  def hash: Int = last.hashCode
}
