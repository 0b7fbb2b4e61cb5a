package org.apache.spark.sql.saltwise.local

import scala.annotation.tailrec

import org.apache.spark.sql.catalyst.expressions.aggregate.ApproximatePercentile.PercentileDigest
import org.apache.spark.sql.catalyst.util.QuantileSummaries
import org.apache.spark.sql.catalyst.util.QuantileSummaries.Stats

/**
 * Merges any number of percentile_approx's summaries at once (Greenwald and Khanna, "Space-Efficient Online Computation
 * of Quantile Summaries", SIGMOD 2001).
 *
 * A sample stands for g ranks, and its own rank may be off by delta. Samples of all summaries are put in the order of
 * their values; among n rows of another summary a sample's rank is known to 2 epsilon n, by which delta grows. Then
 * neighbours are put together, as long as none stands for 2 epsilon of all rows.
 *
 * Spark merges summaries one after the other, and what it merges them into keeps nearly all their samples until it has
 * many more rows than they: it copies these each time, as objects, and compresses them. Here they are merged by twos,
 * as arrays, and compressed once.
 */
object QuantileMerge {

  /** @param digests one or more, of one relative error */
  def apply(digests: Seq[PercentileDigest]): PercentileDigest = {
    val summaries = digests.map(_.quantileSummaries)
    summaries.filter(_.count > 0) match {
      case Seq() => digests.head
      case Seq(one) => new PercentileDigest(one)
      case some =>
        val (error, all) = (some.head.relativeError, byTwos(some.map(Samples.of)))
        new PercentileDigest(new QuantileSummaries(
          some.head.compressThreshold, error, all.compressed(2 * error * all.rows), all.rows, true))
    }
  }

  @tailrec
  private def byTwos(all: Seq[Samples]): Samples =
    if (all.length == 1) all.head else byTwos(all.grouped(2).map(_.reduceLeft(_ merge _)).toSeq)
}

/** The samples of so many rows, in ascending order of their values. */
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
      if (j == that.length || (i < length && java.lang.Double.compare(values(i), that.values(j)) < 0)) {
        both.put(i + j, this, i, if (0 < j && j < that.length) that.uncertainty else 0)
        i += 1
      } else {
        both.put(i + j, that, j, if (0 < i && i < length) uncertainty else 0)
        j += 1
      }
    }
    both
  }

  private def put(at: Int, from: Samples, sample: Int, more: Long): Unit = {
    values(at) = from.values(sample)
    ranks(at) = from.ranks(sample)
    deltas(at) = from.deltas(sample) + more
  }

  /** None stands for `most` ranks or more because another joined it. The least and the greatest value stay. */
  def compressed(most: Double): Array[Stats] = {
    var kept = List.empty[Stats]
    var last = length - 1
    var joined = ranks(last)
    var i = last - 1
    while (i > 0) {
      if (ranks(i) + joined + deltas(last) < most) joined += ranks(i)
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
    new Samples(new Array[Double](length), new Array[Long](length), new Array[Long](length), rows, error)

  def of(summaries: QuantileSummaries): Samples = {
    val samples = summaries.sampled
    new Samples(samples.map(_.value), samples.map(_.g), samples.map(_.delta), summaries.count, summaries.relativeError)
  }
}
