package org.apache.spark.sql.saltwise.plan

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.saltwise.SkewOptions
import org.apache.spark.sql.saltwise.sketch.HotKeysSeen.HotKey

/** What the reports read of a plan. `report/` knows the nodes of Saltwise only by this file. */
object Reported {

  /** What would run if the session did not only observe. Logical and physical nodes carry it. */
  val WouldRun: TreeNodeTag[String] = TreeNodeTag("saltwise.wouldRun")

  val AlreadyGrouped: String = ReasonToLeave.AlreadyGrouped

  /** A plan that stays as Spark made it: the reason, and the plan. */
  object LeftAlone {
    def unapply(plan: SparkPlan): Option[(String, SparkPlan)] = plan match {
      case SkewLeftAloneExec(reason, child) => Some((reason, child))
      case _ => None
    }
  }

  /** The plan of the same query without hints. */
  def withoutHints(plan: LogicalPlan): LogicalPlan = plan.transformDownWithSubqueries {
    case SkewGroupByHint(_, child) => child
  }
}

/** An operator of Saltwise that sees the rows of groups before their exchange. */
trait ReportedOperator extends SparkPlan {
  def options: SkewOptions

  /** The heaviest keys that its tasks saw, the heaviest first. */
  def hotKeys: Seq[HotKey]
}

/** The partitioning of an exchange of Saltwise. */
trait ReportedPartitioning {

  /** What sends the rows: split, routed or placement. */
  def sentBy: String
}

/** An operator that reads some partitions of an exchange. */
trait ReportedRead extends SparkPlan {
  def read: SparkPlan
}
