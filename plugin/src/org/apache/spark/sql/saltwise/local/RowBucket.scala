package org.apache.spark.sql.saltwise.local

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.array.LongArray
import org.apache.spark.unsafe.memory.MemoryBlock
import org.apache.spark.util.collection.unsafe.sort.RadixSort

/**
 * Rows whose keys have hashes in the same range. After `sort`, rows with the same hash are
 * neighbours, in the order in which they came. Such rows are a run.
 */
private[local] final class RowBucket(memory: RowPages) {
  import RowBucket._
  import RowPages.PageBytes

  private var pages = Array.emptyIntArray
  private var pageCount = 0
  private var offset = PageBytes

  // For each row: 32 bits of the hash, and the row's position: its page, and the word on the page.
  private var index = Array.emptyLongArray

  // The JVM does not read what nothing depends on.
  private var fetched = 0L

  /** The number of rows. */
  var rows = 0

  /** Copies a row, if there is memory for it. */
  def add(hash: Long, row: UnsafeRow): Boolean = {
    val size = row.getSizeInBytes
    val fits = hasIndex && hasRoom(8 + size)
    if (fits) {
      index(rows) = (hash << 32) | put(row)
      rows += 1
    }
    fits
  }

  /** Copies a row to the last page, and returns its position. */
  private def put(row: UnsafeRow): Long = {
    val size = row.getSizeInBytes
    val page = pages(pageCount - 1)
    val base = memory.base(page)
    val at = memory.offset(page) + offset
    Platform.putLong(base, at, size)
    // Short rows are copied word by word, which is faster than a call.
    if (size > ShortRow) {
      Platform.copyMemory(row.getBaseObject, row.getBaseOffset, base, at + 8, size)
    } else {
      val from = row.getBaseObject
      val begin = row.getBaseOffset
      var i = 0
      while (i < size) {
        Platform.putLong(base, at + 8 + i, Platform.getLong(from, begin + i))
        i += 8
      }
    }
    val position = (page.toLong << WordBits) | (offset / 8)
    offset += 8 + size
    position
  }

  private def hasIndex: Boolean = rows < index.length || {
    val grown = math.max(2 * index.length, MinRows)
    val fits = memory.take(8L * (grown - index.length))
    if (fits) index = java.util.Arrays.copyOf(index, grown)
    fits
  }

  private def hasRoom(size: Int): Boolean = offset + size <= PageBytes || {
    val page = memory.page(size)
    if (page >= 0) {
      if (pageCount == pages.length) {
        pages = java.util.Arrays.copyOf(pages, math.max(4, 2 * pageCount))
      }
      pages(pageCount) = page
      pageCount += 1
      offset = 0
    }
    page >= 0
  }

  /**
   * Makes rows whose keys have the same hash neighbours. Few rows are inserted one by one.
   *
   * @param space where others are sorted: words for twice as many rows
   */
  def sort(space: Array[Long]): Unit = if (rows > FewRows) {
    System.arraycopy(index, 0, space, 0, rows)
    val begin = RadixSort.sort(
      new LongArray(MemoryBlock.fromLongArray(space)), rows, FirstByte, 7, false, false)
    System.arraycopy(space, begin, index, 0, rows)
  } else {
    var i = 1
    while (i < rows) {
      val moving = index(i)
      var j = i
      while (j > 0 && isBefore(moving, index(j - 1))) {
        index(j) = index(j - 1)
        j -= 1
      }
      index(j) = moving
      i += 1
    }
  }

  private def isBefore(one: Long, other: Long): Boolean =
    java.lang.Long.compareUnsigned(one & RunBits, other & RunBits) < 0

  /**
   * Reads all pages in the order of addresses, so that they are in the cache when the rows are read
   * by key. A processor fetches memory ahead only if it is read in order.
   */
  def fetch(): Unit = {
    var sum = 0L
    var i = 0
    while (i < pageCount) {
      val base = memory.base(pages(i))
      val begin = memory.offset(pages(i))
      var at = 0
      while (at < PageBytes) {
        sum += Platform.getLong(base, begin + at)
        at += CacheLine
      }
      i += 1
    }
    fetched = sum
  }

  /** The 32 bits of the hash of the key of row `i`. */
  def hash(i: Int): Int = (index(i) >>> 32).toInt

  /** The first row after row `i` whose key has another hash. */
  def endOfRun(i: Int): Int = {
    val hash = index(i) & RunBits
    var end = i + 1
    while (end < rows && (index(end) & RunBits) == hash) end += 1
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
    val before = rows
    var staying = 0
    foreachRun { (begin, end) =>
      val stay = begin + leave(begin, end)
      System.arraycopy(index, stay, index, staying, end - stay)
      staying += end - stay
    }
    rows = staying
    if (staying == 0) clear() else if (staying <= before / 2) compact()
  }

  /** Moves the rows to other pages, without the bytes of rows that were forgotten. */
  private def compact(): Unit = {
    val row = new UnsafeRow(0)
    val sizes = Array.tabulate(rows)(read(_, row).getSizeInBytes + 8L)
    // The end of a page may stay free, but not half of it.
    val needed = 2 * sizes.sum / PageBytes + 1
    if (sizes.forall(_ <= PageBytes) && needed < pageCount && memory.reserve(needed.toInt)) {
      val (old, oldCount) = (pages, pageCount)
      pages = Array.emptyIntArray
      pageCount = 0
      offset = PageBytes
      for (i <- 0 until rows) {
        read(i, row)
        hasRoom(8 + row.getSizeInBytes)
        index(i) = (index(i) & ~PositionBits) | put(row)
      }
      for (i <- 0 until oldCount) memory.giveBack(old(i))
    }
  }

  /** Makes `row` point to the row with this number. */
  def read(i: Int, row: UnsafeRow): UnsafeRow = {
    val position = index(i) & PositionBits
    val page = (position >>> WordBits).toInt
    val base = memory.base(page)
    val at = memory.offset(page) + 8 * (position & ((1 << WordBits) - 1))
    row.pointTo(base, at + 8, Platform.getLong(base, at).toInt)
    row
  }

  /** Forgets all rows. */
  def clear(): Unit = {
    while (pageCount > 0) {
      pageCount -= 1
      memory.giveBack(pages(pageCount))
    }
    offset = PageBytes
    rows = 0
  }

  /** Forgets all rows, and gives the index back. */
  def free(): Unit = {
    clear()
    memory.give(8L * index.length)
    index = Array.emptyLongArray
  }
}

private[local] object RowBucket {
  private val ShortRow = 1 << 7
  private val MinRows = 1 << 5
  private val CacheLine = 64

  /** Of the bits of a position, these are the word on the page. */
  private val WordBits = 10
  private val PositionBits = 0xFFFFFFFFL

  /** Rows are sorted by three bytes of the hash. The bucket is another one. */
  private val FirstByte = 5
  private val RunBits = 0xFFFFFF0000000000L
  private val FewRows = 64
}
