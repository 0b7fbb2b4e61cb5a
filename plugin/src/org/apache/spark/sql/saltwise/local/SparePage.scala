package org.apache.spark.sql.saltwise.local

import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.memory.{MemoryConsumer, TaskMemoryManager}

/**
 * A page of memory that nothing uses, beside what waiting rows and states take. An operator of the
 * same task that asks for its first page gets this one. From then on it has something to spill.
 *
 * The operator may ask in another thread, as one does that writes to Python.
 *
 * @param owner the memory of waiting rows and states, which it is beside
 */
private[local] final class SparePage(manager: TaskMemoryManager, owner: StateMemory)
  extends MemoryConsumer(manager, 1, manager.getTungstenMemoryMode) {

  private val kept = new AtomicLong

  keep()

  /** Takes the page, if there is memory. */
  def keep(): Unit = if (kept.get == 0) {
    kept.set(acquireMemory(manager.pageSizeBytes + SparePage.More))
  }

  /** Gives it back, and returns its bytes. */
  def give(): Long = {
    val bytes = kept.getAndSet(0)
    freeMemory(bytes)
    bytes
  }

  override def spill(size: Long, trigger: MemoryConsumer): Long =
    if ((trigger eq this) || (trigger eq owner)) 0L
    else {
      owner.scarce = true
      give()
    }
}

private object SparePage {

  /** For the arrays beside a first page. */
  private val More = 1L << 20
}
