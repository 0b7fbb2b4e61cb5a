package org.apache.spark.sql.saltwise.report

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.saltwise.SaltwiseConf
import org.apache.spark.sql.saltwise.report.HotKeysOfTask._
import org.apache.spark.sql.saltwise.report.HotKeysSeen.{HotKey, Kept}
import org.apache.spark.sql.saltwise.sketch.SpaceSaving
import org.apache.spark.sql.types.StringType

/**
 * The heaviest keys of a task, for the reports. It is told of a key when a state of it leaves, and
 * passes over those with few rows, so it costs next to nothing.
 *
 * @param text makes a text of a key; None if the session shows hashes alone
 */
private[saltwise] final class HotKeysOfTask(text: Option[UnsafeProjection]) {
  private lazy val sketch = new SpaceSaving(Kept)
  private lazy val names = mutable.Map.empty[Long, String]
  private var any = false

  /**
   * @param keyRows  rows of this key that were combined
   * @param taskRows rows of the task so far
   */
  def saw(hash: => Long, key: InternalRow, keyRows: Int, taskRows: Long): Unit =
    if (keyRows >= math.max(MinRows, MinShare * taskRows)) {
      val known = hash
      any = true
      sketch.offer(known, keyRows)
      text.filter(_ => names.size < MaxNames && !names.contains(known)).foreach { project =>
        names(known) = String.valueOf(project(key).getUTF8String(0)).take(MaxText)
      }
    }

  def keys(taskRows: Long): Seq[HotKey] = if (!any) Nil else
    (0 until sketch.size).filter(sketch.count(_) >= MinShare * taskRows).map { i =>
      HotKey(sketch.hash(i), sketch.count(i), names.get(sketch.hash(i)))
    }
}

private[saltwise] object HotKeysOfTask {
  private val MinRows = 256
  private val MinShare = 0.001
  private val MaxNames = 16 * Kept
  private val MaxText = 100

  /** Makes one for each task. The function travels to the executors. */
  def factory(keys: Seq[Attribute], conf: SQLConf): () => HotKeysOfTask =
    if (!conf.getConf(SaltwiseConf.ReportKeys)) () => new HotKeysOfTask(None) else {
      val zone = Some(conf.sessionLocalTimeZone)
      val texts = keys.map { key =>
        Coalesce(Seq(Cast(key, StringType, zone), Literal("NULL")))
      }
      val text = ConcatWs(Literal(", ") +: texts)
      () => new HotKeysOfTask(Some(UnsafeProjection.create(Seq(text), keys)))
    }
}
