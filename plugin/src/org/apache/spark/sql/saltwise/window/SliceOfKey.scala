package org.apache.spark.sql.saltwise.window

import java.util.{HashMap => JavaMap}

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.saltwise.plan.StateFields
import org.apache.spark.sql.types.{DataType, IntegerType}

/**
 * The slice of a row of a hot key. The rows of other keys go to partitions behind all slices, by
 * their keys.
 *
 * If there is no order, a map task sends all its rows of a key to one slice.
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

  @transient private lazy val keyOf = UnsafeProjection.create(keys)
  @transient private lazy val valueOf = UnsafeProjection.create(order)
  @transient private lazy val task = TaskContext.getPartitionId()
  @transient private lazy val slicesOfKeys = {
    val slices = new JavaMap[UnsafeRow, SlicesOfKey]
    hot.zip(hot.scanLeft(0)(_ + _.slices)).foreach { case (key, first) =>
      val ranges = RangesOfOrder(directions, order.map(_.dataType), key.begins)
      slices.put(StateFields.row(key.key, keys.length), new SlicesOfKey(first, key.slices, ranges))
    }
    slices
  }

  private final class SlicesOfKey(first: Int, n: Int, ranges: RangesOfOrder) {
    def of(row: InternalRow): Int =
      first + (if (order.isEmpty) task % n else ranges.of(valueOf(row)))
  }

  override def children: Seq[Expression] = keys ++ order ++ read
  override def nullable: Boolean = false
  override def dataType: DataType = IntegerType

  override def eval(row: InternalRow): Any = {
    val key = keyOf(row)
    val slices = slicesOfKeys.get(key)
    if (slices == null) n + Math.floorMod(key.hashCode, others)
    else {
      val slice = slices.of(row)
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
