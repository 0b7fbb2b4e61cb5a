package org.apache.spark.sql.saltwise.local

import scala.annotation.tailrec

import org.apache.spark.sql.catalyst.expressions.aggregate.ApproximatePercentile.PercentileDigest
import org.apache.spark.sql.catalyst.util.QuantileSummaries
import org.apache.spark.sql.catalyst.util.QuantileSummaries.Stats

/**
 * Merges any number of summaries of percentile_approx at once (Greenwald and Khanna,
 * "Space-Efficient Online Computation of Quantile Summaries", SIGMOD 2001).
 *
 * A sample stands for g ranks, and its own rank may be off by delta. The samples of all summaries
 * are sorted by their values. Among the n rows of another summary, the rank of a sample is known to
 * 2 epsilon n, so delta grows by that. Then neighbours are joined, as long as none stands for
 * 2 epsilon of all rows.
 *
 * Spark merges summaries one after the other. The merged summary keeps nearly all of their samples
 * until it has many more rows than each of them. Spark copies these samples each time, as objects,
 * and compresses them. Here summaries are merged in pairs, as arrays, and compressed once.
 */
object QuantileMerge {

  /** @param digests at least one, all with the same relative error */
  def apply(digests: Seq[PercentileDigest]): PercentileDigest = {
    val summaries = digests.map(_.quantileSummaries)
    summaries.filter(_.count > 0) match {
      case Seq() => digests.head
      case Seq(one) => new PercentileDigest(one)
      case several =>
        val error = several.head.relativeError
        val all = mergePairs(several.map(Samples.of))
        val samples = all.compressed(2 * error * all.rows)
        new PercentileDigest(new QuantileSummaries(
          several.head.compressThreshold, error, samples, all.rows, true))
    }
  }

  @tailrec
  private def mergePairs(all: Seq[Samples]): Samples =
    if (all.length == 1) all.head
    else mergePairs(all.grouped(2).map(_.reduceLeft(_ merge _)).toSeq)
}

/** The samples of one summary, in ascending order of their values. */
private final class Samples(
    private val values: Array[Double],
    private val ranks: Array[Long],
    private val deltas: Array[Long],
    val rows: Long,
    error: Double) {

  private def length = values.length

  private def uncertainty: Long = math.floor(2 * error * rows).toLong

  def merge(that: Samples): Samples = {
    val both = Samples.empty(length + that.length, rows + that.rows, error)
    var (i, j) = (0, 0)
    while (i + j < both.length) {
      val takeMine = j == that.length ||
        (i < length && java.lang.Double.compare(values(i), that.values(j)) < 0)
      if (takeMine) {
        both.put(i + j, this, i, if (0 < j && j < that.length) that.uncertainty else 0)
        i += 1
      } else {
        both.put(i + j, that, j, if (0 < i && i < length) uncertainty else 0)
        j += 1
      }
    }
    both
  }

  private def put(at: Int, from: Samples, sample: Int, addedDelta: Long): Unit = {
    values(at) = from.values(sample)
    ranks(at) = from.ranks(sample)
    deltas(at) = from.deltas(sample) + addedDelta
  }

  /**
   * Joins neighbours where the joined sample stands for less than `maxRanks`. The smallest and the
   * largest value stay.
   */
  def compressed(maxRanks: Double): Array[Stats] = {
    var kept = List.empty[Stats]
    var last = length - 1
    var joined = ranks(last)
    var i = last - 1
    while (i > 0) {
      if (ranks(i) + joined + deltas(last) < maxRanks) joined += ranks(i)
      else {
        kept ::= Stats(values(last), joined, deltas(last))
        last = i
        joined = ranks(i)
      }
      i -= 1
    }
    kept ::= Stats(values(last), joined, deltas(last))
    if (length > 1) kept ::= Stats(values(0), ranks(0), deltas(0))
    kept.toArray
  }
}

private object Samples {
  def empty(length: Int, rows: Long, error: Double): Samples =
    new Samples(
      new Array[Double](length), new Array[Long](length), new Array[Long](length), rows, error)

  def of(summaries: QuantileSummaries): Samples = {
    val samples = summaries.sampled
    new Samples(
      samples.map(_.value),
      samples.map(_.g),
      samples.map(_.delta),
      summaries.count,
      summaries.relativeError)
  }
}
