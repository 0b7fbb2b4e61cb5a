package org.apache.spark.sql.saltwise.placement

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode, Window}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.saltwise.{SaltwiseConf, SaltwiseException}
import org.apache.spark.sql.saltwise.plan.{LeftAlone, Reported}

/**
 * Notes for the reports, in a session that only observes, what [[PlaceGroups]] would have done. The
 * plan stays as it is.
 */
final case class ObservePlacement(session: SparkSession) extends Rule[LogicalPlan] {
  private lazy val placing = PlaceGroups(session)

  override def apply(plan: LogicalPlan): LogicalPlan = {
    if (SaltwiseConf.observes(conf)) {
      val groups = new GroupsToPlace(plan, conf)
      plan.foreach {
        case node: UnaryNode if !node.isStreaming =>
          wouldRun(node, groups).foreach(node.setTagValue(Reported.WouldRun, _))
        case _ =>
      }
    }
    plan
  }

  /** What would run if placement was enabled; None if these groups are not for placement. */
  private def wouldRun(node: UnaryNode, groups: GroupsToPlace): Option[String] =
    try node match {
      case window: Window if groups.keepsFirstRows(window) =>
        Some(s"nothing: ${ObservePlacement.FirstRowsOnly}")
      case _ =>
        groups.of(node, enabled = true).map(placing.rowsOf(node, _)).collect {
          case _: Placed if groups.of(node, placing.isEnabled).isEmpty =>
            s"placement, if ${SaltwiseConf.PlacementEnabled.key} is true"
          case _: Placed => "placement"
          case LeftAlone(reason, _) => s"nothing: $reason"
        }
    } catch {
      case wrong: SaltwiseException => Some(s"nothing: ${wrong.getMessage}")
    }
}

object ObservePlacement {
  private val FirstRowsOnly =
    "it keeps the first rows of each group, and Spark drops the others before the shuffle"
}
