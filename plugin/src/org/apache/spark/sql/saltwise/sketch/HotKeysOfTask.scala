package org.apache.spark.sql.saltwise.sketch

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.saltwise.sketch.HotKeysOfTask._
import org.apache.spark.sql.saltwise.sketch.HotKeysSeen.{Capacity, HotKey}

/**
 * The heaviest keys of a task, for the reports. It sees a key when a state of the key is sent, and
 * skips keys with few rows, so it costs almost nothing.
 */
private[saltwise] final class HotKeysOfTask(names: KeyNames) {
  private lazy val sketch = new SpaceSaving(Capacity)
  private var hasKeys = false

  /**
   * @param keyRows  rows of this key that were combined
   * @param taskRows rows of the task so far
   */
  def note(hash: => Long, key: InternalRow, keyRows: Int, taskRows: Long): Unit =
    if (keyRows >= math.max(MinRows, MinShare * taskRows)) {
      val keyHash = hash
      hasKeys = true
      sketch.offer(keyHash, keyRows)
      names.note(keyHash, key)
    }

  def keys(taskRows: Long): Seq[HotKey] = if (!hasKeys) Nil else
    (0 until sketch.size).filter(sketch.count(_) >= MinShare * taskRows).map { i =>
      HotKey(sketch.hash(i), sketch.count(i), names.of(sketch.hash(i)))
    }
}

private[saltwise] object HotKeysOfTask {
  private val MinRows = 256
  private val MinShare = 0.001
}
