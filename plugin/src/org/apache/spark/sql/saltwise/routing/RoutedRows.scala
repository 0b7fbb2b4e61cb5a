package org.apache.spark.sql.saltwise.routing

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.saltwise.SkewOptions
import org.apache.spark.sql.saltwise.compat.SparkCompat

/**
 * Rows that go to the workers that a strategy chooses.
 *
 * {{{
 *   before:  t
 *   after:   SkewReceive - Exchange(worker) - SkewRoute(k) - RepeatableOrder - t
 * }}}
 *
 * @param keys    the key that is routed
 * @param hot     the hot keys, if they are given; they fit the keys
 * @param logical the rows
 */
final case class RoutedRows(
    keys: Seq[Expression], options: SkewOptions, hot: Option[Seq[HotKey]], logical: LogicalPlan) {

  /**
   * @param rows the plan of the rows
   * @param head the head that the routers start with
   */
  def plan(rows: SparkPlan, head: Seq[HeadKey] = Nil): SparkPlan = {
    val content = if (hot.isEmpty) Nil else logical.output.filter(StableColumns(logical).contains)
    val ordered = if (options.dependsOnOrder) RepeatableOrderExec(rows) else rows
    val routed = SkewRouteExec(keys, options, hot, head, content, ordered)
    SkewReceiveExec(SparkCompat.exchange(new WorkerPartitioning(options.workers), routed))
  }
}

object RoutedRows {

  /**
   * Reads the hot keys that are given. Left is why the strategy cannot route these rows.
   *
   * @param hotInHint whether the hint gives the hot keys. Hot keys in the conf belong to one of the
   *                  session's aggregates, and the others ignore them.
   */
  def of(
      keys: Seq[Expression],
      logical: LogicalPlan,
      options: SkewOptions,
      hotInHint: Boolean): Either[String, RoutedRows] = {
    val rows =
      try RoutedRows(keys, options, options.hot.map(HotKeys.parse(_, keys)), logical) catch {
        case _: HotKeyMismatch if !hotInHint =>
          RoutedRows(keys, options.copy(hot = None), None, logical)
      }
    (if (rows.options.dependsOnOrder) unstableRows(logical) else None).toLeft(rows)
  }

  /** Rows that may differ when a task runs again cannot be put into the same order again. */
  private def unstableRows(rows: LogicalPlan): Option[String] =
    if (StableColumns.staysInPlace(rows)) None else {
      val stable = StableColumns(rows)
      val differs = rows.output.find(!stable.contains(_)) match {
        case Some(column) =>
          Some(s"a task that runs again may compute a different ${column.name}")
        case None if !StableColumns.sameStableRows(rows) =>
          Some("a task that runs again may keep other rows")
        case None => None
      }
      differs.map(_ + ", and a strategy that looks at earlier rows would then choose other " +
        "workers; use strategy hash, or hot=")
    }
}
