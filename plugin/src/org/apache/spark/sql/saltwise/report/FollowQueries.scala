package org.apache.spark.sql.saltwise.report

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.saltwise.{InUse, SaltwiseConf, UnknownConfs}
import org.apache.spark.sql.saltwise.plan.SkewGroupByHint

/**
 * Follows an application from its first query that has a hint, or whose session has set a conf that
 * switches a part of Saltwise on or off. An application that only loads Saltwise has no listener of
 * it. The plan stays as it is.
 */
final case class FollowQueries(session: SparkSession) extends Rule[LogicalPlan] {
  import FollowQueries._

  override def apply(plan: LogicalPlan): LogicalPlan = {
    UnknownConfs.warn(conf)
    if (Switches.exists(conf.contains) || plan.exists(_.isInstanceOf[SkewGroupByHint])) {
      InUse.begin()
      Reports.follow(session)
    }
    plan
  }
}

object FollowQueries {
  private val Switches = Seq(
    SaltwiseConf.Enabled, SaltwiseConf.Mode, SaltwiseConf.PlacementEnabled,
    SaltwiseConf.StatePlanner).map(_.key)
}
