package org.apache.spark.sql.saltwise.placement

import java.nio.charset.StandardCharsets.US_ASCII
import java.util.zip.CRC32

import scala.jdk.CollectionConverters._
import scala.util.Try
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.saltwise.SaltwiseException

/**
 * A partition function with the SQL types of the key's columns, because the hash depends on them.
 */
final case class SavedFunction(function: PartitionFunction, keyType: String)

/** Partition functions as JSON, version 1. function_json.py describes the format. */
object PartitionFunctionJson {
  private val Format = "saltwise partition function"

  def keyType(keys: Seq[Expression]): String = keys.map(_.dataType.catalogString).mkString(", ")

  def write(function: PartitionFunction, keyType: String): String = {
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
      s""""key_type": ${quoted(keyType)}, "hash": "xxhash64", """ +
      s""""workers": ${function.workers}$fields"""
    s"""$content, "crc32": ${checksum(new ObjectMapper().readTree(content + "}"))}}"""
  }

  /** The text as Python's json.dumps writes it, in ASCII. */
  private def quoted(text: String): String = text.map {
    case '"' => "\\\""
    case '\\' => "\\\\"
    case '\n' => "\\n"
    case '\r' => "\\r"
    case '\t' => "\\t"
    case '\f' => "\\f"
    case '\b' => "\\b"
    case char if char < ' ' || char >= 0x7F => f"\\u${char.toInt}%04x"
    case char => char.toString
  }.mkString("\"", "", "\"")

  private def replicas(function: PartitionFunction): Int = function match {
    case ConsistentHash(_, replicas) => replicas
    case _ => 0
  }

  /**
   * Reads a function.
   *
   * @throws SaltwiseException if the text is not a partition function, or is newer or damaged
   */
  def read(text: String): SavedFunction = {
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
    val workers = whole("workers", json.path("workers"), 1, PartitionFunction.MaxWorkers)
    def replicas = whole("replicas", json.path("replicas"), 0, Int.MaxValue)
    def others = if (replicas == 0) UniformHash(workers) else ConsistentHash(workers, replicas)
    def worker(key: String, node: JsonNode) = whole(s"the worker of $key", node, 0, workers - 1)
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
    SavedFunction(function, json.path("key_type").asText)
  }

  /** The CRC-32 of the text that Python's json.dumps writes with sorted keys. */
  private def checksum(json: JsonNode): Long = {
    def text(node: JsonNode): String = if (node.isArray) {
      node.asScala.map(text).mkString("[", ", ", "]")
    } else if (node.isTextual) quoted(node.asText)
    else if (!node.isObject) node.toString
    else {
      node.fieldNames.asScala.toSeq.filter(_ != "crc32").sorted
        .map(name => s""""$name": ${text(node.get(name))}""").mkString("{", ", ", "}")
    }
    val crc = new CRC32
    crc.update(text(json).getBytes(US_ASCII))
    crc.getValue
  }

  private def whole(what: String, node: JsonNode, low: Int, high: Int): Int =
    if (node.isInt && node.asInt >= low && node.asInt <= high) node.asInt
    else damaged(s"$what is $node; it must be a whole number from $low to $high")

  private def damaged(why: String): Nothing = refuse(s"the partition function is damaged: $why")

  private def refuse(why: String): Nothing =
    throw new SaltwiseException(
      s"$why; give a text that to_json of saltwise.placement.function_json wrote.")
}
