package org.apache.spark.sql.saltwise.sketch

/**
 * SpaceSaving in sets of eight counters: a key's hash names its set, and the key is found, added or
 * evicted within that set. So a row costs one or two cache lines, however many counters there are.
 *
 * Within a set the bounds of SpaceSaving hold: a count is at most its error above the truth, and an
 * error is at most the rows of the set's keys, divided by eight. Keys are 64-bit hashes.
 * (Metwally, Agrawal, El Abbadi: "Efficient Computation of Frequent and Top-k Elements in Data
 * Streams", Lemma 3.3 and Theorem 1, for each set by itself.)
 *
 * @param sets the number of sets, a power of two
 */
final class SetSpaceSaving(sets: Int) {
  import SetSpaceSaving.Ways

  private val hashes = new Array[Long](sets * Ways)
  private val counts = new Array[Int](sets * Ways)
  private val errors = new Array[Int](sets * Ways)

  /** Counts a row of a key. Returns how many rows of it were certainly seen, this one included. */
  def offer(hash: Long): Int = {
    val begin = ((hash ^ (hash >>> 29)).toInt & (sets - 1)) * Ways
    val end = begin + Ways
    var least = begin
    var i = begin
    while (i < end) {
      if (counts(i) == 0 || hashes(i) == hash) {
        hashes(i) = hash
        counts(i) += 1
        return counts(i) - errors(i)
      }
      if (counts(i) < counts(least)) least = i
      i += 1
    }
    hashes(least) = hash
    errors(least) = counts(least)
    counts(least) += 1
    1
  }

  /** No row seen so far is certain any more. */
  def forget(): Unit = System.arraycopy(counts, 0, errors, 0, counts.length)
}

object SetSpaceSaving {
  private val Ways = 8
}
