package org.apache.spark.sql.saltwise.sketch

import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.saltwise.plan.GroupingKeys
import org.apache.spark.sql.types.DataType

/**
 * The items on the counters of an [[ItemSketch]]. An item is a row of one column. `setCurrent`
 * sets the current item, which the methods with a counter refer to.
 */
abstract class Items {
  /** Makes `row` the current item; returns the hash of its key. */
  def setCurrent(row: UnsafeRow): Long

  /** Whether a counter holds the current item. */
  def holdsCurrent(counter: Int): Boolean

  /** Puts the current item on a counter. */
  def storeCurrent(counter: Int): Unit

  /** A copy of the item on a counter, as it was first seen. */
  def row(counter: Int): UnsafeRow
}

object Items {
  val HashSeed = 42L

  def apply(itemType: DataType): Items = {
    val comparable = GroupingKeys.comparable(BoundReference(0, itemType, nullable = true))
    val isPlain = comparable.isInstanceOf[BoundReference]
    if (isPlain && UnsafeRow.isMutable(itemType) && itemType.defaultSize <= 8) new Words
    else {
      val toKey = if (isPlain) None else Some(UnsafeProjection.create(Seq(comparable)))
      new Rows(toKey, GroupingKeys.isCollated(itemType))
    }
  }
}

/** Items of one word, such as numbers and dates, in two flat arrays. */
private final class Words extends Items {
  private var words = new Array[Long](16)
  private var nulls = new Array[Boolean](16)
  private var word = 0L
  private var isNull = false

  override def setCurrent(row: UnsafeRow): Long = {
    isNull = row.isNullAt(0)
    word = if (isNull) 0L else row.getLong(0)
    if (isNull) Items.HashSeed else XXH64.hashLong(word, Items.HashSeed)
  }

  override def holdsCurrent(counter: Int): Boolean =
    words(counter) == word && nulls(counter) == isNull

  override def storeCurrent(counter: Int): Unit = {
    if (counter >= words.length) {
      words = Arrays.copyOf(words, words.length * 2)
      nulls = Arrays.copyOf(nulls, nulls.length * 2)
    }
    words(counter) = word
    nulls(counter) = isNull
  }

  override def row(counter: Int): UnsafeRow = {
    val row = new UnsafeRow(1)
    row.pointTo(new Array[Byte](16), 16)
    if (nulls(counter)) row.setNullAt(0) else row.setLong(0, words(counter))
    row
  }
}

/**
 * Items of any type. The key of an item is the form in which items compare.
 *
 * @param toKey     None if the item itself is the key
 * @param keepItems whether an item is kept beside its key, because the key cannot be shown, like a
 *                  collation key
 */
private final class Rows(toKey: Option[UnsafeProjection], keepItems: Boolean) extends Items {
  private var keys = new Array[UnsafeRow](16)
  private var shown = if (keepItems) new Array[UnsafeRow](16) else keys
  private var key: UnsafeRow = _
  private var item: UnsafeRow = _

  override def setCurrent(row: UnsafeRow): Long = {
    item = row
    key = if (toKey.isEmpty) row else toKey.get(row)
    XXH64.hashUnsafeWords(key.getBaseObject, key.getBaseOffset, key.getSizeInBytes, Items.HashSeed)
  }

  override def holdsCurrent(counter: Int): Boolean = keys(counter) == key

  override def storeCurrent(counter: Int): Unit = {
    if (counter >= keys.length) {
      keys = Arrays.copyOf(keys, keys.length * 2)
      shown = if (keepItems) Arrays.copyOf(shown, keys.length) else keys
    }
    keys(counter) = overwrite(keys(counter), key)
    if (keepItems) shown(counter) = overwrite(shown(counter), item)
  }

  override def row(counter: Int): UnsafeRow = shown(counter).copy()

  /** Reuses the bytes of the old key, because most keys come and go on the lowest counters. */
  private def overwrite(old: UnsafeRow, row: UnsafeRow): UnsafeRow =
    if (old == null) row.copy() else { old.copyFrom(row); old }
}
