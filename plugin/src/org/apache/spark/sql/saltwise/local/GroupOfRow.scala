package org.apache.spark.sql.saltwise.local

import org.apache.spark.sql.catalyst.expressions.{UnsafeRow, XXH64}
import org.apache.spark.sql.types.DataType
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.array.ByteArrayMethods

/**
 * Compares the first columns of rows as a group, in place. No row is made of them.
 *
 * @param types the types of these columns. Equal values must have equal bytes.
 */
private[local] final class GroupOfRow(types: Seq[DataType]) {
  import GroupOfRow._

  private val isFixed = types.map(UnsafeRow.isFixedLength).toArray

  private val isOneWord = isFixed.length == 1 && isFixed(0)

  /** A hash of all 64 bits. A null has the hash of a word 0, or of no bytes. */
  def hash(row: UnsafeRow): Long =
    if (isOneWord) mixed(Seed ^ row.getLong(0)) else {
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

  /** The first bytes of a group. Groups with similar numbers or texts have similar prefixes. */
  def prefix(row: UnsafeRow): Long = {
    val word = row.getLong(0)
    if (isFixed(0) || size(word) < 8) word
    else java.lang.Long.reverseBytes(
      Platform.getLong(row.getBaseObject, row.getBaseOffset + offset(word)))
  }

  def areSame(one: UnsafeRow, other: UnsafeRow): Boolean =
    if (isOneWord) areSameWords(0, one, other) else {
      var i = 0
      while (i < isFixed.length &&
          (if (isFixed(i)) areSameWords(i, one, other) else areSameBytes(i, one, other))) i += 1
      i == isFixed.length
    }

  /** The word of a null is 0. */
  private def areSameWords(i: Int, one: UnsafeRow, other: UnsafeRow): Boolean = {
    val word = one.getLong(i)
    word == other.getLong(i) && (word != 0 || one.isNullAt(i) == other.isNullAt(i))
  }

  private def areSameBytes(i: Int, one: UnsafeRow, other: UnsafeRow): Boolean = {
    val left = one.getLong(i)
    val right = other.getLong(i)
    size(left) == size(right) && one.isNullAt(i) == other.isNullAt(i) &&
      ByteArrayMethods.arrayEquals(
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
