package org.apache.spark.sql.saltwise.sketch

import org.apache.spark.sql.saltwise.SaltwiseException

import java.util.Arrays

/**
 * SpaceSaving: finds the keys that own most of a stream, in bounded memory (Metwally, Agrawal, El
 * Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams", ICDT 2005).
 *
 * A key is found by its 64-bit hash. A subclass that keeps whole items overrides `holdsCurrent`, so
 * that items with the same hash stay apart.
 *
 * After `total` rows, for every key with `count` and `error` on its counter:
 *
 *   count - error <= true count <= count,      error <= absent <= total / capacity
 *
 * A key without a counter was seen at most `absent` times. So every key whose share is at least
 * 1 / capacity has a counter. With capacity = 4 / theta, a key that counts as head
 * (count >= theta * total) has a share of at least 3/4 theta.
 *
 * The counters form a Stream-Summary that is updated lazily. Counters that were filed at the same
 * count form a bucket, oldest first, and the buckets form a list in ascending order. A row of a key
 * with a counter adds to its count, and the counter stays where it was filed. The lowest count is
 * needed only when a new key takes over a counter. Then counters that have grown are filed again,
 * from the lowest bucket upwards, until the oldest counter of the lowest bucket has not grown.
 * Filing a counter passes at most one bucket for each row that it counted since it was last filed,
 * so the amortised cost of a row is O(1). A counter takes about 50 bytes, and memory grows with the
 * keys that were seen.
 */
class SpaceSaving(val capacity: Int) {
  import SpaceSaving.Nil

  private var room = math.min(capacity, 16)

  // By counter.
  private var hashes = new Array[Long](room)
  private var counts = new Array[Long](room)
  private var errors = new Array[Long](room)
  private var bucketOf = new Array[Int](room)
  private var newer = new Array[Int](room)
  private var older = new Array[Int](room)

  // By bucket. There are at most as many buckets as counters, plus one while a counter moves.
  private var levels = new Array[Long](room + 1)
  private var oldest = new Array[Int](room + 1)
  private var newest = new Array[Int](room + 1)
  private var above = new Array[Int](room + 1)
  private var below = new Array[Int](room + 1)
  private var lowest = Nil
  private var highest = Nil
  private var unused = Nil // a list through `above`
  private var buckets = 0

  // From hash to counter + 1. Open addressing with linear probing, at most a quarter full.
  private var index = new Array[Int](SpaceSaving.indexSize(room))

  private var rows = 0L
  private var counters = 0
  private var unseen = 0L

  /** Rows (or their weights) offered so far. */
  def total: Long = rows

  /** Counters in use. */
  def size: Int = counters

  /** The most rows that a key without a counter may have: the lowest count. O(size). */
  def absent: Long = if (counters < capacity) unseen else {
    var least = counts(0)
    var counter = 1
    while (counter < counters) {
      least = math.min(least, counts(counter))
      counter += 1
    }
    least
  }

  def hash(counter: Int): Long = hashes(counter)
  def count(counter: Int): Long = counts(counter)
  def error(counter: Int): Long = errors(counter)

  /** Whether `counter` holds the current item. Called only if the hashes are equal. */
  protected def holdsCurrent(counter: Int): Boolean = true

  /** Called when `counter` is given to the current item. */
  protected def storeCurrent(counter: Int): Unit = ()

  /** Counts `weight` rows, at least 1, of the key with this hash; returns the key's counter. */
  final def offer(hash: Long, weight: Long = 1): Int = {
    rows += weight
    if (rows < 0) {
      throw new SaltwiseException(
        "the sum of the weights is more than a BIGINT holds; give smaller weights.")
    }
    val known = find(hash)
    if (known != Nil) {
      counts(known) += weight
      known
    } else {
      val counter =
        if (counters < capacity) newCounter(hash, unseen + weight, unseen, Nil)
        else replaceLowest(hash, weight)
      storeCurrent(counter)
      counter
    }
  }

  /** Counts rows whose keys get no counter. */
  final def pass(weight: Long): Unit = rows += weight

  /** The counter of the key with this hash, or -1. */
  final def find(hash: Long): Int = {
    var i = home(hash)
    var entry = index(i)
    while (entry != 0) {
      if (hashes(entry - 1) == hash && holdsCurrent(entry - 1)) return entry - 1
      i = (i + 1) & (index.length - 1)
      entry = index(i)
    }
    Nil
  }

  /**
   * Adds a stored counter. To fill an empty summary, call this for all counters in ascending order
   * of their counts, then call `restore`.
   */
  protected final def append(hash: Long, count: Long, error: Long): Int = {
    val under = if (highest != Nil && levels(highest) == count) below(highest) else highest
    newCounter(hash, count, error, under)
  }

  protected final def restore(total: Long, absent: Long): Unit = {
    rows = total
    unseen = absent
  }

