package org.apache.spark.sql.saltwise

/** A key that is known to be hot before the query runs: the hash of the key, and its share of rows if known. */
final case class HotKey(hash: Long, share: Option[Double])

/**
 * Routing with state that was frozen on the driver: the hot keys are given, so nothing depends on the order of
 * rows. A hot key's row goes to one of the key's d candidates, chosen by row content and map partition; any
 * other row goes to F_1 of its key. A map task that runs again sends the same rows to the same workers in
 * whatever order it reads them, so the plan is exact under every retry and never makes Spark abort.
 *
 * Rows with equal content are interchangeable, so where a row is nothing but its key, a key's rows take its
 * candidates in turn, and the balance is perfect.
 */
final class HotKeyRouter(candidates: Map[Long, Array[Int]], n: Int, source: Int) {
  private val turn = new java.util.HashMap[Long, Int]
  private var hot = 0L

  def rows: Long = hot

  /**
   * @param key     hash of the row's key
   * @param content hash of the whole row, asked for hot keys only; None where a row is nothing but its key
   */
  def route(key: Long, content: Option[() => Long]): Int = candidates.get(key) match {
    case None => HashFamily.worker(key, 1, n)
    case Some(workers) =>
      hot += 1
      val i = content match {
        case Some(hash) => HashFamily.worker(hash() + source, 0, workers.length)
        case None =>
          val next = turn.getOrDefault(key, Math.floorMod(source, workers.length))
          turn.put(key, if (next + 1 == workers.length) 0 else next + 1)
          next
      }
      workers(i)
  }
}

object HotKeyRouter {

  /** The number of choices of hot keys: solved where all shares are known, else every worker. */
  def choices(hot: Seq[HotKey], n: Int, epsilon: Double): Int =
    if (hot.forall(_.share.isDefined)) {
      FindOptimalChoices(hot.map(_.share.get).sorted(Ordering[Double].reverse).toArray, n, epsilon)
    } else {
      n
    }

  /** The candidates of each hot key; d = n stands for every worker. */
  def candidates(hot: Seq[HotKey], d: Int, n: Int): Map[Long, Array[Int]] = hot.map { key =>
    key.hash -> (if (d >= n) Array.range(0, n) else HashFamily.candidates(key.hash, d, n))
  }.toMap
}
