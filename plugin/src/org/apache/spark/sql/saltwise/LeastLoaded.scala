package org.apache.spark.sql.saltwise

/**
 * MINLOAD over a fixed set of candidates, without a scan for each row. Loads only grow, so the smallest load
 * that was seen stays a lower bound: the cursor walks on to the next candidate at that bound, and only a whole
 * turn without one raises it. Ties are taken in turn, from `start` on, so that sources that start at different
 * places do not all fill the same worker first.
 */
final class LeastLoaded(load: Array[Long], candidates: Array[Int], start: Int) {
  private var cursor = Math.floorMod(start, candidates.length)
  private var bound = 0L

  /** A candidate with the smallest load. */
  def next(): Int = {
    var left = candidates.length
    while (load(candidates(cursor)) > bound) {
      cursor += 1
      if (cursor == candidates.length) cursor = 0
      left -= 1
      if (left == 0) {
        bound = smallest()
        left = candidates.length
      }
    }
    candidates(cursor)
  }

  private def smallest(): Long = {
    var least = Long.MaxValue
    var i = 0
    while (i < candidates.length) {
      least = math.min(least, load(candidates(i)))
      i += 1
    }
    least
  }
}
