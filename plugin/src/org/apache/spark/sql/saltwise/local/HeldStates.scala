package org.apache.spark.sql.saltwise.local

import java.util.Comparator

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.saltwise.local.StateTable.Entry

/**
 * The states that a task holds, and their memory.
 *
 * Memory is taken when a key gets a state, and again in steps as states grow. How much they grow is
 * only known from the states that were measured, so it is an estimate.
 *
 * @param step the bytes that are taken at a time for states that grow
 */
private[local] final class HeldStates(
    keyOf: KeyOfRow, partial: PartialStates, memory: StateMemory, step: Long) {
  import HeldStates._

  /** The states of hot keys, which fit into the cache of a core, and those of other keys. */
  val hot, others = new StateTable(keyOf.groups)

  /** The rows that were combined with these states. */
  var combinedRows = 0L

  /** The bytes of heap that single values of a state take, and that a row adds to a state. */
  private var singleBytes, addedPerRow = 0L

  // How much the states have grown, and how much of that has memory.
  private var grownBytes, takenBytes = 0L

  def size: Int = hot.size + others.size

  def slots: Int = hot.slots + others.slots

  /** What was measured: the bytes of single values, and those that a row adds, as they are sent. */
  def measured(costs: StateCosts): Unit = {
    singleBytes = (HeapBytes * costs.kept).toLong
    addedPerRow = math.ceil(HeapBytes * costs.added).toLong
  }

  /** How many states, beside their keys, have so many bytes. */
  def fittingInto(bytes: Long): Long = bytes / (ObjectBytes + partial.emptyBytes + singleBytes)

  /** Adds the key of a row to one of the tables, with a state of no rows; null without memory. */
  def add(table: StateTable, hash: Int, row: UnsafeRow): Entry = {
    val key = keyOf(row).copy()
    val group = keyOf.groupOf(row, key)
    val groupBytes = if (group eq key) 0 else group.getSizeInBytes
    val bytes = ObjectBytes + key.getSizeInBytes + groupBytes + partial.emptyBytes
    if (memory.take(bytes)) {
      grownBytes += singleBytes
      val entry = new Entry(hash, key, group, partial.emptyState(), bytes)
      table.add(entry)
      entry
    } else null
  }

  /** So many rows of the key were combined. */
  def combined(entry: Entry, rows: Int): Unit = {
    combinedRows += rows
    entry.rows += rows
    entry.recentRows += rows
    grownBytes += rows * addedPerRow
  }

  /** Whether states have grown beyond the memory that was taken. */
  def needMemory: Boolean = grownBytes > takenBytes

  /**
   * Takes memory for what has grown, and returns whether there was enough. If not, the state with
   * most rows tells whether states have grown as was expected.
   */
  def takeMemory(): Boolean = {
    val bytes = grownBytes + step - takenBytes
    val fits = memory.take(bytes)
    if (fits) takenBytes += bytes
    else {
      val largest = (hot.iterator ++ others.iterator).maxBy(_.rows)
      grownBytes = math.min(grownBytes, HeapBytes * partial.grownBy(largest.state).sum * size)
    }
    !needMemory
  }

  /** Takes all entries out. */
  def removeAll(): Seq[Entry] = remove(Seq(hot, others), _ => true)

  /** Takes the entries out that are not of hot keys. */
  def removeOthers(): Seq[Entry] = remove(Seq(others), _ => true)

  /** Takes out the entries of keys that have not come since the last call. */
  def removeIdle(): Seq[Entry] = {
    val entries = remove(Seq(hot, others), _.recentRows == 0)
    (hot.iterator ++ others.iterator).foreach(_.recentRows = 0)
    entries
  }

  /** Takes entries out of tables. Those of like keys are neighbours, so they compress better. */
  private def remove(tables: Seq[StateTable], leaves: Entry => Boolean): Seq[Entry] = {
    val entries = tables.flatMap(_.remove(leaves)).toArray
    entries.foreach(entry => entry.prefix = keyOf.groups.prefix(entry.group))
    java.util.Arrays.sort(entries, Comparator.comparingLong[Entry](_.prefix))
    entries.foreach(entry => memory.give(entry.bytes))
    if (size > 0) {
      val left = entries.map(entry => singleBytes + entry.rows * addedPerRow).sum
      grownBytes = math.max(0L, grownBytes - left)
    } else {
      memory.give(takenBytes)
      takenBytes = 0
      grownBytes = 0
    }
    entries.toSeq
  }
}

private[local] object HeldStates {

  /** The bytes of the Java objects of a key and its state, beside the bytes of their values. */
  private val ObjectBytes = 160L

  /** The bytes of heap that a state takes for each byte that it has when it is sent. */
  private val HeapBytes = 2L
}
