package org.apache.spark.sql.saltwise.plan

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.SQLConfHelper
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, RepartitionByExpression}
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.adaptive.{AQEUtils, LogicalQueryStage}
import org.apache.spark.sql.execution.exchange.{ShuffleExchangeExec, ShuffleOrigin}
import org.apache.spark.sql.execution.window.WindowExec
import org.apache.spark.sql.saltwise.SaltwiseConf
import org.apache.spark.sql.saltwise.compat.SparkCompat

/**
 * Stands below an exchange that the user asked for. Spark drops this exchange if the rows below
 * already lie as it would put them, as above an aggregate by the same keys. This node stays, so
 * that a rewrite of the aggregate leaves the rows there.
 *
 * @param asked        how the rows have to lie
 * @param partitioning that of the exchange
 * @param isDropped    whether Spark has dropped the exchange
 */
final case class AskedPartitionsExec(
    asked: Distribution,
    partitioning: Partitioning,
    shuffleOrigin: ShuffleOrigin,
    isDropped: Boolean,
    child: SparkPlan)
  extends TransparentExec {

  override def requiredChildDistribution: Seq[Distribution] =
    Seq(if (isDropped) asked else UnspecifiedDistribution)

  override def simpleString(maxFields: Int): String = "AskedPartitions"

  override protected def withNewChildInternal(c: SparkPlan): AskedPartitionsExec = copy(child = c)
}

object AskedPartitionsExec {

  /**
   * The same plan, where these nodes ask, or are gone if their exchange is there. It is there again
   * if stock Spark would have kept it.
   */
  def afterExchanges(plan: SparkPlan): SparkPlan = plan.transformUp {
    case exchange: ShuffleExchangeExec => exchange.mapChildren {
      case node: AskedPartitionsExec => node.child
      case other => other
    }
    case node: AskedPartitionsExec if isKept(node) => node.copy(isDropped = true)
  }.transformUp {
    case node: AskedPartitionsExec if !node.isDropped =>
      SparkCompat.exchange(node.partitioning, node.child, node.shuffleOrigin)
  }

  /** Whether stock Spark drops the exchange, too. */
  private def isKept(node: AskedPartitionsExec): Boolean = {
    val inStock = node.child.transformUp { case undecided: UndecidedExec => InStock(undecided) }
    def isAsked(partitioning: Partitioning): Boolean = (partitioning, node.partitioning) match {
      case (both: PartitioningCollection, _) => both.partitionings.exists(isAsked)
      case (hash: HashPartitioning, asked: HashPartitioning) => hash.semanticEquals(asked)
      case _ => false
    }
    inStock.fastEquals(node.child) || isAsked(inStock.outputPartitioning)
  }

  /** An aggregate whose rows lie as they do in stock Spark. */
  private final case class InStock(child: UndecidedExec) extends TransparentExec {
    override def outputPartitioning: Partitioning = child.inStock
    override protected def withNewChildInternal(c: SparkPlan): InStock =
      copy(child = c.asInstanceOf[UndecidedExec])
  }

  /** The same plan, without these nodes where nothing below may change its partitions. */
  def whereUndecided(plan: SparkPlan): SparkPlan = plan.transformUp {
    case node: AskedPartitionsExec if !node.child.exists(mayChange) => node.child
  }

  private def mayChange(node: SparkPlan): Boolean = node match {
    case _: UndecidedExec => true
    // A hot key of it may run in slices.
    case window: WindowExec => window.partitionSpec.nonEmpty
    case _ => false
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
        case Some(asked) if asked != UnspecifiedDistribution => planned match {
          case exchange: ShuffleExchangeExec => exchange.mapChildren(AskedPartitionsExec(
            asked, exchange.outputPartitioning, exchange.shuffleOrigin, isDropped = false, _))
          case other => other
        }
        case _ => planned
      }
    }
    case _ => Nil
  }

  private def mayRewrite(node: RepartitionByExpression): Boolean =
    !SaltwiseConf.observes(conf) && (SaltwiseConf.isOn(conf) || node.exists {
      case _: SkewGroupByHint => true
      case LogicalQueryStage(_, running) => running.exists(_.isInstanceOf[UndecidedExec])
      case _ => false
    })
}
