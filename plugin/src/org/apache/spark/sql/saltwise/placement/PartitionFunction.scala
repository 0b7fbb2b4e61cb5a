package org.apache.spark.sql.saltwise.placement

import java.nio.charset.StandardCharsets.US_ASCII
import java.util.{Arrays, LinkedHashMap, Map => JavaMap}
import java.util.zip.CRC32

import scala.jdk.CollectionConverters._
import scala.util.Try
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.saltwise.SaltwiseException
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
 * Replica r of worker w is at the place that F_1 and F_2 of 2^32 w + r make, 31 bits each. Where
 * there are very many workers, each has fewer replicas than it says.
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
  /** So many replicas have all workers together at most: a thousand for each of a thousand. */
  private val MaxRing = 1000000

  /** So many rings are kept. */
  private val MaxRings = 4

  private final class Ring(val places: Array[Long], val owners: Array[Int])

  /** By workers and replicas, those that were used last. All tasks of a stage share a ring. */
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
    // Where two replicas share a place, it belongs to the first one, which is written last.
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

/** A key belongs to the group that is its hash mod p. A table has the worker of each group. */
final case class KeyGroups(workers: Int, table: Seq[Int]) extends PartitionFunction {
  private val worker = table.toArray

  override def place(key: Long): Int = worker(Math.floorMod(key, worker.length.toLong).toInt)
}

/** Partition functions as JSON, version 1. function_json.py describes the format. */
object PartitionFunction {
  /** A function may come from a text that somebody else wrote, so its shuffle stays small. */
  val MaxWorkers = 100000

  private val Format = "saltwise partition function"

  /** @param keyType the SQL types of the key's columns, because the hash depends on them */
  final case class Saved(function: PartitionFunction, keyType: String)

  def keyType(keys: Seq[Expression]): String = keys.map(_.dataType.catalogString).mkString(", ")

  def toJson(function: PartitionFunction, keyType: String): String = {
    val (kind, fields) = function match {
      case _: UniformHash => ("uniform", "")
      case ring: ConsistentHash => ("consistent", s""", "replicas": ${replicas(ring)}""")
      case HashPair(explicit, others) =>
        val table = explicit.map { case (key, worker) => s""""$key": $worker""" }
        val json = table.mkString("{", ", ", "}")
        ("pair", s""", "replicas": ${replicas(others)}, "explicit": $json""")
      case KeyGroups(_, table) => ("groups", s""", "table": ${table.mkString("[", ", ", "]")}""")
    }
    val content = s"""{"format": "$Format", "version": 1, "kind": "$kind", """ +
      s""""key_type": "$keyType", "hash": "xxhash64", "workers": ${function.workers}$fields"""
    s"""$content, "crc32": ${checksum(new ObjectMapper().readTree(content + "}"))}}"""
  }

  private def replicas(function: PartitionFunction): Int = function match {
    case ConsistentHash(_, replicas) => replicas
    case _ => 0
  }

  /**
   * Reads a function.
   *
   * @throws SaltwiseException where the text is not a partition function, or is newer or damaged
   */
  def fromJson(text: String): Saved = {
    val json = try new ObjectMapper().readTree(text) catch {
      case NonFatal(_) => refuse("the text is not JSON")
    }
    if (json == null || json.path("format").asText != Format) {
      refuse("the text is JSON, but not a partition function")
    }
    if (json.path("version").asInt != 1) {
      refuse(s"the partition function has version ${json.path("version")}, " +
        "but this Saltwise reads version 1")
    }
    if (json.path("crc32").asLong(-1) != checksum(json)) {
      refuse("the partition function is damaged: its checksum does not match")
    }
    val workers = whole("workers", json.path("workers"), 1, MaxWorkers)
    def replicas = whole("replicas", json.path("replicas"), 0, Int.MaxValue)
    def others = if (replicas == 0) UniformHash(workers) else ConsistentHash(workers, replicas)
    def worker(of: String, node: JsonNode) = whole(s"the worker of $of", node, 0, workers - 1)
    val function = json.path("kind").asText match {
      case "uniform" => UniformHash(workers)
      case "consistent" => others
      case "pair" =>
        val explicit = json.path("explicit")
        val table = explicit.fieldNames.asScala.map { key =>
          val hash = Try(key.toLong).getOrElse(damaged(s"a key has the hash '$key'"))
          hash -> worker(s"the key of hash $key", explicit.get(key))
        }
        HashPair(table.toMap, others)
      case "groups" =>
        val table = json.path("table").asScala.map(worker("a key group", _)).toSeq
        if (table.isEmpty) damaged("there is no key group")
        KeyGroups(workers, table)
      case other =>
        refuse(s"the partition function is '$other'; it must be uniform, consistent, " +
          "pair or groups")
    }
    Saved(function, json.path("key_type").asText)
  }

  /** The CRC-32 of the text that Python's json.dumps writes with sorted keys. */
  private def checksum(json: JsonNode): Long = {
    def text(node: JsonNode): String = if (node.isArray) {
      node.asScala.map(text).mkString("[", ", ", "]")
    } else if (!node.isObject) node.toString else {
      node.fieldNames.asScala.toSeq.filter(_ != "crc32").sorted
        .map(name => s""""$name": ${text(node.get(name))}""").mkString("{", ", ", "}")
    }
    val crc = new CRC32
    crc.update(text(json).getBytes(US_ASCII))
    crc.getValue
  }

  private def whole(what: String, node: JsonNode, least: Int, most: Int): Int =
    if (node.isInt && node.asInt >= least && node.asInt <= most) node.asInt
    else damaged(s"$what is $node; it must be a whole number from $least to $most")

  private def damaged(why: String): Nothing = refuse(s"the partition function is damaged: $why")

  private def refuse(why: String): Nothing =
    throw new SaltwiseException(
      s"$why; give a text that to_json of saltwise.placement.function_json wrote.")
}
