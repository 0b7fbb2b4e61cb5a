package org.apache.spark.sql.saltwise.routing

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.saltwise.{Routing, SkewOptions}

/** A key that is known to be hot before the query runs: the hash of the key, and its share of rows if known. */
final case class HotKey(hash: Long, share: Option[Double])

/** Routing that was settled on the driver: the candidates of each hot key, at most d. */
final case class HotKeyPlan(candidates: Map[Long, Array[Int]], choices: Int, workers: Int)

/**
 * Routing with state that was frozen on the driver: the hot keys are given, so nothing depends on the order of
 * rows. A hot key's row goes to one of the key's d candidates, chosen by row content ([[StableColumns]]) and map
 * partition; any other row goes to F_1 of its key. A map task that runs again sends the same rows to the same workers in
 * whatever order it reads them, and needs no [[RepeatableOrderExec]] for that.
 *
 * Rows of equal bytes are interchangeable, so where a row is nothing but its key, equal rows take their candidates
 * in turn, and the balance is perfect.
 *
 * @param content hash of a row's stable columns; None where a row is nothing but its key
 */
final class HotKeyRouter(plan: HotKeyPlan, source: Int, content: Option[InternalRow => Long]) extends Router {
  private val turn = new java.util.HashMap[UnsafeRow, Int]
  private var hotRows = 0L

  override def route(key: Long, row: InternalRow): Int = plan.candidates.get(key) match {
    case None => HashFamily.worker(key, 1, plan.workers)
    case Some(workers) =>
      hotRows += 1
      content match {
        case Some(hash) => workers(HashFamily.worker(hash(row) + source, 0, workers.length))
        case None => workers(inTurn(row.asInstanceOf[UnsafeRow], workers.length))
      }
  }

  override def headRows: Long = hotRows
  override def headKeys: Int = plan.candidates.size
  override def choices: Int = plan.choices

  private def inTurn(row: UnsafeRow, n: Int): Int = {
    val known = turn.containsKey(row)
    val next = if (known) turn.get(row) else Math.floorMod(source, n)
    turn.put(if (known) row else row.copy(), if (next + 1 == n) 0 else next + 1)
    next
  }
}

object HotKeyRouter {

  /** The candidates of each hot key, as many as the strategy gives it. */
  def plan(hot: Seq[HotKey], options: SkewOptions): HotKeyPlan = {
    val n = options.workers
    val d = options.strategy match {
      case routing: Routing => routing.choicesOf(hot, n)
      case _ => n
    }
    val everyone = Array.range(0, n)
    val candidates = hot.map { key =>
      key.hash -> (if (d >= n) everyone else HashFamily.candidates(key.hash, d, n))
    }
    HotKeyPlan(candidates.toMap, d, n)
  }
}
