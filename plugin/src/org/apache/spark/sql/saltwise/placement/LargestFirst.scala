package org.apache.spark.sql.saltwise.placement

import scala.collection.mutable

/**
 * Largest first: the hottest key goes to the least loaded worker, then the next one (Graham, "Bounds on Multiprocessing
 * Timing Anomalies", SIAM J. Appl. Math. 1969). The same as largestfirst.py.
 */
object LargestFirst {

  /**
   * @param keys   hashes of the hot keys with the share of each, each one once
   * @param others where the other keys are, supposed to be spread evenly
   */
  def apply(keys: Seq[(Long, Double)], others: PartitionFunction): HashPair = {
    val idle = Seq.tabulate(others.workers)(worker => (0.0, worker))
    val lightest = mutable.PriorityQueue(idle: _*)(Ordering[(Double, Int)].reverse)
    val explicit = keys.sortBy { case (key, share) => (-share, key) }.map { case (key, share) =>
      val (load, worker) = lightest.dequeue()
      lightest.enqueue((load + share, worker))
      key -> worker
    }
    HashPair(explicit.toMap, others)
  }
}
