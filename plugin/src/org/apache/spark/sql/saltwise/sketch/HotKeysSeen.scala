package org.apache.spark.sql.saltwise.sketch

import org.apache.spark.SparkContext
import org.apache.spark.sql.saltwise.sketch.HotKeysSeen._
import org.apache.spark.util.AccumulatorV2

/**
 * The heaviest keys that the tasks of an operator have seen, for the reports. A task adds a few
 * keys when it ends, and not each row.
 *
 * Rows of a task that ran twice count twice. The numbers are only shown, and no answer depends on
 * them.
 */
private[saltwise] final class HotKeysSeen extends AccumulatorV2[HotKey, Seq[HotKey]] {
  private var keys = Map.empty[Long, HotKey]

  override def isZero: Boolean = keys.isEmpty

  override def copy(): HotKeysSeen = {
    val other = new HotKeysSeen
    other.keys = keys
    other
  }

  override def reset(): Unit = keys = Map.empty

  override def add(key: HotKey): Unit = {
    val sum = keys.get(key.hash).fold(key) { known =>
      HotKey(key.hash, known.rows + key.rows, known.name.orElse(key.name))
    }
    keys = keys.updated(key.hash, sum)
    if (keys.size > 4 * Capacity) keys = value.take(Capacity).map(key => key.hash -> key).toMap
  }

  override def merge(other: AccumulatorV2[HotKey, Seq[HotKey]]): Unit = other.value.foreach(add)

  /** The heaviest first. */
  override def value: Seq[HotKey] = keys.values.toSeq.sortBy(-_.rows)
}

private[saltwise] object HotKeysSeen {
  /** The most keys that a task or an operator keeps. */
  val Capacity = 64

  /** @param name the key as text, if the session shows keys */
  final case class HotKey(hash: Long, rows: Long, name: Option[String]) {
    def shown: String = name.getOrElse(f"$hash%016x")
  }

  /** For an operator of a plan, on the driver. */
  def registered(context: SparkContext): HotKeysSeen = {
    val seen = new HotKeysSeen
    context.register(seen)
    seen
  }
}
