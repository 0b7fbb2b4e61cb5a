package org.apache.spark.sql.saltwise.auto

import org.apache.spark.sql.saltwise.sketch.ItemSketch

/** A number of keys that each have about this share of all rows. */
final case class KeyClass(keys: Double, share: Double) {
  def totalShare: Double = keys * share
}

/**
 * What is known of the keys of an aggregate, before it runs.
 *
 * @param rows    the approximate number of rows that the aggregate reads
 * @param tasks   the number of map tasks that read them: the sources
 * @param classes all keys, the hottest first. A key that is known by itself is a class of one key.
 * @param source  where these statistics come from, in words
 */
final case class KeyStatistics(rows: Double, tasks: Int, classes: Seq[KeyClass], source: String) {

  /** Rows of one map task. */
  def taskRows: Double = math.max(1.0, rows / tasks)

  /** The expected number of keys in a random sample of `sampleRows` rows. */
  def keysAmong(sampleRows: Double): Double = {
    val logOfMissed = math.log1p(-math.min(sampleRows / math.max(1.0, rows), 1 - 1e-9))
    classes.map { keyClass =>
      keyClass.keys * -math.expm1(keyClass.share * rows * logOfMissed)
    }.sum
  }

  /** The keys with at least this share: their number, and the sum of their shares. */
  def above(share: Double): (Double, Double) = {
    val hot = classes.filter(_.share >= share)
    (hot.map(_.keys).sum, hot.map(_.totalShare).sum)
  }

  override def toString: String = {
    val hottest = classes.headOption.filter(_.keys == 1)
    val keys = math.round(classes.map(_.keys).sum)
    f"$source: about ${math.round(rows)}%,d rows in $tasks tasks, $keys%,d keys" +
      hottest.map(key => f", one with ${key.share * 100}%.1f%%").getOrElse("")
  }
}

object KeyStatistics {

  /** A key with at least this many rows in a sample has a known share. */
  private val RowsOfKnownKey = 4

  /** The number of classes of a tail. */
  private val TailClasses = 16

  private val SteepestTail = 4.0

  /** The powers by which the shares of a sample's tail may fall. */
  private val Powers = Seq.tabulate(9)(_ / 4.0)

  private val BisectionSteps = 30

  /**
   * The statistics of a sample. Keys with many rows in the sample are the head.
   *
   * The shares of the other keys are assumed to fall with a power of their rank, as in Zipf's law.
   * For each power, the number of keys is the one for which the expected number of different keys
   * in the sample is the observed number. Several powers are tried. The result uses the most likely
   * one, given how many keys the sample has once, twice and so on.
   */
  def ofSample(hashes: Array[Long], rows: Double, tasks: Int, source: String): KeyStatistics = {
    val counts = hashes.groupBy(identity).values.map(_.length).toArray
    val (headCounts, tailCounts) = counts.partition(_ >= RowsOfKnownKey)
    val head = headCounts.sorted(Ordering[Int].reverse)
      .map(count => KeyClass(1, count.toDouble / hashes.length))
    val tail = tailOfSample(tailCounts, head.length, hashes.length, rows)
    // Every key has at least one row.
    val atLeastOneRow = tail.map(keyClass => KeyClass(
      keys = math.min(keyClass.keys, keyClass.totalShare * rows),
      share = math.max(keyClass.share, 1 / rows)))
    KeyStatistics(rows, tasks, head.toSeq ++ atLeastOneRow, source)
  }

