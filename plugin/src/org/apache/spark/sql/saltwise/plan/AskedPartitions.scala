package org.apache.spark.sql.saltwise.plan

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.SQLConfHelper
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, RepartitionByExpression}
import org.apache.spark.sql.catalyst.plans.physical.{Distribution, UnspecifiedDistribution}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.adaptive.{AQEUtils, LogicalQueryStage}
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec
import org.apache.spark.sql.saltwise.SaltwiseConf
import org.apache.spark.sql.saltwise.compat.SparkCompat
import org.apache.spark.sql.saltwise.split.SkewSplitExec

/**
 * Stands below an exchange that the user asked for. Spark drops this exchange if the rows below
 * already lie as it would put them, as above an aggregate by the same keys. This node stays, so
 * that a rewrite of the aggregate leaves the rows there.
 *
 * @param asked     how the rows have to lie
 * @param isDropped whether Spark has dropped the exchange
 */
final case class AskedPartitionsExec(asked: Distribution, isDropped: Boolean, child: SparkPlan)
  extends TransparentExec {

  override def requiredChildDistribution: Seq[Distribution] =
    Seq(if (isDropped) asked else UnspecifiedDistribution)

  override def simpleString(maxFields: Int): String = "AskedPartitions"

  override protected def withNewChildInternal(c: SparkPlan): AskedPartitionsExec = copy(child = c)
}

object AskedPartitionsExec {

  /** The same plan, where these nodes ask, or are gone if their exchange is still there. */
  def afterExchanges(plan: SparkPlan): SparkPlan = plan.transformUp {
    case exchange: ShuffleExchangeExec => exchange.mapChildren {
      case AskedPartitionsExec(_, _, rows) => rows
      case other => other
    }
    case node: AskedPartitionsExec => node.copy(isDropped = true)
  }

  /** The same plan, without these nodes where no aggregate below may change its partitions. */
  def whereUndecided(plan: SparkPlan): SparkPlan = plan.transformUp {
    case node: AskedPartitionsExec if !node.child.exists(_.isInstanceOf[SkewSplitExec]) =>
      node.child
  }
}

/**
 * Plans an exchange that the user asked for, and notes below it where its rows have to lie.
 *
 * {{{
 *   df.groupBy("k").agg(...).repartition(8, "k")
 *
 *   before:  RepartitionByExpression(k, 8) - Aggregate(k)
 *   after:   Exchange(k, 8) - AskedPartitions - Aggregate(k)
 * }}}
 */
final case class PlanRepartition(session: SparkSession) extends SparkStrategy with SQLConfHelper {
  private lazy val stock: SparkStrategy = SparkCompat.state(session).planner.BasicOperators

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case node: RepartitionByExpression if mayRewrite(node) => stock(node).map { planned =>
      AQEUtils.getRequiredDistribution(planned) match {
        case Some(asked) if asked != UnspecifiedDistribution => planned.withNewChildren(
          planned.children.map(AskedPartitionsExec(asked, isDropped = false, _)))
        case _ => planned
      }
    }
    case _ => Nil
  }

  private def mayRewrite(node: RepartitionByExpression): Boolean =
    !SaltwiseConf.observes(conf) && (SaltwiseConf.isOn(conf) || node.exists {
      case _: SkewGroupByHint => true
      case LogicalQueryStage(_, running) => running.exists(_.isInstanceOf[SkewSplitExec])
      case _ => false
    })
}
