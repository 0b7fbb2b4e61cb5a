package org.apache.spark.sql.saltwise.local

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/** A hash table of groups that have a state, with open addressing. */
private[local] final class StateTable(groups: GroupOfRow) {
  import StateTable._

  private var entries = new Array[Entry](MinSlots)

  /** The number of groups. */
  var size = 0

  def slots: Int = entries.length

  /** The entry of a row's group, or null. */
  def find(hash: Int, group: UnsafeRow): Entry = {
    val mask = entries.length - 1
    var slot = hash & mask
    var entry = entries(slot)
    while (entry != null && !(entry.hash == hash && groups.areSame(entry.group, group))) {
      slot = (slot + 1) & mask
      entry = entries(slot)
    }
    entry
  }

  /** Adds a group that the table does not have. */
  def add(entry: Entry): Unit = {
    if (2 * size >= entries.length) grow()
    put(entry)
    size += 1
  }

  private def put(entry: Entry): Unit = {
    val mask = entries.length - 1
    var slot = entry.hash & mask
    while (entries(slot) != null) slot = (slot + 1) & mask
    entries(slot) = entry
  }

  private def grow(): Unit = {
    val old = entries
    entries = new Array[Entry](2 * old.length)
    old.foreach(entry => if (entry != null) put(entry))
  }

  /** The entries, in an order that is a function of the keys' hashes and their order of arrival. */
  def iterator: Iterator[Entry] = entries.iterator.filter(_ != null)

  /** Takes out the entries for which `leaves` holds, and returns them. */
  def remove(leaves: Entry => Boolean): Seq[Entry] = {
    val leaving = new ArrayBuffer[Entry]
    val all = entries
    entries = new Array[Entry](all.length)
    size = 0
    all.foreach { entry =>
      if (entry != null) {
        if (leaves(entry)) leaving += entry else add(entry)
      }
    }
    leaving.toSeq
  }
}

private[local] object StateTable {

  /**
   * A key and its state.
   *
   * @param hash  32 bits of the group's hash
   * @param group the same for all keys that Spark compares as equal
   * @param bytes those of all objects, before the first row
   */
  final class Entry(
      val hash: Int,
      val key: UnsafeRow,
      val group: UnsafeRow,
      val state: InternalRow,
      val bytes: Long) {

    /** The rows that the state stands for, and those of them that came of late. */
    var rows = 0
    var recentRows = 0

    /** The first bytes of the group, by which states that leave are sorted. */
    var prefix = 0L
  }

  private val MinSlots = 1 << 6
}
