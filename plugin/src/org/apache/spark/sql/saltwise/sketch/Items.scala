package org.apache.spark.sql.saltwise.sketch

import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.saltwise.plan.GroupingKeys
import org.apache.spark.sql.types.DataType

/**
 * The items on the counters of an [[ItemSketch]]. An item is a row of one column; `take` makes one the item at
 * hand, which `same` compares with the one on a counter and `store` puts there.
 */
abstract class Items {
  /** Makes `row` the item at hand; returns the hash of its key. */
  def take(row: UnsafeRow): Long
  def same(counter: Int): Boolean
  def store(counter: Int): Unit

  /** The item on a counter, as it was first seen; a row of its own. */
  def row(counter: Int): UnsafeRow
}

object Items {
  val HashSeed = 42L

  def apply(itemType: DataType): Items = {
    val normal = GroupingKeys.comparable(BoundReference(0, itemType, nullable = true))
    val isPlain = normal.isInstanceOf[BoundReference]
    if (isPlain && UnsafeRow.isMutable(itemType) && itemType.defaultSize <= 8) new Words
    else new Rows(if (isPlain) None else Some(UnsafeProjection.create(Seq(normal))), GroupingKeys.isCollated(itemType))
  }
}

/** Items of one word, such as numbers and dates: two flat arrays. */
private final class Words extends Items {
  private var words = new Array[Long](16)
  private var nulls = new Array[Boolean](16)
  private var word = 0L
  private var isNull = false

  override def take(row: UnsafeRow): Long = {
    isNull = row.isNullAt(0)
    word = if (isNull) 0L else row.getLong(0)
    if (isNull) Items.HashSeed else XXH64.hashLong(word, Items.HashSeed)
  }

  override def same(counter: Int): Boolean = words(counter) == word && nulls(counter) == isNull

  override def store(counter: Int): Unit = {
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
 * Items of any type. Where the form in which items compare differs from the item (-0.0, collations), the key is that
 * form; an item whose key shows something else, as a collation key does, is kept beside it.
 */
private final class Rows(comparable: Option[UnsafeProjection], showsOther: Boolean) extends Items {
  private var keys = new Array[UnsafeRow](16)
  private var shown = if (showsOther) new Array[UnsafeRow](16) else keys
  private var key: UnsafeRow = _
  private var item: UnsafeRow = _

  override def take(row: UnsafeRow): Long = {
    item = row
    key = if (comparable.isEmpty) row else comparable.get(row)
    XXH64.hashUnsafeWords(key.getBaseObject, key.getBaseOffset, key.getSizeInBytes, Items.HashSeed)
  }

  override def same(counter: Int): Boolean = keys(counter) == key

  override def store(counter: Int): Unit = {
    if (counter >= keys.length) {
      keys = Arrays.copyOf(keys, keys.length * 2)
      shown = if (showsOther) Arrays.copyOf(shown, keys.length) else keys
    }
    keys(counter) = overwrite(keys(counter), key)
    if (showsOther) shown(counter) = overwrite(shown(counter), item)
  }

  override def row(counter: Int): UnsafeRow = shown(counter).copy()

  /** Most keys come and go in the lowest counters, so their bytes are used again. */
  private def overwrite(old: UnsafeRow, row: UnsafeRow): UnsafeRow =
    if (old == null) row.copy() else { old.copyFrom(row); old }
}
