package org.apache.spark.sql.saltwise.local

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/** A hash table of keys and their states, with open addressing. It grows, and empties at once. */
private[local] final class StateTable {
  import StateTable._

  private var slots = MinSlots
  private var hashes = new Array[Long](slots)
  private var entries = new Array[Entry](slots)

  /** The number of keys. */
  var size = 0

  /** The entry of a key, or null. */
  def find(hash: Long, key: UnsafeRow): Entry = {
    var slot = hash.toInt & (slots - 1)
    while (entries(slot) != null) {
      if (hashes(slot) == hash && entries(slot).key == key) return entries(slot)
      slot = (slot + 1) & (slots - 1)
    }
    null
  }

  /** Adds a key that the table does not have. */
  def add(hash: Long, entry: Entry): Unit = {
    if (2 * size >= slots) grow()
    put(hash, entry)
    size += 1
  }

  private def put(hash: Long, entry: Entry): Unit = {
    var slot = hash.toInt & (slots - 1)
    while (entries(slot) != null) slot = (slot + 1) & (slots - 1)
    hashes(slot) = hash
    entries(slot) = entry
  }

  private def grow(): Unit = {
    val (oldHashes, oldEntries) = (hashes, entries)
    slots *= 2
    hashes = new Array[Long](slots)
    entries = new Array[Entry](slots)
    for (i <- oldEntries.indices if oldEntries(i) != null) put(oldHashes(i), oldEntries(i))
  }

  /** The entries, in an order that is a function of the keys' hashes and their order of arrival. */
  def iterator: Iterator[Entry] = entries.iterator.filter(_ != null)

  /** Empties the table; returns what was in it. */
  def drain(): Iterator[Entry] = {
    val drained = entries
    slots = MinSlots
    hashes = new Array[Long](slots)
    entries = new Array[Entry](slots)
    size = 0
    drained.iterator.filter(_ != null)
  }
}

private[local] object StateTable {
  private val MinSlots = 1 << 8

  /** A key and its state, which stands for this many rows. */
  final class Entry(val key: UnsafeRow, val state: InternalRow) {
    var rows = 0
  }
}
