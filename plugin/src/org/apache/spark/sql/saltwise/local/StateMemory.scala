package org.apache.spark.sql.saltwise.local

import org.apache.spark.memory._
import org.apache.spark.unsafe.memory.MemoryBlock

/**
 * The memory of waiting rows and of states in a task, as Spark's memory manager counts it.
 *
 * Memory is asked for before it is used. Blocks are where Spark's own operators have theirs, on the
 * heap or off it. Spark keeps large ones for the next task, so the garbage collector does not have
 * to copy them.
 *
 * A page is kept back for an operator that has nothing yet that it could spill ([[SparePage]]).
 *
 * @param limit the most bytes that may be held
 */
private[local] final class StateMemory(manager: TaskMemoryManager, limit: Long)
  extends MemoryConsumer(manager, 1, manager.getTungstenMemoryMode) {
  import StateMemory.Step

  private val spare = new SparePage(manager, owner = this)
  private var heldBytes = 0L
  private var blockBytes = 0L

  /** The bytes that are held. */
  def held: Long = heldBytes + blockBytes

  /** The most bytes that were held at one time. */
  var peak = 0L

  /** Whether Spark has no more memory for this task, or another of its operators needs this. */
  var scarce = false

  /** Takes more bytes, and returns whether there were enough. */
  def take(bytes: Long): Boolean = held + bytes <= limit && {
    val missing = held + bytes - getUsed
    if (missing > 0 && acquireMemory(math.max(Step, missing)) < missing) scarce = true
    val enough = held + bytes <= getUsed
    if (enough) {
      heldBytes += bytes
      peak = math.max(peak, held)
    }
    enough
  }

  /** A block of so many bytes, or null if there is no memory for it. */
  def block(bytes: Long): MemoryBlock = if (held + bytes > limit) null else
    try {
      val block = allocatePage(bytes)
      blockBytes += block.size
      peak = math.max(peak, held)
      block
    } catch {
      case _: SparkOutOfMemoryError =>
        scarce = true
        null
    }

  def giveBack(block: MemoryBlock): Unit = {
    blockBytes -= block.size
    freePage(block)
  }

  /** Gives everything back, apart from blocks. */
  def release(): Unit = {
    freeMemory(getUsed - blockBytes)
    heldBytes = 0
    scarce = false
    spare.keep()
  }

  /** Gives all of it back, at the end of the task. */
  def close(): Unit = {
    release()
    spare.give()
  }

  /** Gives bytes back to the task, which keeps them for what it takes next. */
  def give(bytes: Long): Unit = heldBytes -= bytes

  /**
   * Asks the task to send its rows and states, which gives the memory back. No memory is free at
   * once, because the operator that asks may be the one that takes these rows, or one that makes
   * rows for this one.
   */
  override def spill(size: Long, trigger: MemoryConsumer): Long = {
    if ((trigger ne this) && (trigger ne spare)) scarce = true
    0L
  }
}

private[local] object StateMemory {
  private val Step = 1L << 20
}
