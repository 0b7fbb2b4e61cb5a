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
 * The number of rows in Parquet and ORC files, from their footers. Only the footers of a few files
 * are read. The other files are assumed to have as many rows per byte.
 */
object FooterRows {
  private val MaxFiles = 16

  private lazy val threads = ExecutionContext.fromExecutorService(
    ThreadUtils.newDaemonCachedThreadPool("saltwise-footers", MaxFiles))

  /**
   * @return the rows, and a remark where not all footers were read; None where the files have no
   *         footers, or the time is over
   */
  def apply(
      relation: HadoopFsRelation,
      conf: Configuration,
      until: Deadline): Option[(Double, String)] =
    reader(relation.fileFormat, conf).flatMap { readRows =>
      val files = relation.location.listFiles(Nil, Nil).flatMap(_.files)
        .map(file => (file.getPath, file.getLen))
      val count = math.min(files.length, MaxFiles)
      val chosen = Seq.tabulate(count)(i => files((i.toLong * files.length / count).toInt))
      val reads = chosen.map { case (path, _) => () => readRows(path) }
      for (rows <- inParallel(reads, until) if rows.sum > 0) yield {
        if (count == files.length) (rows.sum.toDouble, "") else {
          val rowsPerByte = rows.sum.toDouble / chosen.map(_._2).sum
          val remark = s", the row counts of $count of ${files.length} files"
          (rowsPerByte * files.map(_._2).sum, remark)
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

  /** The results of all reads; None where one of them fails, or the time is over. */
  private def inParallel(reads: Seq[() => Long], until: Deadline): Option[Seq[Long]] = {
    implicit val context: ExecutionContext = threads
    val rows = Future.sequence(reads.map(read => Future(read())))
    try ThreadUtils.awaitReady(rows, until.timeLeft.max(Duration.Zero)).value.get.toOption catch {
      case _: TimeoutException => None
    }
  }
}
