package org.apache.spark.sql.saltwise.local

import org.apache.spark.sql.catalyst.expressions.{UnsafeRow, XXH64}
import org.apache.spark.sql.types.DataType
import org.apache.spark.unsafe.array.ByteArrayMethods

/**
 * Compares the first columns of rows as a group, in place. No row is made of them.
 *
 * @param types the types of these columns. Equal values must have equal bytes.
 */
private[local] final class GroupOfRow(types: Seq[DataType]) {
  import GroupOfRow._

  private val isFixed = types.map(UnsafeRow.isFixedLength).toArray

  /** A hash of all 64 bits. A null has the hash of a word 0, or of no bytes. */
  def hash(row: UnsafeRow): Long = {
    var hash = Seed
    var i = 0
    while (i < isFixed.length) {
      val word = row.getLong(i)
      hash =
        if (isFixed(i)) mixed(hash ^ word)
        else XXH64.hashUnsafeBytes(
          row.getBaseObject, row.getBaseOffset + offset(word), size(word), hash)
      i += 1
    }
    hash
  }

  def areSame(one: UnsafeRow, other: UnsafeRow): Boolean = {
    var i = 0
    while (i < isFixed.length && isSame(i, one, other)) i += 1
    i == isFixed.length
  }

  private def isSame(i: Int, one: UnsafeRow, other: UnsafeRow): Boolean = {
    val (left, right) = (one.getLong(i), other.getLong(i))
    if (one.isNullAt(i) || other.isNullAt(i)) one.isNullAt(i) && other.isNullAt(i)
    else if (isFixed(i)) left == right
    else size(left) == size(right) && ByteArrayMethods.arrayEquals(
      one.getBaseObject, one.getBaseOffset + offset(left),
      other.getBaseObject, other.getBaseOffset + offset(right), size(left))
  }
}

private object GroupOfRow {
  private val Seed = 42L

  /** The word of a value that has no fixed length: where its bytes are, and how many. */
  private def offset(word: Long): Int = (word >>> 32).toInt
  private def size(word: Long): Int = word.toInt

  /** Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014. */
  private def mixed(word: Long): Long = {
    val once = (word ^ (word >>> 30)) * 0xBF58476D1CE4E5B9L
    val twice = (once ^ (once >>> 27)) * 0x94D049BB133111EBL
    twice ^ (twice >>> 31)
  }
}
