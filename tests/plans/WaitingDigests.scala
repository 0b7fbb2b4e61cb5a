package org.apache.spark.sql.saltwise.local

import org.apache.spark.sql.catalyst.expressions.aggregate.ApproximatePercentile.PercentileDigest
import org.apache.spark.sql.saltwise.local.UpdateOrMergeTyped.{Digests, WaitingSamples}

/** What the reduce side of percentile_approx holds, for Python. */
object WaitingDigests {

  /** The most samples that wait, if each of so many keys gets so many digests of 1000 rows. */
  def most(keys: Int, digests: Int): Long = {
    val inTask = new WaitingSamples
    val all = Seq.fill(keys)(new Digests(digest(0), inTask))
    (0 until digests).map { _ =>
      all.map { one =>
        one.add(digest(1000))
        inTask.ofAllKeys
      }.max
    }.max
  }

  private def digest(rows: Int): PercentileDigest = {
    val made = new PercentileDigest(1.0 / 10000)
    (0 until rows).foreach(row => made.add(row.toDouble))
    made
  }
}
