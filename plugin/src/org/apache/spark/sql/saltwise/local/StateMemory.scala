package org.apache.spark.sql.saltwise.local

import org.apache.spark.memory.{MemoryConsumer, MemoryMode, TaskMemoryManager}

/**
 * The memory of waiting rows and of states in a task, as Spark's memory manager counts it.
 *
 * Both are on the heap. Memory is asked for before it is used.
 *
 * @param limit the most bytes that may be held
 */
private[local] final class StateMemory(manager: TaskMemoryManager, limit: Long)
  extends MemoryConsumer(manager, manager.pageSizeBytes, MemoryMode.ON_HEAP) {
  import StateMemory.Step

  private var heldBytes = 0L

  /** The bytes that are held. */
  def held: Long = heldBytes

  /** The most bytes that were held at one time. */
  var peak = 0L

  /** Whether Spark has no more memory for this task, or another of its operators needs this. */
  var scarce = false

  /** Takes more bytes, and returns whether there were enough. */
  def take(bytes: Long): Boolean = heldBytes + bytes <= limit && {
    val missing = heldBytes + bytes - getUsed
    if (missing > 0 && acquireMemory(math.max(Step, missing)) < missing) scarce = true
    val enough = heldBytes + bytes <= getUsed
    if (enough) {
      heldBytes += bytes
      if (heldBytes > peak) peak = heldBytes
    }
    enough
  }

  /** Gives everything back. */
  def release(): Unit = {
    freeMemory(getUsed)
    heldBytes = 0
    scarce = false
  }

  /** Gives bytes back to the task, which keeps them for what it takes next. */
  def give(bytes: Long): Unit = heldBytes -= bytes

  /**
   * Asks the task to send its rows and states, which gives the memory back. No memory is free at
   * once, because the operator that asks may be the one that takes these rows.
   */
  override def spill(size: Long, trigger: MemoryConsumer): Long = {
    if (trigger ne this) scarce = true
    0L
  }
}

private[local] object StateMemory {
  private val Step = 1L << 20
}
