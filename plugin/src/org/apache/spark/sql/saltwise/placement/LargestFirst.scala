package org.apache.spark.sql.saltwise.placement

import scala.collection.mutable

/**
 * Largest first: the hottest key goes to the least loaded worker, then the next key, and so on
 * (Graham, "Bounds on Multiprocessing Timing Anomalies", SIAM J. Appl. Math. 1969). Equal to
 * largest_first.py.
 */
object LargestFirst {

  /**
   * @param keys   hash and share of each hot key, each key once
   * @param others places the other keys, which are assumed to be spread evenly
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
