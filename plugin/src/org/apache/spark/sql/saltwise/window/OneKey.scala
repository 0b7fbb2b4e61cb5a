package org.apache.spark.sql.saltwise.window

import org.apache.spark.sql.catalyst.SQLConfHelper
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Project, Window}

/**
 * Gives all rows of a window without PARTITION BY one key, where a pass over its order would
 * compute them a second time. So they are shuffled once, the exchange samples them, and
 * [[SliceHotKeys]] sends them to their slices. Two cores do not win the second shuffle back.
 *
 * {{{
 *   SELECT x, rank() OVER (ORDER BY x) AS r FROM t JOIN s USING (k)
 *
 *   before:  Window(rank(), x) - Join(t, s)
 *   after:   Project(x, r) - Window(rank(), all rows, x) - Project(x, 0 AS all rows) - Join(t, s)
 * }}}
 */
private[window] object OneKey extends SQLConfHelper {

  /** The window with a key; None if that does not help. */
  def apply(window: Window): Option[Window] =
    if (window.partitionSpec.nonEmpty || !conf.adaptiveExecutionEnabled) None
    else if (WindowReasons.hasTwoCores) None
    // Stock Spark runs both in one task. If a task of the lower one ran again, it could number rows
    // that tie in another way, and only some tasks of the upper one would see that.
    else if (SharedSlices.below(window).isDefined) None
    else Some(keyed(window)).filter(WindowReasons.ofOwnSlices(_).isEmpty)

  private def keyed(window: Window): Window = {
    val key = Alias(Literal(0), "all rows")()
    val keys = Seq(key.toAttribute)
    window.copy(
      windowExpressions = window.windowExpressions.map(_.transform {
        case spec: WindowSpecDefinition => spec.copy(partitionSpec = keys)
      }.asInstanceOf[NamedExpression]),
      partitionSpec = keys,
      child = Project(window.child.output :+ key, window.child))
  }
}
