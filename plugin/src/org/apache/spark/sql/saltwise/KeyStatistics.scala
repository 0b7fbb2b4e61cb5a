package org.apache.spark.sql.saltwise

/**
 * What is known of the keys of an aggregate, before it runs.
 *
 * @param rows     rows that the aggregate reads, about
 * @param tasks    map tasks that read them: the sources
 * @param head     shares of the keys that were seen often enough to have one, each of all rows
 * @param tailKeys how many other keys there are, about; they are taken for equal
 * @param source   where this comes from, in words
 */
final case class KeyStatistics(rows: Double, tasks: Int, head: Array[Double], tailKeys: Double, source: String) {

  private val tail = math.max(0.0, 1 - head.sum)

  /** Rows of one map task. */
  def taskRows: Double = math.max(1.0, rows / tasks)

  /** How many keys so many rows have, in expectation. */
  def keysAmong(rows: Double): Double =
    head.map(share => 1 - math.exp(rows * math.log1p(-math.min(share, 1 - 1e-9)))).sum +
      (if (tailKeys > 0) tailKeys * -math.expm1(-tail * rows / tailKeys) else 0)

  /** The keys of at least this share: how many, and their share together. */
  def above(share: Double): (Double, Double) = {
    val keys = head.filter(_ >= share)
    if (tailKeys > 0 && tail / tailKeys >= share) (keys.length + tailKeys, keys.sum + tail) else (keys.length, keys.sum)
  }

  override def toString: String = {
    val keys = head.length + tailKeys
    f"$source: about ${math.round(rows)}%,d rows in $tasks tasks, ${math.round(keys)}%,d keys" +
      head.headOption.map(share => f", one with ${share * 100}%.1f%%").getOrElse("")
  }
}

object KeyStatistics {

  /** Rows of a key in a sample from which its share is taken for known. */
  private val SeenOften = 4

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
    KeyStatistics(
      rows, tasks, often.map(_.toDouble / hashes.length).sorted(Ordering[Double].reverse), total, source)
  }
}
