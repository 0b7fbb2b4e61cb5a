package org.apache.spark.sql.saltwise.plan

import scala.util.control.NonFatal

import org.apache.spark.sql.saltwise.SaltwiseException

/**
 * What a rule does where this Spark does not fit the plugin: the plan stays as it was, and the log says so, once. It
 * names no other class of the plugin, so that it is there when one of them cannot be loaded.
 */
object OrStock {
  @volatile private var logged = false

  /** What `rewrite` gives, or `stock`. What the user did wrong is no such case, and is told. */
  def apply[A](stock: A)(rewrite: => A): A =
    try rewrite catch {
      case e: SaltwiseException => throw e
      case e @ (NonFatal(_) | _: LinkageError) =>
        logOnce(e)
        stock
    }

  private def logOnce(cause: Throwable): Unit = if (!logged) {
    logged = true
    org.slf4j.LoggerFactory.getLogger(classOf[SkewAggregation]).warn(
      "Saltwise left a query as Spark planned it, because this Spark does not fit the plugin; " +
        "further occurrences are not logged.", cause)
  }
}
