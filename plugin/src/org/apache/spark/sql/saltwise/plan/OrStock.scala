package org.apache.spark.sql.saltwise.plan

import java.util.concurrent.ConcurrentHashMap

import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreeNode
import org.apache.spark.sql.saltwise.SaltwiseException

/**
 * Protects a query where a part of the plugin fails, as where it does not fit this Spark: the plan
 * stays as it was, and the log says so once for each part. It uses as little of the plugin as
 * possible, so that it still works where another class of the plugin cannot be loaded.
 */
object OrStock {
  /** A name and no class, so that it is there when the class cannot be loaded. */
  private val Logger = "org.apache.spark.sql.saltwise.plan.SkewAggregation"

  private val logged = ConcurrentHashMap.newKeySet[String]()

  /**
   * Returns `rewrite`, or `stock` where `rewrite` fails. Mistakes of the user are still raised.
   *
   * @param part what rewrites, or reports
   */
  def apply[A](part: String, stock: A)(rewrite: => A): A =
    try rewrite catch {
      case e: SaltwiseException => throw e
      case e @ (NonFatal(_) | _: LinkageError | _: StackOverflowError) =>
        if (logged.add(part)) {
          org.slf4j.LoggerFactory.getLogger(Logger).warn(
            s"Saltwise went on without $part, which failed: queries run as Spark plans them; " +
              "further failures of it are not logged.", e)
        }
        stock
    }
}

/** A rule that gives back its plan where it fails. */
final class Guarded[A <: TreeNode[_]](rule: Rule[A]) extends Rule[A] {
  override val ruleName: String = rule.ruleName

  override def apply(plan: A): A = OrStock(ruleName.split('.').last, plan)(rule(plan))
}
