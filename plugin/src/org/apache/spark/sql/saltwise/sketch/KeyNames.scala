package org.apache.spark.sql.saltwise.sketch

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.saltwise.SaltwiseConf
import org.apache.spark.sql.types.StringType

/**
 * The texts of the hot keys of a task, by hash. Empty if the session shows only hashes.
 *
 * @param text makes a text from the key of a row
 */
private[saltwise] final class KeyNames(text: Option[UnsafeProjection]) {
  import KeyNames._

  private lazy val names = mutable.Map.empty[Long, String]

  def note(hash: Long, row: InternalRow): Unit =
    text.filter(_ => names.size < MaxNames && !names.contains(hash)).foreach { project =>
      names(hash) = String.valueOf(project(row).getUTF8String(0)).take(MaxText)
    }

  def of(hash: Long): Option[String] = names.get(hash)
}

private[saltwise] object KeyNames {
  private val MaxNames = 16 * HotKeysSeen.Capacity
  private val MaxText = 100

  /** A function that makes the KeyNames of each task. It travels to the executors. */
  def factory(keys: Seq[Expression], input: Seq[Attribute], conf: SQLConf): () => KeyNames =
    if (!conf.getConf(SaltwiseConf.ReportKeys)) () => new KeyNames(None) else {
      val zone = Some(conf.sessionLocalTimeZone)
      val texts = keys.map(key => Coalesce(Seq(Cast(key, StringType, zone), Literal("NULL"))))
      val text = ConcatWs(Literal(", ") +: texts)
      () => new KeyNames(Some(UnsafeProjection.create(Seq(text), input)))
    }
}
