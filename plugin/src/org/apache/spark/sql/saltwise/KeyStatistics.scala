package org.apache.spark.sql.saltwise

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

  /**
   * From a sample: keys that were seen often are the head, and the number of the others is estimated from those
   * seen once and twice (Chao, "Nonparametric Estimation of the Number of Classes in a Population", 1984).
   */
  def ofSample(hashes: Array[Long], rows: Double, tasks: Int, source: String): KeyStatistics = {
    val counts = hashes.groupBy(identity).values.map(_.length).toArray
    val (often, seldom) = counts.partition(_ >= SeenOften)
    val (once, twice) = (seldom.count(_ == 1).toDouble, seldom.count(_ == 2).toDouble)
    val unseen = if (hashes.length >= rows) 0.0 else once * (once - 1) / (2 * (twice + 1))
    val total = math.min(seldom.length + unseen, math.max(rows, seldom.length))
    val head = often.sorted(Ordering[Int].reverse).map(count => KeyClass(1, count.toDouble / hashes.length))
    KeyStatistics(rows, tasks, head.toSeq ++ equal(total, seldom.sum.toDouble / hashes.length), source)
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
      head.map(KeyClass(1, _)) ++ falling(power, others, together), source)
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

  /** Keys whose shares fall with a power of their rank, from the first to the last. */
  private def falling(power: Double, keys: Double, together: Double): Seq[KeyClass] =
    if (keys < TailClasses) equal(keys, together) else {
      val edges = (0 to TailClasses).map(i => math.pow(keys + 1, i.toDouble / TailClasses))
      val weights = edges.zip(edges.tail).map { case (from, to) =>
        if (math.abs(power - 1) < 1e-6) math.log(to / from)
        else (math.pow(to, 1 - power) - math.pow(from, 1 - power)) / (1 - power)
      }
      edges.zip(edges.tail).zip(weights).map { case ((from, to), weight) =>
        KeyClass(to - from, together * weight / weights.sum / (to - from))
      }
    }
}
