package org.apache.spark.sql.saltwise.local

import org.apache.spark.sql.saltwise.local.KeySample.{size, Levels}
import org.apache.spark.sql.saltwise.local.StateCosts.{Never, Tenth}

/**
 * How many rows wait in one map task, and how long states stay. It depends only on counts and bytes
 * of the task's own rows, as the sample sees them.
 *
 * The larger a batch, the fewer states and raw rows are sent. So it is the smallest one that sends
 * at most a tenth more than the best one. No row waits if even the best batch saves less than a
 * tenth, which is about what it costs to copy a row and to read it again. Below a join it must save
 * two thirds, the work of adding a row to a state: the join may drop the row before it is added.
 */
private[local] final class BatchSize(sample: KeySample, belowJoin: Boolean) {
  import BatchSize._

  private val least = if (belowJoin) AddsRow else Tenth

  /** `None` if no row waits, `All` for which there is memory, or a number. */
  var rows: Int = All

  /** Whether states stay when a batch leaves, because rows of their keys come after it. */
  var statesStay = true

  /** Chooses before the sample knows enough: rows wait if some have keys that came before. */
  def guess(): Unit = {
    rows = if (sample.newShareNow > 1 - Tenth) None else All
    statesStay = rows == All
  }

  /**
   * Chooses the size.
   *
   * @param maxRows the most rows for which there is memory
   */
  def choose(maxRows: Double, costs: StateCosts): Unit =
    // If hardly a row is in the sample, few keys have nearly all of them.
    if (sample.coverage < Tenth) {
      rows = if (costs.minRows == Never) None else All
      statesStay = rows == All
    } else {
      val known = for (level <- 0 until Levels; saved <- sample.of(level))
        yield size(level) -> costs.share(saved.combined, saved.states)
      val (fit, larger) = known.partition { case (n, _) => n <= maxRows }
      val all = larger.headOption.fold(ifKeysComeBack(maxRows, costs)) { case (_, share) => share }
      val best = (all +: fit.map(_._2)).min
      val enough = fit.dropWhile { case (_, share) => share > (1 + Tenth) * best }
      rows =
        if (best > 1 - least) None
        else enough.headOption.fold(All) { case (n, _) => n.toInt }
      // The next larger batch tells whether keys come back, if it is known.
      statesStay = rows != None &&
        !(enough.length > 1 && enough(1)._2 > (1 - Hardly) * enough.head._2)
    }

  /** The share for all of the memory, if old keys come back, and new ones come as they did. */
  private def ifKeysComeBack(maxRows: Double, costs: StateCosts): Double = {
    val keys = sample.distinct + sample.newShare * maxRows
    if (maxRows < costs.minRows * keys) 1 else costs.share(1, keys / maxRows)
  }
}

private[local] object BatchSize {
  /**
   * The work of adding a row to a state, as a share of the cost of sending it. Sums of four rows a
   * key lose below a join, and sums of eight gain.
   */
  private val AddsRow = 2.0 / 3

  /** If the next larger batch saves less than this more, keys hardly come back after a batch. */
  private val Hardly = 0.02

  val None = 0
  val All: Int = Int.MaxValue
}
