package org.apache.spark.sql.saltwise

import java.util.concurrent.ConcurrentHashMap

import scala.util.control.NonFatal

import org.apache.spark.scheduler._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreeNode
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}

/**
 * Protects a query when a part of the plugin fails, for example because it does not fit this Spark.
 * The plan stays as it was, and the log says so once for each part. This file uses as little of the
 * plugin as possible, so it works even if another class of the plugin cannot be loaded.
 */
object OrStock {
  /** A text instead of a class, because the class may fail to load. */
  private val Logger = "org.apache.spark.sql.saltwise.plan.SkewAggregation"

  private val logged = ConcurrentHashMap.newKeySet[String]()

  /**
   * Returns `rewrite`, or `stock` if `rewrite` fails. Mistakes of the user are still raised.
   *
   * @param part the part of the plugin that may fail, for the log
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
 * A rule that returns the plan it was given if it fails, if it cannot be made, or if it makes a
 * plan that Spark would refuse.
 *
 * @param always whether it also sees the plans of an application that does not use Saltwise
 */
final class Guarded[A <: TreeNode[_]](part: String, always: Boolean = false)(make: => Rule[A])
  extends Rule[A] {
  private lazy val rule = make

  override val ruleName: String = s"saltwise.$part"

  override def apply(plan: A): A = if (!always && !InUse()) plan else OrStock(part, plan) {
    val changed = rule(plan)
    if (!(changed eq plan) && isResolved(plan) && !isResolved(changed)) {
      throw new IllegalStateException(s"$part made a plan that is not resolved")
    }
    changed
  }

  private def isResolved(plan: A): Boolean = plan match {
    case logical: LogicalPlan => logical.resolved
    case _ => true
  }
}

/** A strategy that leaves a node to Spark if it fails, or if it cannot be made. */
final class GuardedStrategy(part: String)(make: => SparkStrategy) extends SparkStrategy {
  private lazy val strategy = make

  override def apply(plan: LogicalPlan): Seq[SparkPlan] =
    if (InUse()) OrStock(part, Seq.empty[SparkPlan])(strategy(plan)) else Nil
}

/** A listener that skips an event if it fails. A LinkageError would end the application. */
final class GuardedListener(part: String, listener: SparkListener) extends SparkListener {
  override def onJobStart(job: SparkListenerJobStart): Unit = guarded(listener.onJobStart(job))

  override def onTaskEnd(task: SparkListenerTaskEnd): Unit = guarded(listener.onTaskEnd(task))

  override def onOtherEvent(event: SparkListenerEvent): Unit =
    guarded(listener.onOtherEvent(event))

  override def onApplicationEnd(end: SparkListenerApplicationEnd): Unit =
    guarded(listener.onApplicationEnd(end))

  private def guarded(handle: => Unit): Unit = OrStock(part, ())(handle)
}