  /**
   * @param counts   the rows of each key of the tail in the sample
   * @param headKeys the number of hotter keys
   * @param sample   the rows of the sample
   * @param rows     all rows
   */
  private def tailOfSample(
      counts: Array[Int], headKeys: Int, sample: Int, rows: Double): Seq[KeyClass] = {
    val share = counts.sum.toDouble / sample
    val keysSeenTimes =
      Seq.tabulate(RowsOfKnownKey - 1)(i => counts.count(_ == i + 1).toDouble)

    def withPower(power: Double): Seq[KeyClass] = {
      var (few, many) = (counts.length.toDouble, math.max(rows, counts.length))
      for (_ <- 1 to BisectionSteps) {
        val keys = math.sqrt(few * many)
        val expected = expectedKeys(falling(power, headKeys, keys, share), sample).sum
        if (expected < counts.length) few = keys else many = keys
      }
      falling(power, headKeys, few, share)
    }

    def logLikelihood(tail: Seq[KeyClass]): Double =
      keysSeenTimes.zip(expectedKeys(tail, sample)).map { case (seen, mean) =>
        seen * math.log(math.max(mean, 1e-9)) - mean
      }.sum

    if (counts.isEmpty || sample >= rows) equal(counts.length, share)
    else Powers.map(withPower).maxBy(logLikelihood)
  }

  /** The expected number of keys that a sample has once, twice and so on (Poisson). */
  private def expectedKeys(classes: Seq[KeyClass], sample: Int): Seq[Double] =
    (1 until RowsOfKnownKey).map { times =>
      classes.map { keyClass =>
        val rows = keyClass.share * sample
        keyClass.keys * math.exp(-rows) * math.pow(rows, times) / (1 to times).product
      }.sum
    }

  /**
   * The statistics of a sketch of all rows. Keys whose count is mostly certain are the head, with
   * the certain part of their count.
   *
   * The shares of the other keys are assumed to fall with a power of their rank, as in Zipf's law.
   * Bisection finds the power for which the expected number of keys in a map task is `keysOfTask`.
   *
   * @param distinct   the number of keys of all rows
   * @param tasks      the number of map tasks that made the sketch
   * @param keysOfTask the mean number of keys in one of these tasks
   */
  def ofSketch(
      sketch: ItemSketch,
      distinct: Long,
      tasks: Int,
      keysOfTask: Double,
      source: String): KeyStatistics = {
    val head = sketch.top(sketch.size)
      .filter(i => sketch.error(i) < sketch.count(i) / 2)
      .map(i => (sketch.count(i) - sketch.error(i)).toDouble / sketch.total)
      .sorted(Ordering[Double].reverse)
    val tailKeys = math.max(0.0, distinct.toDouble - head.length)
    val tailShare = math.max(0.0, 1 - head.sum)

    def withPower(power: Double): KeyStatistics = {
      val tail = falling(power, head.length, tailKeys, tailShare)
      KeyStatistics(sketch.total.toDouble, tasks, head.map(KeyClass(1, _)) ++ tail, source)
    }

    var (flat, steep) = (0.0, SteepestTail)
    for (_ <- 1 to BisectionSteps) {
      val power = (flat + steep) / 2
      val keys = withPower(power)
      if (keys.keysAmong(keys.taskRows) > keysOfTask) flat = power else steep = power
    }
    withPower(flat)
  }

  /** Keys with equal shares, where only their number and the sum of their shares is known. */
  def equal(keys: Double, totalShare: Double): Seq[KeyClass] =
    if (keys > 0) Seq(KeyClass(keys, totalShare / keys)) else Nil

  /** Keys whose shares fall with a power of their rank. `hotter` other keys rank before them. */
  private def falling(
      power: Double, hotter: Int, keys: Double, totalShare: Double): Seq[KeyClass] =
    if (keys < TailClasses) equal(keys, totalShare) else {
      val first = hotter + 1.0
      val ratio = (first + keys) / first
      val edges = (0 to TailClasses).map(i => first * math.pow(ratio, i.toDouble / TailClasses))
      val weights = edges.zip(edges.tail).map { case (from, to) =>
        if (math.abs(power - 1) < 1e-6) math.log(to / from)
        else (math.pow(to, 1 - power) - math.pow(from, 1 - power)) / (1 - power)
      }
      edges.zip(edges.tail).zip(weights).map { case ((from, to), weight) =>
        KeyClass(to - from, totalShare * weight / weights.sum / (to - from))
      }
    }
}
