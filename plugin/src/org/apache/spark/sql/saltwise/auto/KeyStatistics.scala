package org.apache.spark.sql.saltwise.auto

import org.apache.spark.sql.saltwise.sketch.ItemSketch

/** So many keys, of which each has about this share of all rows. */
final case class KeyClass(keys: Double, share: Double)

/**
 * What is known of the keys of an aggregate, before it runs.
 *
 * @param rows    rows that the aggregate reads, about
 * @param tasks   map tasks that read them: the sources
 * @param classes all keys, the hottest first; those known one by one are classes of one
 * @param source  where this comes from, in words
 */
final case class KeyStatistics(rows: Double, tasks: Int, classes: Seq[KeyClass], source: String) {

  /** Rows of one map task. */
  def taskRows: Double = math.max(1.0, rows / tasks)

  /** How many keys so many of the rows have, in expectation: each row of a key is among them as often as any row. */
  def keysAmong(some: Double): Double = {
    val missed = math.log1p(-math.min(some / math.max(1.0, rows), 1 - 1e-9))
    classes.map(of => of.keys * -math.expm1(of.share * rows * missed)).sum
  }

  /** The keys of at least this share: how many, and their share together. */
  def above(share: Double): (Double, Double) = {
    val hot = classes.filter(_.share >= share)
    (hot.map(_.keys).sum, hot.map(of => of.keys * of.share).sum)
  }

  override def toString: String = {
    val hottest = classes.headOption.filter(_.keys == 1)
    f"$source: about ${math.round(rows)}%,d rows in $tasks tasks, ${math.round(classes.map(_.keys).sum)}%,d keys" +
      hottest.map(of => f", one with ${of.share * 100}%.1f%%").getOrElse("")
  }
}

object KeyStatistics {

  /** Rows of a key in a sample from which its share is taken for known. */
  private val SeenOften = 4

  /** Classes into which the keys of a tail are put. */
  private val TailClasses = 16

  private val SteepestTail = 4.0

  /** Powers by which the shares of a sample's tail may fall. */
  private val Powers = Seq.tabulate(9)(_ / 4.0)

  /**
   * From a sample: keys that were seen often are the head. The shares of the others are taken to fall with a power of
   * their rank, as in Zipf's law: of some powers with the one under which it is likeliest that as many keys are seen
   * once, twice and so on as were. For each power there are as many keys as let the sample see as many different ones.
   */
  def ofSample(hashes: Array[Long], rows: Double, tasks: Int, source: String): KeyStatistics = {
    val counts = hashes.groupBy(identity).values.map(_.length).toArray
    val (often, seldom) = counts.partition(_ >= SeenOften)
    val head = often.sorted(Ordering[Int].reverse).map(count => KeyClass(1, count.toDouble / hashes.length))
    val together = seldom.sum.toDouble / hashes.length
    val seen = Seq.tabulate(SeenOften - 1)(i => seldom.count(_ == i + 1).toDouble)
    def tail(power: Double): Seq[KeyClass] = {
      var (few, many) = (seldom.length.toDouble, math.max(rows, seldom.length))
      for (_ <- 1 to 30) {
        val keys = math.sqrt(few * many)
        if (expected(falling(power, head.length, keys, together), hashes.length).sum < seldom.length) few = keys
        else many = keys
      }
      falling(power, head.length, few, together)
    }
    def likelihood(tail: Seq[KeyClass]): Double =
      seen.zip(expected(tail, hashes.length)).map { case (found, mean) => found * math.log(math.max(mean, 1e-9)) - mean }.sum
    val others =
      if (seldom.isEmpty || hashes.length >= rows) equal(seldom.length, together) else Powers.map(tail).maxBy(likelihood)
    // A key has a row at least.
    KeyStatistics(rows, tasks, head.toSeq ++ others.map(of => of.copy(
      keys = math.min(of.keys, of.keys * of.share * rows), share = math.max(of.share, 1 / rows))), source)
  }

  /** How many of these keys a sample of so many rows has once, twice and so on, in expectation (Poisson). */
  private def expected(keys: Seq[KeyClass], sample: Int): Seq[Double] = (1 until SeenOften).map { times =>
    keys.map { of =>
      val rows = of.share * sample
      of.keys * math.exp(-rows) * math.pow(rows, times) / (1 to times).product
    }.sum
  }

  /**
   * From a sketch of all rows: keys whose count is mostly certain are the head, by what is certain of it. The shares of
   * the others are taken to fall with a power of their rank, as in Zipf's law: with that power, found by bisection, by
   * which a map task has as many keys as it had.
   *
   * @param distinct   keys of all rows
   * @param tasks      map tasks of the sketch
   * @param keysOfTask keys of one of them
   */
  def ofSketch(sketch: ItemSketch, distinct: Long, tasks: Int, keysOfTask: Double, source: String): KeyStatistics = {
    val head = sketch.top(sketch.size).filter(i => sketch.error(i) < sketch.count(i) / 2)
      .map(i => (sketch.count(i) - sketch.error(i)).toDouble / sketch.total).sorted(Ordering[Double].reverse)
    val (others, together) = (math.max(0.0, distinct.toDouble - head.length), math.max(0.0, 1 - head.sum))
    def fallingBy(power: Double): KeyStatistics = KeyStatistics(sketch.total.toDouble, tasks,
      head.map(KeyClass(1, _)) ++ falling(power, head.length, others, together), source)
    var (flat, steep) = (0.0, SteepestTail)
    for (_ <- 1 to 30) {
      val power = (flat + steep) / 2
      val keys = fallingBy(power)
      if (keys.keysAmong(keys.taskRows) > keysOfTask) flat = power else steep = power
    }
    fallingBy(flat)
  }

  /** Keys of which nothing is known but their number, and their share together. */
  def equal(keys: Double, together: Double): Seq[KeyClass] =
    if (keys > 0) Seq(KeyClass(keys, together / keys)) else Nil

  /** So many keys, after so many hotter ones, whose shares fall with a power of their rank. */
  private def falling(power: Double, hotter: Int, keys: Double, together: Double): Seq[KeyClass] =
    if (keys < TailClasses) equal(keys, together) else {
      val first = hotter + 1.0
      val edges = (0 to TailClasses).map(i => first * math.pow((first + keys) / first, i.toDouble / TailClasses))
      val weights = edges.zip(edges.tail).map { case (from, to) =>
        if (math.abs(power - 1) < 1e-6) math.log(to / from)
        else (math.pow(to, 1 - power) - math.pow(from, 1 - power)) / (1 - power)
      }
      edges.zip(edges.tail).zip(weights).map { case ((from, to), weight) =>
        KeyClass(to - from, together * weight / weights.sum / (to - from))
      }
    }
}
