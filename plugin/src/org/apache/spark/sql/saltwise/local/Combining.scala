package org.apache.spark.sql.saltwise.local

import org.apache.spark.sql.saltwise.sketch.SetSpaceSaving

/**
 * Decides, in one map task, which keys get a state, from counts and bytes of its own rows alone. So
 * a task that runs again over the same rows in the same order does the same again.
 *
 * A state ''pays'' if it stands for at least four rows, and takes at most 0.8 of their bytes. There
 * are three ways, and a task looks back now and then to see which of them is best:
 *
 *  - ''all'': every key gets a state at its first row. Here a task begins, unless a state is large
 *    when it is empty.
 *  - ''head'': a key gets a state once a SpaceSaving summary is sure of so many rows of it that the
 *    state pays. Rows without a state leave raw. This is cheaper where most keys are rare.
 *  - ''raw'': rows leave without a look at them, except for one window in sixteen. Here it goes
 *    where hardly any row of a window is combined, or where no state pays.
 *
 * A key that has a state keeps it in each of the ways.
 *
 * @param counters the number of counters in the summary
 */
private[local] final class Combining(counters: Int) {
  import Combining._

  private var all = true
  private var minRows = MinRows
  private var minRowsAtFirst = MinRows

  // Since the task went this way: rows looked at and states begun, now and at the last look.
  private var rows = 0L
  private var states = 0L
  private var rowsBefore = 0L
  private var statesBefore = 0L
  private var growthBefore = 0L
  private var nextLook = FirstLook

  // In the current window: rows looked at, rows combined, states begun.
  private var windowRows = 0
  private var windowCombined = 0
  private var windowStates = 0

  private var summary: SetSpaceSaving = _

  /** How many of the next rows leave without a look at them. */
  var unseen = 0

  /** The rows that the task took in the way ''all'', and those that it took in the way ''head''. */
  var allRows = 0L
  var headRows = 0L

  /** @param sizes the size of the first row, and of a state before it */
  def begin(sizes: Sizes): Unit = {
    minRowsAtFirst = sizes.rowsThatPay
    beginAgain()
  }

  private def beginAgain(): Unit = {
    minRows = minRowsAtFirst
    go(toAll = minRows <= MaxRowsToBegin)
  }

  /** Whether a key without a state gets one at this row. */
  def admits(hash: Long): Boolean = {
    val admitted = all || summary.offer(hash) >= minRows
    if (admitted) {
      states += 1
      windowStates += 1
    }
    admitted
  }

  /** Counts a row that the task has looked at. Returns whether it is time to look back. */
  def seen(combined: Boolean): Boolean = {
    rows += 1
    windowRows += 1
    if (combined) windowCombined += 1
    if (all) allRows += 1 else headRows += 1
    windowRows == Window || rows == nextLook
  }

  /**
   * Looks back, and decides how to go on.
   *
   * @param sizes  measures the rows and states so far
   * @param counts the rows of each key that has a state
   */
  def look(sizes: => Sizes, counts: => Iterator[Int]): Unit = {
    val growth = states - statesBefore
    if (rows == nextLook) {
      minRows = sizes.rowsThatPay
      if (minRows == Never) {
        beginAgain()
        unseen = LongSleep
      } else if (all && (isHopeless(growth, rows - rowsBefore) || isDear(growth, counts))) {
        go(toAll = false)
      } else {
        rowsBefore = rows
        statesBefore = states
        growthBefore = growth
        nextLook *= 2
      }
    }
    if (windowRows == Window) {
      if (all && rows > Unsettled && isHopeless(windowStates, Window)) go(toAll = false)
      if (!all && windowCombined < MinCombined * Window) unseen = Sleep
      endWindow()
    }
  }

  /** Memory is full, and all states leave. `counts` has the rows of each of them. */
  def full(counts: Iterator[Int]): Unit = {
    if (all && headIsCheaper(counts)) go(toAll = false)
    // Otherwise a key that had a state would have one again at its next row.
    if (!all) summary.forget()
  }

  /** Nearly every row was the first one of its key. */
  private def isHopeless(states: Long, rows: Long): Boolean = states > Hopeless * rows

  /** Most keys are rare, and ever more of them come. */
  private def isDear(growth: Long, counts: => Iterator[Int]): Boolean =
    rows > Unsettled && growth > MinGrowth * growthBefore && headIsCheaper(counts)

  /**
   * Whether these keys would have cost less in the way ''head''. The unit is a raw row. A state
   * costs as much as the fewest rows for which it pays.
   */
  private def headIsCheaper(counts: Iterator[Int]): Boolean = {
    var inAll = 0.0
    var inHead = 0.0
    counts.foreach { rows =>
      inAll += minRows
      inHead += (if (rows < minRows) rows * (1 + Lookup) else 2.0 * minRows)
    }
    inHead < inAll
  }

  private def go(toAll: Boolean): Unit = {
    all = toAll
    rows = 0
    states = 0
    rowsBefore = 0
    statesBefore = 0
    growthBefore = 0
    nextLook = FirstLook
    endWindow()
    if (!all && summary == null) summary = new SetSpaceSaving(setsFor(counters))
  }

  private def endWindow(): Unit = {
    windowRows = 0
    windowCombined = 0
    windowStates = 0
  }
}

private[local] object Combining {

  /** A state pays from this many rows on: it costs about as much as four raw rows. */
  val MinRows = 4

  /** No number of rows is enough for a state to pay. */
  val Never: Int = Int.MaxValue

  /** A state pays if it takes at most this share of the bytes of its rows. */
  val MaxShare = 0.8

  /** Where a state pays only from more rows than this, keys do not get one at their first row. */
  private val MaxRowsToBegin = 32

  /** The task looks back after so many rows, then after twice as many, and so on. */
  private val FirstLook = 2048L

  /** Before so many rows, a set of some thousand keys looks as if it had no end. */
  private val Unsettled = 8192L

  /** The task also looks back at each window of so many rows. */
  private val Window = 8192

  /** So many rows leave unseen where a window combined less than this share. */
  private val Sleep = 15 * Window
  private val MinCombined = 0.02

  /** So many rows leave unseen where no state pays. */
  private val LongSleep = 1 << 18

  /** The share of first rows of a key among all rows. */
  private val Hopeless = 0.95

  /**
   * The number of keys grows as a power of the rows where their shares do, and so each interval
   * that is twice as long brings more new keys than the one before. In a fixed set of keys, they
   * become fewer.
   */
  private val MinGrowth = 1.2

  /** What the summary costs for a row, as a share of what a raw row costs. */
  private val Lookup = 0.2

  private def setsFor(counters: Int): Int = {
    val sets = math.max(1, (counters + 7) / 8)
    Integer.highestOneBit(2 * sets - 1)
  }

  /**
   * The mean sizes in bytes: of a raw row, of a state before its first row, and what each row adds
   * to a state.
   */
  final case class Sizes(row: Double, empty: Double, added: Double) {

    /** The fewest rows for which a state pays, or [[Never]]. */
    def rowsThatPay: Int = {
      val saved = MaxShare * row - added
      if (saved <= 0) Never else math.max(MinRows.toDouble, math.ceil(empty / saved)).toInt
    }
  }
}
