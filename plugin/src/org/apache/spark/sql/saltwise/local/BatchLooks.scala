package org.apache.spark.sql.saltwise.local

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.saltwise.local.KeySample.FullAfter
import org.apache.spark.sql.saltwise.local.StateCosts.{Never, Tenth}

/**
 * The looks of a map task at the rows that wait. At a look, the rows of a group are side by side:
 * rows whose group has a state are combined with it, and a group with enough rows gets one. Other
 * rows wait on.
 *
 * @param lists       whether each state, and each result, keeps all of its rows
 * @param decideAfter the rows after which the task decides how many wait
 */
private[local] final class BatchLooks(
    keyOf: KeyOfRow,
    partial: PartialStates,
    batch: RowBatch,
    states: HeldStates,
    sample: KeySample,
    batchSize: BatchSize,
    lists: Boolean,
    decideAfter: Int) {
  import BatchLooks._

  private val measured = new MeasuredStates(keyOf, partial)
  private val row = new UnsafeRow(keyOf.input.length)

  /** Keys that Spark would have in its own table of objects, before it sorts rows instead. */
  private val fewKeys = SQLConf.get.objectAggSortBasedFallbackThreshold

  /** What rows and states cost, as the last look found it; None before the first one. */
  var costs: Option[StateCosts] = None

  /** The fewest rows that get a state. */
  var minRows: Int = Never

  /** The number of waiting rows for which it is time to look. */
  var next: Int = First

  /**
   * Looks.
   *
   * @param leaves whether all rows leave
   * @param ended  whether these are the last rows of the task
   */
  def look(leaves: Boolean, ended: Boolean): Unit =
    if (leaves && batch.rows == sample.rows && costs.nonEmpty && sample.isHopeless) minRows = Never
    else {
      val before = batch.rows
      batch.sort()
      if (leaves || costs.isEmpty || sample.rows <= decideAfter) measure()
      sample.minRows = minRows
      costs.foreach(combine(_, ended))
      next = nextAfter(before)
    }

  /** When it is time again, after a look that found so many rows. */
  private def nextAfter(found: Int): Int =
    if (sample.rows < decideAfter) {
      // If hardly a row was combined, no other look is worth a sort before the first decision.
      if (batch.rows > (1 - Tenth) * found) decideAfter
      else math.min(decideAfter, math.max(First, 4 * batch.rows))
    } else if (costs.exists(_.statesGrow)) batchSize.rows
    else math.min(
      batchSize.rows, 2 * batch.rows + math.max(FullAfter, RowsOfState * states.others.size))

  private def measure(): Unit = {
    val found = measured.of(batch, fewKeys - states.hot.size)
    costs = Some(found.costs)
    states.measured(found.costs)
    minRows = found.costs.minRows
    // A list saves nothing, but those of hot keys are made here so that they do not meet as rows.
    val hotRows = math.max(HotShare, batch.rows / HotShare)
    if (minRows == Never && lists && found.largest >= hotRows) minRows = hotRows
  }

  /** Combines rows whose keys have states, or enough rows for one. */
  private def combine(costs: StateCosts, ended: Boolean): Unit = {
    val waiting = batch.rows
    val room =
      if (costs.statesGrow) fewKeys.toLong else math.max(fewKeys, states.fittingInto(CacheBytes))
    batch.removeRuns { (bucket, begin, end) =>
      val isHot = states.hot.size < room && 2 * room * (end - begin) >= waiting
      val stays = isHot || !costs.statesGrow && batchSize.statesStay
      val isNew = !ended && end - begin >= minRows && stays
      if (states.others.size == 0 && !isNew) 0 else {
        val hash = bucket.hash(begin)
        val first = bucket.read(begin, row)
        var entry = states.others.find(hash, keyOf.group(first))
        if (entry == null && isNew) {
          entry = states.add(if (isHot) states.hot else states.others, hash, first)
        }
        if (entry == null) 0 else {
          val rows = partial.addRun(entry.group, entry.state, bucket, begin, end)
          states.combined(entry, rows)
          rows
        }
      }
    }
  }
}

private[local] object BatchLooks {

  /** The rows before the first look. */
  val First: Int = KeySample.size(0).toInt

  /** A key is hot that has this part of the waiting rows. */
  val HotShare = 16

  /** The bytes of states that stay in the cache of a core. */
  private val CacheBytes = 1L << 18

  /** A state that is not in the cache is read once for about this many rows. */
  private val RowsOfState = 16
}
