package org.apache.spark.sql.saltwise.local

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/**
 * Rows that wait until there are enough of them to see which keys come back.
 *
 * They are in buckets by the hashes of their keys. So a group is in one bucket, and the rows of a
 * bucket are close together in memory when its groups are read.
 *
 * @param memory   gives the batch its memory
 * @param maxBytes the most bytes that the batch may take
 */
private[local] final class RowBatch(memory: StateMemory, maxBytes: Long) {
  import RowBatch._

  private val pages = new RowPages(memory, maxBytes)
  private var space = Array.emptyLongArray
  private var addedRows = 0L
  private var addedBytes = 0L

  val buckets: Array[RowBucket] = Array.fill(Buckets)(new RowBucket(pages))

  /** The bytes that the batch takes. */
  def heldBytes: Long = pages.heldBytes

  /** The number of rows. */
  var rows = 0

  /** A wider row does not wait, because a few of them would fill the batch. */
  val maxRowBytes: Long = maxBytes / FewestRows

  /** The mean size of a row in bytes. */
  def rowBytes: Double = addedBytes.toDouble / math.max(1L, addedRows)

  /** The most rows of this mean size that the batch may have. */
  def maxRows: Double = maxBytes / (rowBytes + 8 + 16)

  /** Makes rows whose keys have the same hash neighbours, in their bucket. */
  def sort(): Unit = {
    var most = 0
    buckets.foreach(bucket => most = math.max(most, bucket.rows))
    if (space.length < 2 * most) space = new Array[Long](3 * most)
    buckets.foreach(_.sort(space))
  }

  /** Copies a row, if there is memory for it. */
  def add(hash: Long, row: UnsafeRow): Boolean = {
    val fits = buckets((hash >>> (64 - BucketBits)).toInt).add(hash, row)
    if (fits) {
      rows += 1
      addedRows += 1
      addedBytes += row.getSizeInBytes
    }
    fits
  }

  /**
   * Forgets the first rows of each run. `leave(bucket, first row, end)` says how many of them. Each
   * bucket is in the cache when its runs are read.
   */
  def removeRuns(leave: (RowBucket, Int, Int) => Int): Unit = {
    rows = 0
    buckets.foreach { bucket =>
      bucket.fetch()
      bucket.removeRuns((begin, end) => leave(bucket, begin, end))
      rows += bucket.rows
    }
  }

  /** Forgets all rows. The memory stays for the next ones. */
  def clear(): Unit = {
    buckets.foreach(_.clear())
    rows = 0
  }

  /** Forgets all rows, and gives the memory back. */
  def free(): Unit = {
    buckets.foreach(_.free())
    pages.clear()
    rows = 0
  }
}

private object RowBatch {

  /** Enough buckets that a bucket of a full batch fits into the cache of a core. */
  private val BucketBits = 8
  private val Buckets = 1 << BucketBits

  private val FewestRows = 64
}
