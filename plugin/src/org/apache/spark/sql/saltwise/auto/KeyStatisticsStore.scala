package org.apache.spark.sql.saltwise.auto

import java.io.{FileNotFoundException, IOException}
import java.nio.charset.StandardCharsets.UTF_8
import java.util.{EnumSet, UUID}

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{CreateFlag, FileContext, Options, Path}

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.expressions.XXH64
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.internal.SessionState
import org.apache.spark.sql.saltwise.SaltwiseException
import org.apache.spark.sql.saltwise.compat.SparkCompat
import org.apache.spark.unsafe.Platform

/** Where the key statistics of one table and one set of key columns are stored, as text. */
sealed trait KeyStatisticsStore {
  protected def text: Option[String]

  /** Replaces the stored text. Where this fails, the stored text stays. */
  def write(text: String): Unit

  /**
   * @return None where nothing is stored
   * @throws KeyStatisticsException where the stored text cannot be read; it says where the text is
   *                                and what is wrong
   */
  final def read(): Option[AnalyzedKeys] =
    try text.map(AnalyzedKeys.ofJson) catch {
      case e: KeyStatisticsException => refuse(e.getMessage)
      case e: IOException => refuse(s"cannot be read: ${e.getMessage}")
    }

  private def refuse(why: String): Nothing =
    throw new KeyStatisticsException(
      s"the key statistics in $this $why; delete them, and analyze the keys again.")
}

object KeyStatisticsStore {

  /** None where files of several paths were read, because these have no single place. */
  def of(
      relation: LogicalRelation,
      columns: Seq[String],
      state: SessionState): Option[KeyStatisticsStore] =
    (relation.catalogTable, relation.relation) match {
      case (Some(table), _) =>
        Some(TableProperty(table, s"saltwise.keys.${hashOf(columns)}", state))
      case (_, files: HadoopFsRelation) if files.location.rootPaths.length == 1 =>
        val root = files.location.rootPaths.head
        val isFile = files.location.listFiles(Nil, Nil).exists(_.files.exists(_.getPath == root))
        val path =
          if (isFile) new Path(root.getParent, fileName(root.getName +: columns))
          else new Path(root, fileName(columns))
        Some(SidecarFile(path, state.newHadoopConf()))
      case _ => None
    }

  /** Spark ignores files whose name begins with an underscore. */
  private def fileName(names: Seq[String]): String = s"_saltwise_keys_${hashOf(names)}.json"

  private def hashOf(names: Seq[String]): String = {
    val bytes = names.mkString("\u0000").getBytes(UTF_8)
    f"${XXH64.hashUnsafeBytes(bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length, 42L)}%016x"
  }
}

/**
 * A property of a table in the catalog. Some catalogs only store short properties, so a long text
 * is stored in parts, as Spark stores its own.
 */
private final case class TableProperty(table: CatalogTable, name: String, state: SessionState)
  extends KeyStatisticsStore {

  override protected def text: Option[String] =
    try CatalogTable.readLargeTableProp(table.properties, name) catch {
      case _: AnalysisException =>
        throw new KeyStatisticsException("are damaged: a part of them is missing")
    }

  override def write(text: String): Unit = {
    val catalog = state.catalog
    val present = catalog.getTableMetadata(table.identifier)
    var properties = present.properties.filterNot { case (key, _) => key.startsWith(name) }
    CatalogTable.splitLargeTableProp(
      name, text, (key, value) => properties += key -> value, TableProperty.MaxLength)
    catalog.alterTable(SparkCompat.withProperties(present, properties))
    catalog.refreshTable(TableIdentifier(table.identifier.table, table.identifier.database))
  }

  override def toString: String = s"property $name of table ${table.identifier.unquotedString}"
}

private object TableProperty {
  val MaxLength = 4000
}

/** A file beside the data. It is first written under another name, and then renamed. */
private final case class SidecarFile(path: Path, conf: Configuration) extends KeyStatisticsStore {

  override protected def text: Option[String] =
    try {
      val in = path.getFileSystem(conf).open(path)
      try Some(new String(in.readAllBytes(), UTF_8)) finally in.close()
    } catch {
      case _: FileNotFoundException => None
    }

  override def write(text: String): Unit = {
    val files = FileContext.getFileContext(path.toUri, conf)
    val unfinished = new Path(path.getParent, s".${path.getName}.${UUID.randomUUID}")
    try {
      val out = files.create(unfinished, EnumSet.of(CreateFlag.CREATE))
      try out.write(text.getBytes(UTF_8)) finally out.close()
      files.rename(unfinished, path, Options.Rename.OVERWRITE)
    } catch {
      case NonFatal(e) =>
        try files.delete(unfinished, false) catch {
          case NonFatal(other) => e.addSuppressed(other)
        }
        throw new SaltwiseException(
          s"the key statistics cannot be written to $path: ${e.getMessage}; " +
            "analyze a table of the catalog, or a folder in which files can be created.")
    }
  }

  override def toString: String = s"file $path"
}
