package org.apache.spark.sql.saltwise.routing

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.saltwise.{Routing, SkewOptions}

/**
 * A key that is known to be hot before the query runs: its hash, and its share of rows if known.
 */
final case class HotKey(hash: Long, share: Option[Double])

/** What the driver decided: the candidates of each hot key, at most d (`choices`). */
final case class HotKeyPlan(candidates: Map[Long, Array[Int]], choices: Int, workers: Int)

/**
 * Routing with state that was frozen on the driver. The hot keys are given, so nothing depends on
 * the order of rows. A row of a hot key goes to one of the key's d candidates. The content of the
 * row ([[StableColumns]]) and the map partition choose which one. Any other row goes to F_1 of its
 * key. So a map task that runs again sends the same rows to the same workers, in whatever order it
 * reads them. It does not need [[RepeatableOrderExec]].
 *
 * If a row has no columns beside its key, the candidates take turns with its rows, and the balance
 * is perfect. This is safe because rows with equal bytes are interchangeable.
 *
 * @param contentHash hash of a row's stable columns; None if a row has no columns beside its key
 */
final class HotKeyRouter(
    plan: HotKeyPlan, source: Int, contentHash: Option[InternalRow => Long]) extends Router {
  private val nextTurn = new java.util.HashMap[UnsafeRow, Int]
  private var hotRows = 0L

  override def route(key: Long, row: InternalRow): Int = plan.candidates.get(key) match {
    case None => HashFamily.worker(key, 1, plan.workers)
    case Some(workers) =>
      hotRows += 1
      contentHash match {
        case Some(hash) => workers(HashFamily.worker(hash(row) + source, 0, workers.length))
        case None => workers(inTurn(row.asInstanceOf[UnsafeRow], workers.length))
      }
  }

  override def headRows: Long = hotRows
  override def headKeys: Int = plan.candidates.size
  override def choices: Int = plan.choices

  private def inTurn(row: UnsafeRow, n: Int): Int = {
    val isKnown = nextTurn.containsKey(row)
    val turn = if (isKnown) nextTurn.get(row) else Math.floorMod(source, n)
    nextTurn.put(if (isKnown) row else row.copy(), if (turn + 1 == n) 0 else turn + 1)
    turn
  }
}

object HotKeyRouter {

  /** The candidates of each hot key. The strategy decides how many. */
  def plan(hot: Seq[HotKey], options: SkewOptions): HotKeyPlan = {
    val n = options.workers
    val d = options.strategy match {
      case routing: Routing => routing.choicesOf(hot, n)
      case _ => n
    }
    val allWorkers = Array.range(0, n)
    val candidates = hot.map { key =>
      key.hash -> (if (d >= n) allWorkers else HashFamily.candidates(key.hash, d, n))
    }
    HotKeyPlan(candidates.toMap, d, n)
  }
}
