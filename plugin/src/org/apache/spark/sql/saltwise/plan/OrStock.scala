package org.apache.spark.sql.saltwise.plan

import scala.util.control.NonFatal

import org.apache.spark.sql.saltwise.SaltwiseException

/**
 * Protects a query where this Spark does not fit the plugin: the plan stays as it was, and the log
 * says so once. It uses as little of the plugin as possible, so that it still works where another
 * class of the plugin cannot be loaded.
 */
object OrStock {
  /** A name and no class, so that it is there when the class cannot be loaded. */
  private val Logger = "org.apache.spark.sql.saltwise.plan.SkewAggregation"

  @volatile private var logged = false

  /** Returns `rewrite`, or `stock` where `rewrite` fails. Mistakes of the user are still raised. */
  def apply[A](stock: A)(rewrite: => A): A =
    try rewrite catch {
      case e: SaltwiseException => throw e
      case e @ (NonFatal(_) | _: LinkageError) =>
        logOnce(e)
        stock
    }

  private def logOnce(cause: Throwable): Unit = if (!logged) {
    logged = true
    org.slf4j.LoggerFactory.getLogger(Logger).warn(
      "Saltwise left a query as Spark planned it, because this Spark does not fit the plugin; " +
        "further occurrences are not logged.", cause)
  }
}
