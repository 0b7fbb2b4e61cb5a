package org.apache.spark.sql.saltwise.local

import java.util.{Arrays, Comparator}

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
 * until it has many more rows than each of them. Spark copies these samples each time, and
 * compresses them. Here all are sorted once, and compressed once.
 */
object QuantileMerge {

  /** @param digests at least one, all with the same relative error */
  def apply(digests: Seq[PercentileDigest]): PercentileDigest =
    digests.iterator.map(_.quantileSummaries).filter(_.count > 0).toIndexedSeq match {
      case Seq() => digests.head
      case Seq(one) => new PercentileDigest(one)
      case several =>
        val (error, rows) = (several.head.relativeError, several.map(_.count).sum)
        val samples = compressed(merged(several), 2 * error * rows)
        new PercentileDigest(new QuantileSummaries(
          several.head.compressThreshold, error, samples, rows, true))
    }

  /** All samples, in ascending order of their values. */
  private def merged(summaries: IndexedSeq[QuantileSummaries]): Array[Stats] = {
    val uncertainty = summaries.map(one => math.floor(2 * one.relativeError * one.count).toLong)
    val left = summaries.map(_.sampled.length).toArray
    val samples = left.indices.toArray.flatMap(i => summaries(i).sampled.map(Sample(_, i)))
    // The samples of a summary are sorted already, so this merges runs.
    val order: Comparator[Sample] = (a, b) => java.lang.Double.compare(a.stats.value, b.stats.value)
    Arrays.sort(samples, order)
    // The sum over the summaries that have samples on both sides of the current one.
    var uncertain = 0L
    samples.map { case Sample(sample, i) =>
      if (left(i) == summaries(i).sampled.length) uncertain += uncertainty(i)
      left(i) -= 1
      val delta = sample.delta + uncertain - uncertainty(i)
      if (left(i) == 0) uncertain -= uncertainty(i)
      sample.copy(delta = delta)
    }
  }

  /** A sample, and the number of its summary. */
  private final case class Sample(stats: Stats, summary: Int)

  /**
   * Joins neighbours where the joined sample stands for less than `maxRanks`. The smallest and the
   * largest value stay.
   */
  private def compressed(samples: Array[Stats], maxRanks: Double): Array[Stats] = {
    var joined = List(samples.last)
    for (i <- samples.length - 2 until 0 by -1) {
      val (sample, next) = (samples(i), joined.head)
      if (sample.g + next.g + next.delta >= maxRanks) joined ::= sample
      else joined = next.copy(g = next.g + sample.g) :: joined.tail
    }
    (if (samples.length > 1) samples.head :: joined else joined).toArray
  }
}
