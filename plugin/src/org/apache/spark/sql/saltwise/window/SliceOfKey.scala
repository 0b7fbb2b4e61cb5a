package org.apache.spark.sql.saltwise.window

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.types.{DataType, IntegerType}

/**
 * The slice of a row of a hot key. The rows of other keys go to partitions behind all slices, by
 * their keys.
 *
 * @param hot    the hot keys
 * @param others how many partitions the other keys have
 */
final case class SliceOfKey(
    keys: Seq[Expression],
    order: Seq[Expression],
    directions: Seq[(SortDirection, NullOrdering)],
    hot: Seq[SlicedKey],
    others: Int,
    carried: Carried,
    read: Seq[Expression],
    sent: OfTasks[Seq[SentSlice]])
  extends CountsSlices with CodegenFallback {

  override val n: Int = hot.map(_.slices).sum

  @transient private lazy val numbers = new NumbersOfKeys(keys, hot)
  @transient private lazy val valueOf = UnsafeProjection.create(order)
  @transient private lazy val firsts = hot.scanLeft(0)(_ + _.slices).toArray
  @transient private lazy val ranges = hot.map(key =>
    RangesOfOrder(directions, order.map(_.dataType), key.begins)).toArray

  override def children: Seq[Expression] = keys ++ order ++ read
  override def nullable: Boolean = false
  override def dataType: DataType = IntegerType

  override def eval(row: InternalRow): Any = {
    val key = numbers.of(row)
    if (key < 0) n + Math.floorMod(numbers.hash, others)
    else {
      val slice = firsts(key) + ranges(key).of(valueOf(row))
      count(slice, row)
      slice
    }
  }

  override def toString: String = (keys ++ order).mkString(", ")

  override protected def withNewChildrenInternal(c: IndexedSeq[Expression]): SliceOfKey = {
    val (ofKeys, rest) = c.splitAt(keys.length)
    copy(keys = ofKeys, order = rest.take(order.length), read = rest.drop(order.length))
  }
}

object SliceOfKey {
  private[window] def apply(
      keys: Seq[Expression],
      order: Seq[SortOrder],
      hot: Seq[SlicedKey],
      others: Int,
      carried: Carried,
      sent: OfTasks[Seq[SentSlice]]): SliceOfKey =
    SliceOfKey(
      keys, order.map(_.child), OrderCuts.directions(order), hot, others, carried, carried.read,
      sent)
}
