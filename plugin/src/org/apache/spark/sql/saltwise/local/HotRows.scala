package org.apache.spark.sql.saltwise.local

/**
 * Finds keys that come often among rows that do not wait. Each slot holds one key and a count: a
 * row of this key adds one, another row takes one away (Boyer and Moore's majority vote, in each
 * slot). So a key with a larger share than all others of its slot is found.
 */
private[local] final class HotRows {
  import HotRows._

  private val hashes = new Array[Long](Slots)
  private val counts = new Array[Int](Slots)

  /** Counts a row whose key has this hash, and returns whether the key has so many rows. */
  def see(hash: Long, least: Int): Boolean = {
    val slot = (hash >>> 32).toInt & (Slots - 1)
    // Where no key is hot, each second row takes a slot. Nobody could predict a branch, so the
    // slot is written in any case.
    val known = hashes(slot)
    val left = counts(slot) + (if (known == hash) 1 else -1)
    hashes(slot) = if (left < 0) hash else known
    counts(slot) = if (left < 0) 1 else left
    val isHot = left >= least && known == hash
    if (isHot) counts(slot) = 0
    isHot
  }
}

private[local] object HotRows {
  private val Slots = 1 << 10
}
