package org.apache.spark.sql.saltwise.plan

import java.util.concurrent.ConcurrentHashMap

import scala.util.control.NonFatal

import org.apache.spark.scheduler._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreeNode
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
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

/**
 * A rule that gives back its plan where it fails, where it cannot be made, or where it makes a plan
 * that Spark would refuse.
 */
final class Guarded[A <: TreeNode[_]](part: String)(make: => Rule[A]) extends Rule[A] {
  private lazy val rule = make

  override val ruleName: String = s"saltwise.$part"

  override def apply(plan: A): A = OrStock(part, plan) {
    val changed = rule(plan)
    if (isResolved(plan) && !isResolved(changed)) {
      throw new IllegalStateException(s"$part made a plan that is not resolved")
    }
    changed
  }

  private def isResolved(plan: A): Boolean = plan match {
    case logical: LogicalPlan => logical.resolved
    case _ => true
  }
}

/** A strategy that leaves a node to Spark where it fails, or where it cannot be made. */
final class GuardedStrategy(part: String)(make: => SparkStrategy) extends SparkStrategy {
  private lazy val strategy = make

  override def apply(plan: LogicalPlan): Seq[SparkPlan] =
    OrStock(part, Seq.empty[SparkPlan])(strategy(plan))
}

/** A listener that misses an event where it fails. A LinkageError would end the application. */
final class GuardedListener(part: String, listener: SparkListener) extends SparkListener {
  override def onJobStart(job: SparkListenerJobStart): Unit = guarded(listener.onJobStart(job))

  override def onTaskEnd(task: SparkListenerTaskEnd): Unit = guarded(listener.onTaskEnd(task))

  override def onOtherEvent(event: SparkListenerEvent): Unit =
    guarded(listener.onOtherEvent(event))

  override def onApplicationEnd(end: SparkListenerApplicationEnd): Unit =
    guarded(listener.onApplicationEnd(end))

  private def guarded(hear: => Unit): Unit = OrStock(part, ())(hear)
}
