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
 * The result of `saltwise_analyze` for the keys of a table, with what shows later whether the table
 * has changed.
 *
 * It is stored as JSON, with a checksum of all other fields:
 * {{{
 *   {"format": "saltwise key statistics", "version": 1,
 *    "columns": [{"name": "user_id", "type": "bigint"}],
 *    "analyzed": "2026-11-21T15:40:00Z", "rows": 8000000, "distinct": 999123, "tasks": 16,
 *    "distinctOfTask": 250123, "bytes": 61234567, "files": 16, "newest": 1795275600000,
 *    "sketch": "U0FMVAE...", "crc32": 3172302873}
 * }}}
 *
 * @param columns        name and type of the key columns, sorted by name
 * @param analyzed       when the keys were analyzed
 * @param files          the files of the table at that time
 * @param distinct       the approximate number of different keys
 * @param tasks          the number of map tasks that read the rows
 * @param distinctOfTask the approximate mean number of different keys in one of these tasks
 * @param sketch         a sketch of the keys' 64-bit hashes. It counted all rows, and keeps the
 *                       hottest keys.
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
   * The statistics of the same table as it is now.
   *
   * @param columnsNow the key columns now
   * @param filesNow   the files of the table now
   * @param tasksNow   the number of map tasks that read the table now
   * @return why the statistics cannot be used any more, or the statistics
   */
  def now(
      columnsNow: Seq[(String, String)],
      filesNow: DataFiles,
      tasksNow: Int): Either[String, KeyStatistics] = {
    val bytes = math.max(1L, files.bytes)
    val changed = math.abs(filesNow.bytes - files.bytes).toDouble / bytes
    val howFilesChanged =
      if (changed < 0.005) "its files have changed"
      else if (filesNow.bytes > files.bytes) f"its files have grown by ${changed * 100}%.0f%%"
      else f"its files have shrunk by ${changed * 100}%.0f%%"
    if (columnsNow != columns) {
      Left(s"$this not used, since the types of its columns have changed")
    } else if (changed > MaxChange) {
      Left(s"$this not used, since $howFilesChanged")
    } else {
      val remark = if (filesNow == files) "" else s", though $howFilesChanged"
      val source = f"$this, $rows%,d rows" + remark
      val statistics =
        KeyStatistics.ofSketch(sketch, distinct, tasks, distinctOfTask.toDouble, source)
      Right(statistics.copy(rows = rows * filesNow.bytes.toDouble / bytes, tasks = tasksNow))
    }
  }

  def toJson: String = {
    val json = mapper.createObjectNode().put("format", Format).put("version", Version)
    val columnNodes = json.putArray("columns")
    columns.foreach { case (name, dataType) =>
      columnNodes.addObject().put("name", name).put("type", dataType)
    }
    json.put("analyzed", analyzed.toString)
      .put("rows", rows)
      .put("distinct", distinct)
      .put("tasks", tasks)
      .put("distinctOfTask", distinctOfTask)
      .put("bytes", files.bytes)
      .put("files", files.count)
      .put("newest", files.newest)
      .put("sketch", Base64.getEncoder.encodeToString(sketch.serialize()))
    json.put("crc32", checksum(json)).toString
  }

  override def toString: String = s"analyze of ${LocalDate.ofInstant(analyzed, ZoneOffset.UTC)}"
}

/** Key statistics are stored, but cannot be read. */
class KeyStatisticsException(message: String) extends SaltwiseException(message)

object AnalyzedKeys {
  private val Format = "saltwise key statistics"
  private val Version = 1
  private val mapper = new ObjectMapper()

  /** The statistics are not used once the files have changed by more than this share of bytes. */
  private val MaxChange = 0.2

  /** Name and type of a column, as they are stored. */
  def column(attribute: Attribute): (String, String) =
    (attribute.name, attribute.dataType.catalogString)

  /**
   * @throws KeyStatisticsException where the text is not key statistics, or is newer or damaged
   */
  def ofJson(text: String): AnalyzedKeys = {
    val json = try mapper.readTree(text) catch { case NonFatal(_) => refuse("are not JSON") }
    if (json == null || json.path("format").asText != Format) {
      refuse("were written by another program")
    }
    val version = json.path("version")
    if (version.asInt != Version) {
      refuse(s"have version ${version.asText}, but this Saltwise reads version $Version")
    }
    try {
      val storedChecksum = json.asInstanceOf[ObjectNode].remove("crc32")
      if (storedChecksum == null ||
          storedChecksum.asLong != checksum(json.asInstanceOf[ObjectNode])) {
        refuse("are damaged: their checksum does not match")
      }
      val sketch = ItemSketch.deserialize(Base64.getDecoder.decode(json.get("sketch").asText))
      val columns = json.get("columns").elements.asScala.map { column =>
        (column.get("name").asText, column.get("type").asText)
      }
      AnalyzedKeys(
        columns.toList,
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
 * @param newest the time of the last change to one of the files, in milliseconds since 1970
 */
final case class DataFiles(bytes: Long, count: Int, newest: Long)

object DataFiles {
  def of(relation: HadoopFsRelation): DataFiles = {
    val files = relation.location.listFiles(Nil, Nil).flatMap(_.files)
    val newest = files.map(_.getModificationTime).foldLeft(0L)(_.max(_))
    DataFiles(files.map(_.getLen).sum, files.length, newest)
  }
}
