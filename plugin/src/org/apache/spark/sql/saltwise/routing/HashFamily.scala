package org.apache.spark.sql.saltwise.routing

import org.apache.spark.unsafe.hash.Murmur3_x86_32

/**
 * The hash functions F_1 ... F_d of the papers.
 *
 * A key is its 64-bit hash h, which is Spark's xxhash64 of the grouping columns. F_i(key) is
 * MurmurHash3 x86_32 of h (8 bytes, little endian) with seed i, modulo n. In Python:
 * `mmh3.hash(struct.pack("<q", h), i) % n`.
 */
object HashFamily {

  /** F_i(key), a worker in [0, n); i starts at 1. */
  def worker(key: Long, i: Int, n: Int): Int = Math.floorMod(Murmur3_x86_32.hashLong(key, i), n)

  /** The candidates F_1(key) ... F_d(key) in that order, without repetition: at most d workers. */
  def candidates(key: Long, d: Int, n: Int): Array[Int] = {
    val taken = new Array[Boolean](n)
    val workers = Array.newBuilder[Int]
    var i = 1
    while (i <= d) {
      val w = worker(key, i, n)
      if (!taken(w)) {
        taken(w) = true
        workers += w
      }
      i += 1
    }
    workers.result()
  }
}
