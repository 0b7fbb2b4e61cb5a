package org.apache.spark.sql.saltwise.local

import org.apache.spark.sql.saltwise.local.StateCosts.Tenth

/**
 * What batches of each size would combine, learnt from a sample of keys.
 *
 * A key belongs to the sample if the low bits of its hash are zero. So a sampled key is seen at
 * every one of its rows, however far apart they are. Rows in a row could not tell this: of 9,000
 * keys that come in turn, 4,096 rows in a row are all distinct. (Distinct sampling: Gibbons, VLDB
 * 2001. Sampled reuse distances: Waldspurger et al., FAST 2015.)
 *
 * A level is a size of batches. At each level, the rows are cut into windows of this size, and the
 * rows of a sampled key in the current window are counted. With `minRows` rows or more, a window
 * would send one state for them. All levels learn at the same time.
 *
 * If the sample has too many keys, one more bit of their hashes must be zero.
 */
private[local] final class KeySample {
  import KeySample._

  /** The fewest rows of a key for which a state pays. */
  var minRows: Int = Int.MaxValue

  /** The rows that were seen, whether their keys are in the sample or not. */
  var rows = 0L

  private var mask = FirstMask
  private var keys = 0
  private val hashes = new Array[Long](Slots)
  // For each slot: the last row, and for each level the window of the last row, and the rows of the
  // key in this window. They are negative if they would be combined.
  private val lastRows = new Array[Long](Slots)
  private val windows = new Array[Int](Slots * Levels)
  private val counts = new Array[Int](Slots * Levels)

  // The windows that are open and those that have ended. For each level also what windows of the
  // level below sent of the same rows.
  private val open, closed, openBelow, closedBelow = Array.fill(Levels)(new Sums)
  private val whole = Array.fill(Levels)(0)
  // Sampled rows of keys that were new, and all sampled rows: since the last half-life, and in it.
  private var newRows, allRows, lastNewRows, lastAllRows = 0

  /** Counts a row whose key has this hash. */
  def see(hash: Long): Unit = {
    if ((hash & mask) == 0) count(hash | 1)
    rows += 1
    if ((rows & (size(0) - 1)) == 0) endWindows()
  }

  /**
   * What windows of a level would send of the rows that come now; None before the first one ended.
   *
   * Large windows end seldom, and keys may have changed since then. So of a large window only
   * counts what it sent less than the windows of the level below, of the same rows.
   */
  def of(level: Int): Option[Saved] = if (whole(level) == 0) None else {
    val below = if (level == 0) Saved(0, 0) else of(level - 1).get
    val (here, there) = (closed(level), closedBelow(level))
    val combined = below.combined + here.share(here.combined) - there.share(there.combined)
    val states = below.states + here.share(here.states) - there.share(there.states)
    Some(Saved(math.min(1.0, math.max(0.0, combined)), math.max(0.0, states)))
  }

  /** Whether a batch of all rows so far would combine hardly any, and the sample knows them. */
  def isHopeless: Boolean = (0 until Levels).find(size(_) > rows).exists { level =>
    val sums = open(level)
    sums.rows * (mask + 1) >= (1 - Tenth) * rows && sums.combined <= Tenth * sums.rows
  }

  /** The share of the rows of the last half-life whose keys had not been seen before. */
  def newShare: Double = lastNewRows.toDouble / math.max(1, lastAllRows)

  /** The same share of the half-life that goes on. */
  def newShareNow: Double = newRows.toDouble / math.max(1, allRows)

  /** An estimate of the number of keys so far. */
  def distinct: Double = keys.toDouble * (mask + 1)

  /** The share of rows for which the sample stands: about 1 if there are many keys. */
  def coverage: Double = lastAllRows * (mask + 1.0) / HalfLife

  private def count(hash: Long): Unit = {
    var slot = slotOf(hash)
    while (hashes(slot) != 0 && hashes(slot) != hash) slot = (slot + 1) & (Slots - 1)
    allRows += 1
    if (hashes(slot) != hash) {
      hashes(slot) = hash
      java.util.Arrays.fill(windows, slot * Levels, (slot + 1) * Levels, -1)
      keys += 1
      newRows += 1
    }
    lastRows(slot) = rows
    var level = 0
    while (level < Levels) {
      add(level, slot * Levels + level)
      level += 1
    }
    if (keys > MaxKeys) shrink()
  }

  private def add(level: Int, at: Int): Unit = {
    val window = (rows >>> bits(level)).toInt
    if (windows(at) != window) {
      windows(at) = window
      counts(at) = 0
    }
    val sums = open(level)
    sums.rows += 1
    if (counts(at) < 0) {
      counts(at) -= 1
      sums.combined += 1
    } else {
      counts(at) += 1
      if (counts(at) >= minRows) {
        sums.combined += counts(at)
        sums.states += 1
        counts(at) = -counts(at)
      }
    }
  }

  /** Ends the windows of each level that end with this row. What is longer ago counts less. */
  private def endWindows(): Unit = {
    var level = 0
    while (level < Levels && (rows & (size(level) - 1)) == 0) {
      val kept = math.pow(0.5, size(level).toDouble / HalfLife)
      closed(level).next(kept, open(level))
      closedBelow(level).next(kept, openBelow(level))
      if (level + 1 < Levels) openBelow(level + 1).next(1, open(level))
      openBelow(level).next(0, Nothing)
      open(level).next(0, Nothing)
      whole(level) += 1
      level += 1
    }
    if ((rows & (HalfLife - 1)) == 0) {
      lastNewRows = newRows
      lastAllRows = allRows
      newRows = 0
      allRows = 0
    }
  }

  /** Forgets keys that are gone, or else every second key. */
  private def shrink(): Unit = {
    val (olds, lasts) = (hashes.clone(), lastRows.clone())
    val (oldWindows, oldCounts) = (windows.clone(), counts.clone())
    val oldest = rows - size(Levels - 1)
    val stay = olds.indices.count(i => olds(i) != 0 && lasts(i) > oldest)
    if (stay > MaxKeys / 2) mask = 2 * mask + 1
    java.util.Arrays.fill(hashes, 0L)
    keys = 0
    for (i <- olds.indices if olds(i) != 0 && lasts(i) > oldest && (olds(i) & mask & ~1L) == 0) {
      var slot = slotOf(olds(i))
      while (hashes(slot) != 0) slot = (slot + 1) & (Slots - 1)
      hashes(slot) = olds(i)
      lastRows(slot) = lasts(i)
      System.arraycopy(oldWindows, i * Levels, windows, slot * Levels, Levels)
      System.arraycopy(oldCounts, i * Levels, counts, slot * Levels, Levels)
      keys += 1
    }
  }

  private def slotOf(hash: Long): Int = (hash >>> 40).toInt & (Slots - 1)
}

private[local] object KeySample {

  /** The rows that windows combine and the states that they send, as shares of all rows. */
  final case class Saved(combined: Double, states: Double)

  /** What windows of one size send, of the rows of sampled keys. */
  private final class Sums {
    var rows, combined, states = 0.0

    def share(part: Double): Double = part / math.max(1.0, rows)

    /** Adds other sums, after these have been multiplied. */
    def next(kept: Double, other: Sums): Unit = {
      rows = kept * rows + other.rows
      combined = kept * combined + other.combined
      states = kept * states + other.states
    }
  }

  private val Nothing = new Sums

  /** Batches of 2^12, 2^14, ..., 2^22 rows. */
  val Levels = 6
  def bits(level: Int): Int = 12 + 2 * level
  def size(level: Int): Long = 1L << bits(level)

  /** One key in 64. The lowest bit of a stored hash is set, because 0 is a free slot. */
  private val FirstMask = 63L
  private val MaxKeys = 1 << 12

  /** After so many rows of distinct keys it is full. Before, the task decides nothing. */
  val FullAfter: Int = MaxKeys * (FirstMask.toInt + 1)

  private val Slots = 2 * MaxKeys

  /** After this many rows, what was seen before counts half. */
  val HalfLife = 1L << 16
}
