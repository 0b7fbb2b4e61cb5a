package org.apache.spark.sql.saltwise.routing

/**
 * MINLOAD over a fixed set of candidates, mostly without a scan for each row.
 *
 * Loads only grow, so the smallest load that was seen stays a lower bound. The cursor moves to the
 * next candidate at that bound. Only a whole turn without one raises the bound. Ties are taken in
 * turn, beginning at `start`, so that sources with different starts do not all fill the same
 * worker first.
 */
final class LeastLoaded(load: Array[Long], candidates: Array[Int], start: Int) {
  private var cursor = Math.floorMod(start, candidates.length)
  private var lowerBound = 0L

  /** A candidate with the smallest load. */
  def next(): Int = {
    var i = cursor
    var least = Long.MaxValue
    var left = candidates.length
    while (left > 0 && least > lowerBound) {
      if (load(candidates(i)) < least) {
        least = load(candidates(i))
        cursor = i
      }
      i += 1
      if (i == candidates.length) i = 0
      left -= 1
    }
    lowerBound = least
    candidates(cursor)
  }
}
