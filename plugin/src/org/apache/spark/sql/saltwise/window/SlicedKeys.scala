package org.apache.spark.sql.saltwise.window

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.saltwise.plan.StateFields
import org.apache.spark.sql.saltwise.window.OrderSample.WeightedRows
import org.apache.spark.sql.types.DataType

/**
 * A key that has too many rows for one task.
 *
 * @param key    the bytes of its row
 * @param share  its share of all rows
 * @param slices how many slices its rows make
 * @param begins the values of the order where the slices begin, but the first one; none if there is
 *               no order
 */
private[window] final case class SlicedKey(
    key: Array[Byte], share: Double, slices: Int, begins: Seq[Array[Byte]])

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
