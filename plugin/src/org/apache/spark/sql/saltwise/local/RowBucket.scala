package org.apache.spark.sql.saltwise.local

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.array.LongArray
import org.apache.spark.unsafe.memory.MemoryBlock
import org.apache.spark.util.collection.unsafe.sort.RadixSort

/**
 * Rows whose keys have hashes in the same range. After `sort`, rows with the same hash are
 * neighbours, in the order in which they came. Such rows are a run.
 *
 * @param take takes bytes of memory, and returns whether the bucket may have them
 */
private[local] final class RowBucket(take: Long => Boolean) {
  import RowBucket._

  private val pages = new ArrayBuffer[Array[Byte]]
  private var page = -1
  private var offset = PageBytes

  // For each row: 32 bits of the hash, and the row's position in words of eight bytes. The second
  // half of the array is working space for the radix sort.
  private var index = Array.emptyLongArray

  /** The number of rows. */
  var rows = 0

  /** Copies a row, if there is memory for it. */
  def add(hash: Long, row: UnsafeRow): Boolean = {
    val size = row.getSizeInBytes
    if (!hasIndex || !hasRoom(8 + size)) false else {
      val base = pages(page)
      val at = Platform.BYTE_ARRAY_OFFSET + offset
      Platform.putLong(base, at, size)
      copy(row, base, at + 8)
      index(rows) = (hash << 32) | (page.toLong * (PageBytes / 8) + offset / 8)
      offset += 8 + size
      rows += 1
      true
    }
  }

  /** Copies short rows word by word, which is faster than a call. */
  private def copy(row: UnsafeRow, base: Array[Byte], at: Long): Unit = {
    val from = row.getBaseObject
    val begin = row.getBaseOffset
    val size = row.getSizeInBytes
    if (size > ShortRow) Platform.copyMemory(from, begin, base, at, size) else {
      var i = 0
      while (i < size) {
        Platform.putLong(base, at + i, Platform.getLong(from, begin + i))
        i += 8
      }
    }
  }

  private def hasIndex: Boolean = 2 * rows < index.length || {
    val grown = math.max(2 * index.length, 2 * MinRows)
    val fits = take(8L * (grown - index.length))
    if (fits) index = java.util.Arrays.copyOf(index, grown)
    fits
  }

  /** A row that is wider than a page has a page of its own. */
  private def hasRoom(size: Int): Boolean = offset + size <= PageBytes || {
    val bytes = math.max(size, PageBytes)
    val next = pages.lift(page + 1).fold(0)(_.length)
    val fits = bytes <= next || take(bytes - next)
    if (fits) {
      page += 1
      offset = 0
      if (page == pages.length) pages += new Array[Byte](bytes)
      else if (bytes > next) pages(page) = new Array[Byte](bytes)
    }
    fits
  }

  /** Makes rows whose keys have the same hash neighbours. */
  def sort(): Unit = {
    val begin = RadixSort.sort(
      new LongArray(MemoryBlock.fromLongArray(index)), rows, 4, 7, false, false)
    if (begin > 0) System.arraycopy(index, begin, index, 0, rows)
  }

  /** The first row after row `i` whose key has another hash. */
  def endOfRun(i: Int): Int = {
    val hash = index(i) & HashBits
    var end = i + 1
    while (end < rows && (index(end) & HashBits) == hash) end += 1
    end
  }

  /** Calls `f` with the first row of each run, and its end. */
  def foreachRun(f: (Int, Int) => Unit): Unit = {
    var i = 0
    while (i < rows) {
      val end = endOfRun(i)
      f(i, end)
      i = end
    }
  }

  /** Forgets the first rows of each run. `leave(first row, end)` says how many of them. */
  def removeRuns(leave: (Int, Int) => Int): Unit = {
    var staying = 0
    foreachRun { (begin, end) =>
      val stay = begin + leave(begin, end)
      System.arraycopy(index, stay, index, staying, end - stay)
      staying += end - stay
    }
    rows = staying
  }

  /** Makes `row` point to the row with this number. */
  def read(i: Int, row: UnsafeRow): UnsafeRow = {
    val position = index(i) & ~HashBits
    val base = pages((position / (PageBytes / 8)).toInt)
    val at = Platform.BYTE_ARRAY_OFFSET + 8 * (position % (PageBytes / 8))
    row.pointTo(base, at + 8, Platform.getLong(base, at).toInt)
    row
  }

  /** Forgets all rows. The memory stays for the next ones. */
  def clear(): Unit = {
    page = -1
    offset = PageBytes
    rows = 0
  }

  /** Gives the pages and the index back. */
  def free(): Unit = {
    clear()
    pages.clear()
    index = Array.emptyLongArray
  }
}

private[local] object RowBucket {
  private val PageBytes = 1 << 13
  private val ShortRow = 1 << 7

  private val MinRows = 1 << 5
  private val HashBits = 0xFFFFFFFF00000000L
}
