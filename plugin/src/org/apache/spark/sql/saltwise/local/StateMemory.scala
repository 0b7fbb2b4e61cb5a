package org.apache.spark.sql.saltwise.local

import org.apache.spark.memory.{MemoryConsumer, MemoryMode, TaskMemoryManager}

/**
 * The memory that the states of a task hold, as Spark's memory manager counts it.
 *
 * @param limit the most bytes that states may hold
 */
private[local] final class StateMemory(manager: TaskMemoryManager, limit: Long)
  extends MemoryConsumer(manager, manager.pageSizeBytes, MemoryMode.ON_HEAP) {
  import StateMemory.Step

  private var held = 0L
  private var wanted = false

  /** The most bytes that states held at one time. */
  var peak = 0L

  /** Whether the states should leave: they hold too much, or another operator needs memory. */
  def full: Boolean = wanted

  /** Counts bytes that states hold from now on. */
  def hold(bytes: Long): Unit = {
    held += bytes
    if (held > peak) peak = held
    if (held > limit) wanted = true
    else if (held > getUsed && acquireMemory(math.max(Step, bytes)) < bytes) wanted = true
  }

  /** All states have left. */
  def release(): Unit = {
    freeMemory(getUsed)
    held = 0
    wanted = false
  }

  /**
   * Asks the task to send its states, which gives the memory back. Nothing is free at once, because
   * the operator that asks may be the one that takes the states.
   */
  override def spill(size: Long, trigger: MemoryConsumer): Long = {
    if (trigger ne this) wanted = true
    0L
  }
}

private[local] object StateMemory {
  private val Step = 1L << 20
}
