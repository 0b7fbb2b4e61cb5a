package org.apache.spark.sql.saltwise.local

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/**
 * Rows that wait until there are enough of them to see which keys come back.
 *
 * They are in buckets by the hashes of their keys. So a group is in one bucket, and the rows of a
 * bucket are close together in memory when its groups are read.
 *
 * @param memory gives the batch its memory
 * @param limit  the most bytes that the batch may take
 */
private[local] final class RowBatch(memory: StateMemory, limit: Long) {
  import RowBatch._

  /** The bytes that the batch takes. */
  var heldBytes = 0L
  private var full = false
  private var addedRows = 0L
  private var addedBytes = 0L

  val buckets: Array[RowBucket] = Array.fill(Buckets)(new RowBucket(take))

  private def take(bytes: Long): Boolean = {
    val fits = heldBytes + bytes <= limit && memory.take(bytes)
    if (fits) heldBytes += bytes else full = true
    fits
  }

  /** A wider row does not wait, because a few of them would fill the batch. */
  val maxRowBytes: Long = limit / FewestRows

  /** The mean size of a row in bytes. */
  def rowBytes: Double = addedBytes.toDouble / math.max(1L, addedRows)

  /** The most rows of this mean size that the batch may have. */
  def maxRows: Double = limit / (rowBytes + 8 + 16)

  /** Copies a row, if there is memory for it. */
  def add(hash: Long, row: UnsafeRow): Boolean = {
    val fits = buckets((hash >>> (64 - BucketBits)).toInt).add(hash, row)
    if (fits) {
      addedRows += 1
      addedBytes += row.getSizeInBytes
    }
    fits
  }

  /** Forgets all rows. The memory stays for the next ones, unless other buckets may need it. */
  def clear(): Unit = if (full) free() else buckets.foreach(_.clear())

  /** Gives the memory back. */
  def free(): Unit = {
    buckets.foreach(_.free())
    memory.give(heldBytes)
    heldBytes = 0
    full = false
  }
}

private object RowBatch {

  /** Enough buckets that a bucket of a full batch fits into the cache of a core. */
  private val BucketBits = 6
  private val Buckets = 1 << BucketBits

  private val FewestRows = 64
}
