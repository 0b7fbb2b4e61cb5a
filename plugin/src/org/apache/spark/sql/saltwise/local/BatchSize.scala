package org.apache.spark.sql.saltwise.local

import org.apache.spark.sql.saltwise.local.KeySample.{size, Levels}

/**
 * How many rows wait in one map task before they are sent. It depends only on counts and bytes of
 * the task's own rows.
 *
 * A larger batch sends fewer states and fewer raw rows. It costs memory, and its rows are no longer
 * in the cache when they are combined. So the batch is the smallest one that sends at most a tenth
 * more than the best one. There is no batch if even the best one saves less than a tenth, which is
 * about what it costs to copy a row and to read it again.
 */
private[local] final class BatchSize(sample: KeySample) {
  import BatchSize._

  /** The most rows that wait: `None` of them, `All` for which there is memory, or a number. */
  var rows: Int = All

  /**
   * Chooses the size.
   *
   * @param maxRows the most rows for which there is memory
   */
  def choose(maxRows: Double, costs: StateCosts): Unit = {
    val levels = 0 until Levels
    val known = for {
      level <- levels if size(level) <= maxRows
      sums <- sample.of(level)
    } yield size(level).toInt -> costs.share(sums.rows, sums.combined, sums.states)
    val all = levels.find(size(_) > maxRows).flatMap(sample.of)
      .fold(shareOfAll(maxRows, costs))(sums =>
        costs.share(sums.rows, sums.combined, sums.states))
    val best = (all +: known.map(_._2)).min
    rows =
      if (sample.sampledRows < MinSampled) All
      else if (best > 1 - Tenth) None
      else known.collectFirst { case (n, share) if share <= (1 + Tenth) * best => n }.getOrElse(All)
  }

  /** The same for all of the memory, if new keys go on coming as they do, and old ones come back. */
  private def shareOfAll(maxRows: Double, costs: StateCosts): Double = {
    val keys = sample.distinct + sample.newShare * maxRows
    if (maxRows < costs.minRows * keys) 1 else costs.share(maxRows, maxRows, keys)
  }
}

private[local] object BatchSize {
  val None = 0
  val All: Int = Int.MaxValue

  private val Tenth = 0.1

  /** Fewer rows of sampled keys tell nothing. */
  private val MinSampled = 64
}
