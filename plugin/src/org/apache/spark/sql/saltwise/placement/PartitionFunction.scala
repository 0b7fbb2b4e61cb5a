package org.apache.spark.sql.saltwise.placement

import java.util.{Arrays, LinkedHashMap, Map => JavaMap}

import org.apache.spark.sql.saltwise.routing.HashFamily
import org.apache.spark.unsafe.hash.Murmur3_x86_32

/**
 * The worker that owns a key, as a function of the key's 64-bit hash (Gedik, "Partitioning
 * functions for stateful data parallelism in stream processing", VLDB Journal 2014). Equal to the
 * functions in Python (partition_function.py, consistent_hash.py, hash_pair.py, key_groups.py).
 */
sealed trait PartitionFunction {
  def workers: Int
  def place(key: Long): Int
}

/** F_1(key), as in key grouping. */
final case class UniformHash(workers: Int) extends PartitionFunction {
  override def place(key: Long): Int = HashFamily.worker(key, 1, workers)
}

/**
 * The worker whose replica comes next on a ring of 2^64 places, clockwise from the hash of the key.
 * F_1 and F_2 of 2^32 w + r, 31 bits each, give the place of replica r of worker w. If there are
 * very many workers, each has fewer than `replicas`.
 */
final case class ConsistentHash(workers: Int, replicas: Int) extends PartitionFunction {
  private val ring = ConsistentHash.ring(workers, replicas)

  override def place(key: Long): Int = {
    val point = key ^ Long.MinValue // so that signed comparison gives the unsigned order
    val next = ConsistentHash.firstFrom(ring.places, point)
    ring.owners(if (next == ring.places.length) 0 else next)
  }
}

object ConsistentHash {
  /** The most replicas of all workers together: a thousand for each of a thousand workers. */
  private val MaxRing = 1000000

  /** The most rings that are kept. */
  private val MaxRings = 4

  private final class Ring(val places: Array[Long], val owners: Array[Int])

  /** The rings that were used last, by workers and replicas. All tasks of a stage share a ring. */
  private val rings = new LinkedHashMap[(Int, Int), Ring](MaxRings, 0.75f, true) {
    override def removeEldestEntry(eldest: JavaMap.Entry[(Int, Int), Ring]): Boolean =
      size > MaxRings
  }

  private def ring(workers: Int, replicas: Int): Ring = rings.synchronized {
    rings.computeIfAbsent((workers, replicas), _ => {
      newRing(workers, math.min(replicas, MaxRing / workers))
    })
  }

  private def newRing(workers: Int, replicas: Int): Ring = {
    def place(i: Int): Long = {
      val name = (i / replicas).toLong << 32 | i % replicas
      def half(seed: Int): Long = Murmur3_x86_32.hashLong(name, seed) & Int.MaxValue
      (half(1) << 33 | half(2) << 2) ^ Long.MinValue
    }
    val places = new Array[Long](workers * replicas)
    for (i <- places.indices) places(i) = place(i)
    Arrays.sort(places)
    val owners = new Array[Int](places.length)
    // If two replicas share a place, it belongs to the first one, which is written last.
    for (i <- places.indices.reverse) owners(firstFrom(places, place(i))) = i / replicas
    new Ring(places, owners)
  }

  /** The index of the first place that is not below `point`. */
  private def firstFrom(places: Array[Long], point: Long): Int = {
    var low = 0 // no pair: that would be an object for each key
    var high = places.length
    while (low < high) {
      val middle = (low + high) >>> 1
      if (places(middle) < point) low = middle + 1 else high = middle
    }
    low
  }
}

/** The hash pair: a table with the workers of hot keys, and a function for all other keys. */
final case class HashPair(explicit: Map[Long, Int], others: PartitionFunction)
  extends PartitionFunction {
  override def workers: Int = others.workers
  override def place(key: Long): Int = explicit.getOrElse(key, others.place(key))
}

/**
 * A key belongs to the group with the number hash mod p. The table has the worker of each group.
 */
final case class KeyGroups(workers: Int, table: Seq[Int]) extends PartitionFunction {
  private val worker = table.toArray

  override def place(key: Long): Int = worker(Math.floorMod(key, worker.length.toLong).toInt)
}

object PartitionFunction {
  /** A limit, because a function may come from a text that somebody else wrote. */
  val MaxWorkers = 100000
}