  /** Forgets everything. */
  protected final def clear(): Unit = {
    counters = 0
    buckets = 0
    rows = 0
    unseen = 0
    lowest = Nil
    highest = Nil
    unused = Nil
    Arrays.fill(index, 0)
  }

  private def newCounter(hash: Long, count: Long, error: Long, under: Int): Int = {
    if (counters == room) grow()
    val counter = counters
    counters += 1
    hashes(counter) = hash
    counts(counter) = count
    errors(counter) = error
    index(freeIndex(hash)) = counter + 1
    file(counter, under)
    counter
  }

  /** Gives the oldest counter of the lowest count to a new key. */
  private def replaceLowest(hash: Long, weight: Long): Int = {
    var counter = oldest(lowest)
    while (counts(counter) > levels(lowest)) {
      file(counter, unfile(counter))
      counter = oldest(lowest)
    }
    unindex(counter)
    hashes(counter) = hash
    index(freeIndex(hash)) = counter + 1
    errors(counter) = counts(counter)
    counts(counter) += weight
    file(counter, unfile(counter))
    counter
  }

  /** Appends a counter to the bucket of its count, which is above `start` (Nil: anywhere). */
  private def file(counter: Int, start: Int): Unit = {
    val level = counts(counter)
    var under = start
    var next = if (under == Nil) lowest else above(under)
    while (next != Nil && levels(next) < level) {
      under = next
      next = above(next)
    }
    val bucket = if (next != Nil && levels(next) == level) next else newBucket(level, under, next)
    bucketOf(counter) = bucket
    newer(counter) = Nil
    older(counter) = newest(bucket)
    if (newest(bucket) == Nil) oldest(bucket) = counter else newer(newest(bucket)) = counter
    newest(bucket) = counter
  }

  /** Takes a counter out of its bucket; returns a bucket that is below its new place. */
  private def unfile(counter: Int): Int = {
    val bucket = bucketOf(counter)
    val before = older(counter)
    val after = newer(counter)
    if (before == Nil) oldest(bucket) = after else newer(before) = after
    if (after == Nil) newest(bucket) = before else older(after) = before
    if (oldest(bucket) == Nil) dropBucket(bucket) else bucket
  }

  private def newBucket(level: Long, under: Int, over: Int): Int = {
    val bucket = if (unused != Nil) {
      val free = unused
      unused = above(free)
      free
    } else {
      buckets += 1
      buckets - 1
    }
    levels(bucket) = level
    oldest(bucket) = Nil
    newest(bucket) = Nil
    join(under, bucket)
    join(bucket, over)
    bucket
  }

  /** Returns the bucket below the dropped one. */
  private def dropBucket(bucket: Int): Int = {
    val under = below(bucket)
    join(under, above(bucket))
    above(bucket) = unused
    unused = bucket
    under
  }

  /** Makes `over` the bucket right above `under`. Nil stands for the end of the list. */
  private def join(under: Int, over: Int): Unit = {
    if (under == Nil) lowest = over else above(under) = over
    if (over == Nil) highest = under else below(over) = under
  }

  private def home(hash: Long): Int = (hash ^ (hash >>> 32)).toInt & (index.length - 1)

  private def freeIndex(hash: Long): Int = {
    var i = home(hash)
    while (index(i) != 0) i = (i + 1) & (index.length - 1)
    i
  }

  /** Removes a counter from the index and closes the gap (Knuth, volume 3, 6.4, algorithm R). */
  private def unindex(counter: Int): Unit = {
    val mask = index.length - 1
    var gap = home(hashes(counter))
    while (index(gap) != counter + 1) gap = (gap + 1) & mask
    var i = (gap + 1) & mask
    while (index(i) != 0) {
      val distance = (i - home(hashes(index(i) - 1))) & mask
      if (distance >= ((i - gap) & mask)) {
        index(gap) = index(i)
        gap = i
      }
      i = (i + 1) & mask
    }
    index(gap) = 0
  }

  private def grow(): Unit = {
    room = math.min(capacity.toLong, room * 2L).toInt
    hashes = Arrays.copyOf(hashes, room)
    counts = Arrays.copyOf(counts, room)
    errors = Arrays.copyOf(errors, room)
    bucketOf = Arrays.copyOf(bucketOf, room)
    newer = Arrays.copyOf(newer, room)
    older = Arrays.copyOf(older, room)
    levels = Arrays.copyOf(levels, room + 1)
    oldest = Arrays.copyOf(oldest, room + 1)
    newest = Arrays.copyOf(newest, room + 1)
    above = Arrays.copyOf(above, room + 1)
    below = Arrays.copyOf(below, room + 1)
    index = new Array[Int](SpaceSaving.indexSize(room))
    var counter = 0
    while (counter < counters) {
      index(freeIndex(hashes(counter))) = counter + 1
      counter += 1
    }
  }
}

object SpaceSaving {
  private final val Nil = -1

  private def indexSize(room: Int): Int = Integer.highestOneBit(math.max(2, room)) * 8
}
