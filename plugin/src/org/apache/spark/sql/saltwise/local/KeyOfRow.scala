package org.apache.spark.sql.saltwise.local

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.saltwise.plan.GroupingKeys

/**
 * The key of a row, and its group: rows are of one group if the bytes of their groups are the same.
 * Of texts that a collation compares as equal, the first one that a task sees is the key of the
 * group, as in stock Spark. Without collations, the group is the key.
 *
 * @param keys the first columns of a row
 */
private[local] final class KeyOfRow(val keys: Seq[Attribute], val input: Seq[Attribute]) {

  val isCollated: Boolean = keys.exists(key => GroupingKeys.isCollated(key.dataType))

  private val comparables = keys.map(GroupingKeys.comparable)
  private val toKey = UnsafeProjection.create(keys, input)
  private lazy val toGroup = UnsafeProjection.create(comparables, input)

  val groups: GroupOfRow =
    new GroupOfRow((if (isCollated) comparables else keys).map(_.dataType))

  /** The key, until the next call. */
  def apply(row: UnsafeRow): UnsafeRow = toKey(row)

  /** A row whose first columns are the group, until the next call. */
  def group(row: UnsafeRow): UnsafeRow = if (isCollated) toGroup(row) else row

  /** A group that stays, of a row and a copy of its key. */
  def groupOf(row: UnsafeRow, key: UnsafeRow): UnsafeRow =
    if (isCollated) toGroup(row).copy() else key
}
