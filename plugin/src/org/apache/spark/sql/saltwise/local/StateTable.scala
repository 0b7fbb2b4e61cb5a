package org.apache.spark.sql.saltwise.local

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/**
 * A hash table of the keys with many rows, and their states, with open addressing.
 *
 * @param capacity the most keys that the table takes. It may become less.
 */
private[local] final class StateTable(var capacity: Int) {
  import StateTable._

  private val slots = Integer.highestOneBit(4 * capacity - 1)
  private lazy val hashes = new Array[Long](slots)
  private lazy val entries = new Array[Entry](slots)

  /** The number of keys. */
  var size = 0

  /** The entry of a group, or null. */
  def find(hash: Long, group: UnsafeRow): Entry = {
    var slot = hash.toInt & (slots - 1)
    while (size > 0 && entries(slot) != null) {
      if (hashes(slot) == hash && entries(slot).group == group) return entries(slot)
      slot = (slot + 1) & (slots - 1)
    }
    null
  }

  /** Adds a group that the table does not have. */
  def add(hash: Long, entry: Entry): Unit = {
    var slot = hash.toInt & (slots - 1)
    while (entries(slot) != null) slot = (slot + 1) & (slots - 1)
    hashes(slot) = hash
    entries(slot) = entry
    size += 1
  }

  /** The entries, in an order that is a function of the keys' hashes and their order of arrival. */
  def iterator: Iterator[Entry] =
    if (size == 0) Iterator.empty else entries.iterator.filter(_ != null)

  /** Takes out the entries for which `leaves` holds, and returns them. */
  def remove(leaves: Entry => Boolean): Seq[Entry] = if (size == 0) Nil else {
    val all = entries.indices.filter(entries(_) != null).map(slot => (hashes(slot), entries(slot)))
    val (leaving, staying) = all.partition { case (_, entry) => leaves(entry) }
    if (leaving.nonEmpty) {
      java.util.Arrays.fill(entries.asInstanceOf[Array[AnyRef]], null)
      size = 0
      staying.foreach { case (hash, entry) => add(hash, entry) }
    }
    leaving.map(_._2)
  }
}

private[local] object StateTable {

  /**
   * A key and its state.
   *
   * @param group the same for all keys that Spark compares as equal
   */
  final class Entry(val key: UnsafeRow, val group: UnsafeRow, val state: InternalRow) {

    /** The rows that the state stands for, and those of them that came since the last look. */
    var rows = 0
    var recentRows = 0
  }
}
