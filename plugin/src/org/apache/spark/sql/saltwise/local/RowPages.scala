package org.apache.spark.sql.saltwise.local

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.unsafe.memory.MemoryBlock

/**
 * Pages for the rows of a batch. They are parts of large blocks. A page that one bucket gives back
 * is for the next bucket that needs one.
 *
 * A row that is wider than a page has several, side by side in a block.
 *
 * @param maxBytes the most bytes that the pages may take
 */
private[local] final class RowPages(memory: StateMemory, maxBytes: Long) {
  import RowPages._

  private val blocks = new ArrayBuffer[MemoryBlock]
  private var bases = new Array[AnyRef](16)
  private var offsets = new Array[Long](16)
  private var free = new Array[Int](64)
  private var freePages = 0

  // Pages at the end of a block that no row had so far. Wide rows take those first.
  private var unused = 0
  private var unusedPages = 0

  /** The bytes that buckets have, or may have. */
  var heldBytes = 0L

  /** The object and the offset in it where a page begins. */
  def base(page: Int): AnyRef = bases(page >>> PagesBits)
  def offset(page: Int): Long =
    offsets(page >>> PagesBits) + (page & (MaxPages - 1)).toLong * PageBytes

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

  /** A page with room for so many bytes from its beginning, or -1 if there is no memory for it. */
  def page(bytes: Int): Int =
    if (bytes > PageBytes) sideBySide((bytes - 1) / PageBytes + 1)
    else if (reserve(1)) {
      freePages -= 1
      free(freePages)
    } else -1

  /** Takes as many pages as are missing, and returns whether so many are free. */
  def reserve(pages: Int): Boolean = {
    var fits = true
    while (freePages < pages && fits) {
      if (unusedPages == 0) fits = takeBlock(1)
      freeUnused()
    }
    fits
  }

  /** The first of some pages side by side, or -1. */
  private def sideBySide(pages: Int): Int = {
    var fits = unusedPages >= pages
    if (!fits) {
      freeUnused()
      fits = takeBlock(pages)
    }
    if (!fits) -1 else {
      val first = unused
      unused += pages
      unusedPages = math.max(0, unusedPages - pages)
      first
    }
  }

  private def freeUnused(): Unit = {
    for (i <- unusedPages - 1 to 0 by -1) giveBack(unused + i)
    unusedPages = 0
  }

  /** A page is free again. Of those of a wide row, it is the first one alone. */
  def giveBack(page: Int): Unit = {
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
    unusedPages = 0
  }

  /** Takes a block of so many pages or more, if there is memory for it. */
  private def takeBlock(pages: Int): Boolean = {
    val room = math.min(maxBytes - heldBytes, Int.MaxValue) / PageBytes
    val wanted = math.min(MaxPages, math.max(FirstPages, heldBytes / PageBytes))
    val count = math.min(room, math.max(pages, wanted)).toInt
    val isFull = count < pages || blocks.length == MaxBlocks
    val block = if (isFull) null else memory.block(count * PageBytes)
    if (block != null) {
      heldBytes += block.size
      if (blocks.length == bases.length) {
        bases = java.util.Arrays.copyOf(bases, 2 * bases.length)
        offsets = java.util.Arrays.copyOf(offsets, 2 * offsets.length)
      }
      bases(blocks.length) = block.getBaseObject
      offsets(blocks.length) = block.getBaseOffset
      unused = blocks.length << PagesBits
      unusedPages = math.min(count, MaxPages)
      blocks += block
    }
    block != null
  }
}

private[local] object RowPages {
  private val PageBits = 13
  val PageBytes: Int = 1 << PageBits

  /** A block has at most 512 pages, or 4 MB, and the first one has 32. */
  private val PagesBits = 9
  private val MaxPages = 1 << PagesBits
  private val FirstPages = 32L

  /** A number of a page has room for so many, and a task of Spark can have twice as many. */
  private val MaxBlocks = 1 << 12
}
