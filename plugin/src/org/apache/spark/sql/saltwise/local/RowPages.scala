package org.apache.spark.sql.saltwise.local

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.unsafe.memory.MemoryBlock

/**
 * Pages for the rows of a batch. They are parts of large blocks. A page that one bucket gives back
 * is for the next bucket that needs one.
 *
 * A row that is wider than a page begins on a page of a block of its own.
 *
 * @param maxBytes the most bytes that the pages may take
 */
private[local] final class RowPages(memory: StateMemory, maxBytes: Long) {
  import RowPages._

  private val blocks = new ArrayBuffer[MemoryBlock]
  private var bases = new Array[AnyRef](16)
  private var free = new Array[Int](64)
  private var freePages = 0

  /** The bytes that buckets have, or may have. */
  var heldBytes = 0L

  /** The object and the offset in it where a page begins. */
  def base(page: Int): AnyRef = bases(page >>> PagesBits)
  def offset(page: Int): Long = FirstOffset + (page & (MaxPages - 1)).toLong * PageBytes

  /** Takes bytes beside the pages, and returns whether there were enough. */
  def take(bytes: Long): Boolean = {
    val fits = heldBytes + bytes <= maxBytes && memory.take(bytes)
    if (fits) heldBytes += bytes
    fits
  }

  /** Gives bytes back that were taken beside the pages. */
  def give(bytes: Long): Unit = {
    heldBytes -= bytes
    memory.give(bytes)
  }

  /** A page with room for so many bytes, or -1 if there is no memory for it. */
  def page(bytes: Int): Int =
    if (bytes > PageBytes) block((bytes + 7) / 8 * 8)
    else if (reserve(1)) {
      freePages -= 1
      free(freePages)
    } else -1

  /** Takes as many pages as are missing, and returns whether so many are free. */
  def reserve(pages: Int): Boolean = {
    var fits = true
    while (freePages < pages && fits) {
      val room = (math.min(maxBytes - heldBytes, Int.MaxValue) / PageBytes).toInt
      val wanted = math.min(MaxPages, math.max(FirstPages, heldBytes / PageBytes)).toInt
      val count = math.min(room, wanted)
      val first = if (count < 1) -1 else block(count * PageBytes)
      fits = first >= 0
      if (fits) for (i <- count - 1 to 0 by -1) giveBack(first + i)
    }
    fits
  }

  /** A page is free again. That of a row that was wider is not used until all are given back. */
  def giveBack(page: Int): Unit = if (blocks(page >>> PagesBits).size % PageBytes == 0) {
    if (freePages == free.length) free = java.util.Arrays.copyOf(free, 2 * freePages)
    free(freePages) = page
    freePages += 1
  }

  /** Gives all pages back. No bucket may have one. */
  def clear(): Unit = {
    blocks.foreach { block =>
      heldBytes -= block.size
      memory.giveBack(block)
    }
    blocks.clear()
    freePages = 0
  }

  /** The first page of a new block, or -1. */
  private def block(bytes: Int): Int = {
    val isFull = heldBytes + bytes > maxBytes || blocks.length == MaxBlocks
    val block = if (isFull) null else memory.block(bytes)
    if (block == null) -1 else {
      heldBytes += block.size
      if (blocks.length == bases.length) bases = java.util.Arrays.copyOf(bases, 2 * bases.length)
      bases(blocks.length) = block.getBaseObject
      blocks += block
      (blocks.length - 1) << PagesBits
    }
  }
}

private[local] object RowPages {
  private val PageBits = 13
  val PageBytes: Int = 1 << PageBits

  /** A block has at most 512 pages, or 4 MB, and the first one has 32. */
  private val PagesBits = 9
  private val MaxPages = 1 << PagesBits
  private val FirstPages = 32L

  /**
   * Each wide row has a block. A task of Spark can have 8192 of them, and other operators need
   * some. A number of a page has room for as many.
   */
  private val MaxBlocks = 1 << 12

  private val FirstOffset = org.apache.spark.unsafe.Platform.LONG_ARRAY_OFFSET.toLong
}
