package org.apache.spark.sql.saltwise.auto

import scala.concurrent.{ExecutionContext, Future, TimeoutException}
import scala.concurrent.duration._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.orc.OrcFile
import org.apache.parquet.hadoop.ParquetFileReader
import org.apache.parquet.hadoop.util.HadoopInputFile

import org.apache.spark.sql.execution.datasources.{FileFormat, HadoopFsRelation}
import org.apache.spark.sql.execution.datasources.orc.OrcFileFormat
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.util.ThreadUtils

/**
 * How many rows files have: Parquet and ORC say so in their footers. The footers of a few files are read, and the rows of
 * the others are taken to be as many by the byte.
 */
object FooterRows {
  private val MostFiles = 16

  private lazy val threads =
    ExecutionContext.fromExecutorService(ThreadUtils.newDaemonCachedThreadPool("saltwise-footers", MostFiles))

  /** @return rows, and a remark where not all footers were read; None where files have none, or there is no time */
  def apply(relation: HadoopFsRelation, conf: Configuration, until: Deadline): Option[(Double, String)] =
    reader(relation.fileFormat, conf).flatMap { rowsOf =>
      val files = relation.location.listFiles(Nil, Nil).flatMap(_.files).map(file => (file.getPath, file.getLen))
      val chosen = math.min(files.length, MostFiles)
      val some = Seq.tabulate(chosen)(i => files((i.toLong * files.length / chosen).toInt))
      for (rows <- all(some.map { case (path, _) => () => rowsOf(path) }, until) if rows.sum > 0) yield {
        val read = some.map(_._2).sum
        if (chosen == files.length) (rows.sum.toDouble, "") else {
          (rows.sum.toDouble / read * files.map(_._2).sum, s", the row counts of $chosen of ${files.length} files")
        }
      }
    }

  private def reader(format: FileFormat, conf: Configuration): Option[Path => Long] = format match {
    case _: ParquetFileFormat => Some { path =>
      val file = ParquetFileReader.open(HadoopInputFile.fromPath(path, conf))
      try file.getRecordCount finally file.close()
    }
    case _: OrcFileFormat => Some { path =>
      val file = OrcFile.createReader(path, OrcFile.readerOptions(conf))
      try file.getNumberOfRows finally file.close()
    }
    case _ => None
  }

  /** What all of them say, at the same time; None where one fails, or there is no time. */
  private def all(reads: Seq[() => Long], until: Deadline): Option[Seq[Long]] = {
    implicit val context: ExecutionContext = threads
    val rows = Future.sequence(reads.map(read => Future(read())))
    try ThreadUtils.awaitReady(rows, until.timeLeft.max(Duration.Zero)).value.get.toOption catch {
      case _: TimeoutException => None
    }
  }
}
