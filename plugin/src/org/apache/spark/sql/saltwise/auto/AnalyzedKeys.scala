package org.apache.spark.sql.saltwise.auto

import java.nio.charset.StandardCharsets.UTF_8
import java.time.{Instant, LocalDate, ZoneOffset}
import java.util.Base64
import java.util.zip.CRC32

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.databind.node.ObjectNode

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.datasources.HadoopFsRelation
import org.apache.spark.sql.saltwise.SaltwiseException
import org.apache.spark.sql.saltwise.sketch.ItemSketch

/**
 * What `saltwise_analyze` found of the keys of a table, and what tells later whether it still holds.
 *
 * The text that is kept of it is JSON, with a checksum of all else:
 * {{{
 *   {"format": "saltwise key statistics", "version": 1, "columns": [{"name": "user_id", "type": "bigint"}],
 *    "analyzed": "2026-11-21T15:40:00Z", "rows": 8000000, "distinct": 999123, "tasks": 16, "distinctOfTask": 250123,
 *    "bytes": 61234567, "files": 16, "newest": 1795275600000, "sketch": "U0FMVAE...", "crc32": 3172302873}
 * }}}
 *
 * @param columns  the key columns, name and type, by name
 * @param analyzed when
 * @param files    what the table consisted of
 * @param distinct different keys, about
 * @param tasks    map tasks that read the rows
 * @param distinctOfTask different keys of one of them, about, in the mean
 * @param sketch   of the keys' 64-bit hashes; it counted all rows, and keeps the hottest keys
 */
final case class AnalyzedKeys(
    columns: Seq[(String, String)],
    analyzed: Instant,
    files: DataFiles,
    distinct: Long,
    tasks: Int,
    distinctOfTask: Long,
    sketch: ItemSketch) {
  import AnalyzedKeys._

  def rows: Long = sketch.total

  /**
   * What it says of the same table now.
   *
   * @param tasks map tasks that read it now
   * @return why it says nothing any more, or the statistics
   */
  def now(columns: Seq[(String, String)], files: DataFiles, tasks: Int): Either[String, KeyStatistics] = {
    val changed = math.abs(files.bytes - this.files.bytes).toDouble / math.max(1L, this.files.bytes)
    val since =
      if (changed >= 0.005) f"its files have ${if (files.bytes > this.files.bytes) "grown" else "shrunk"} by ${changed * 100}%.0f%%"
      else "its files have changed"
    if (columns != this.columns) Left(s"$this not used, since the types of its columns have changed")
    else if (changed > MostChange) Left(s"$this not used, since $since")
    else Right(KeyStatistics.ofSketch(sketch, distinct, this.tasks, distinctOfTask.toDouble,
      f"$this, $rows%,d rows" + (if (files == this.files) "" else s", though $since")).copy(
        rows = rows * files.bytes.toDouble / math.max(1L, this.files.bytes), tasks = tasks))
  }

  def toJson: String = {
    val json = mapper.createObjectNode().put("format", Format).put("version", Version)
    val named = json.putArray("columns")
    columns.foreach { case (name, dataType) => named.addObject().put("name", name).put("type", dataType) }
    json.put("analyzed", analyzed.toString).put("rows", rows).put("distinct", distinct)
      .put("tasks", tasks).put("distinctOfTask", distinctOfTask).put("bytes", files.bytes).put("files", files.count).put("newest", files.newest)
      .put("sketch", Base64.getEncoder.encodeToString(sketch.serialize()))
    json.put("crc32", checksum(json)).toString
  }

  override def toString: String = s"analyze of ${LocalDate.ofInstant(analyzed, ZoneOffset.UTC)}"
}

/** Key statistics that are there and cannot be read. */
class KeyStatisticsException(message: String) extends SaltwiseException(message)

object AnalyzedKeys {
  private val Format = "saltwise key statistics"
  private val Version = 1
  private val mapper = new ObjectMapper()

  /** Statistics of a table that has changed by more, as a share of its bytes, are not used. */
  private val MostChange = 0.2

  /** A column as it is kept. */
  def column(attribute: Attribute): (String, String) = (attribute.name, attribute.dataType.catalogString)

  /** @throws KeyStatisticsException where the text says none, newer ones, or is damaged */
  def ofJson(text: String): AnalyzedKeys = {
    val json = try mapper.readTree(text) catch { case NonFatal(_) => refuse("are no JSON") }
    if (json == null || json.path("format").asText != Format) refuse("are of another program")
    if (json.path("version").asInt != Version) {
      refuse(s"have version ${json.path("version").asText}, and version $Version is read here")
    }
    try {
      val sum = json.asInstanceOf[ObjectNode].remove("crc32")
      if (sum == null || sum.asLong != checksum(json.asInstanceOf[ObjectNode])) {
        refuse("are damaged: their checksum does not match")
      }
      val sketch = ItemSketch.deserialize(Base64.getDecoder.decode(json.get("sketch").asText))
      AnalyzedKeys(
        json.get("columns").elements.asScala.map(column => (column.get("name").asText, column.get("type").asText)).toList,
        Instant.parse(json.get("analyzed").asText),
        DataFiles(json.get("bytes").asLong, json.get("files").asInt, json.get("newest").asLong),
        json.get("distinct").asLong,
        json.get("tasks").asInt,
        json.get("distinctOfTask").asLong,
        sketch)
    } catch {
      case e: KeyStatisticsException => throw e
      case NonFatal(e) => refuse(s"are damaged: ${e.getMessage}")
    }
  }

  private def checksum(json: ObjectNode): Long = {
    val crc = new CRC32
    crc.update(json.toString.getBytes(UTF_8))
    crc.getValue
  }

  private def refuse(why: String): Nothing = throw new KeyStatisticsException(why)
}

/**
 * The files of a table.
 *
 * @param newest time of the last change to one of them, in milliseconds since 1970
 */
final case class DataFiles(bytes: Long, count: Int, newest: Long)

object DataFiles {
  def of(relation: HadoopFsRelation): DataFiles = {
    val files = relation.location.listFiles(Nil, Nil).flatMap(_.files)
    DataFiles(files.map(_.getLen).sum, files.length, files.map(_.getModificationTime).foldLeft(0L)(_.max(_)))
  }
}
