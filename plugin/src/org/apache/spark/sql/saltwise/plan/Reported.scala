package org.apache.spark.sql.saltwise.plan

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.saltwise.SkewOptions
import org.apache.spark.sql.saltwise.sketch.HotKeysSeen.HotKey

/** What the reports read of a plan. `report/` knows the nodes of Saltwise only by this file. */
object Reported {

  /** What would run if the session did not only observe. Logical and physical nodes carry it. */
  val WouldRun: TreeNodeTag[String] = TreeNodeTag("saltwise.wouldRun")

  /** The same for what depends on a join below an aggregate. */
  val JoinWouldRun: TreeNodeTag[String] = TreeNodeTag("saltwise.joinWouldRun")

  val AlreadyGrouped: String = ReasonToLeave.AlreadyGrouped

  val SplitJoin = "auto: if a partition of the join below is skewed, it is split"

  /** What would run where rows would be combined below a join. */
  def combineBelowJoin(keys: Seq[Attribute]): String =
    s"auto: rows are combined below the join by ${keys.map(_.name).mkString(", ")}"

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

  /** What it combines for a join. None if its rows go to their groups. */
  def forJoin: Option[ReportedJoin] = None

  /** The heaviest keys that its tasks saw, the heaviest first. */
  def hotKeys: Seq[HotKey]
}

/** The keys and the functions by which rows are combined below a join. */
final case class ReportedJoin(keys: Seq[Attribute], functions: Seq[String])

/** An operator whose tasks have slices of the partitions of a window. */
trait ReportedSlices extends SparkPlan {

  /** The keys of the window; none if it has no PARTITION BY. */
  def keys: Seq[Expression]
}

/** The partitioning of an exchange of Saltwise. */
trait ReportedPartitioning {

  /** What sends the rows: split, routed or placement. */
  def sentBy: String
}

/** The partitioning of an exchange that samples the keys of a window. */
trait ReportedSample

/** An operator that reads some partitions of an exchange. */
trait ReportedRead extends SparkPlan {
  def read: SparkPlan

  /** Whether its rows belong to a window of which other rows are in slices. */
  def isBesideSlices: Boolean
}
