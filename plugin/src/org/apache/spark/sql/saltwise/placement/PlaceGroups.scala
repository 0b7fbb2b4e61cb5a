package org.apache.spark.sql.saltwise.placement

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.{Attribute, ScalarSubquery}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.saltwise.{OrStock, SaltwiseConf}
import org.apache.spark.sql.saltwise.plan._

/**
 * Places the keys of groups that may not be split, so that all workers get about the same load.
 *
 * {{{
 *   df.skew_groupby("k").applyInPandas(f, schema)
 *
 *   before:  FlatMapGroupsInPandas(k) - t
 *   after:   FlatMapGroupsInPandas(k) - Placed(k, PlaceKey(function)) - t
 *                                                            |
 *                              subquery: PlaceLargestFirst(sketch of k) - t
 * }}}
 *
 * [[GroupsToPlace]] finds the groups, and [[FunctionChoice]] chooses their partition function. The
 * worker of a row depends only on its key and on what the driver knows, so any task may run again.
 * [[PlanPlaced]] makes the exchange.
 */
final case class PlaceGroups(session: SparkSession) extends Rule[LogicalPlan] {
  import PlaceGroups._

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (SaltwiseConf.observes(conf) || !mayPlace(plan) || isCorrelated(plan)) plan
    else {
      val groups = new GroupsToPlace(plan, conf)
      plan.transformUp {
        case node: UnaryNode if !node.isStreaming && !node.child.isInstanceOf[LeftAlone] =>
          OrStock[LogicalPlan]("PlaceGroups", node) {
            groups.of(node, isEnabled).map(rowsOf(node, _)).filterNot(_ eq node.child)
              .fold[LogicalPlan](node)(rows => node.withNewChildren(Seq(rows)))
          }
      }
    }

  /** Spark optimizes such a subquery alone, and then makes a join of it. */
  private def isCorrelated(plan: LogicalPlan): Boolean = plan match {
    case Subquery(_, correlated) => correlated
    case _ => false
  }

  /** Whether the session places groups that do not ask for it. */
  def isEnabled: Boolean = conf.getConf(SaltwiseConf.PlacementEnabled)

  private def mayPlace(plan: LogicalPlan): Boolean =
    isEnabled || SaltwiseConf.isOn(conf) || plan.exists(_.isInstanceOf[SkewGroupByHint])

  /** The rows of a node, placed, or with the reason why they are not. */
  private[placement] def rowsOf(node: UnaryNode, groups: Groups): LogicalPlan = {
    val rows = node.child
    // A constant does not tell groups apart.
    val others = groups.keys.filterNot(_.foldable)
    val keys = others.collect { case key: Attribute => key }
    // A window may compute a key itself.
    if (keys.length < others.length || groups.keys.isEmpty) rows
    else if (keys.isEmpty) LeftAlone(ConstantKeys, rows)
    else if (ClusteredRows.areIn(rows, keys)) {
      if (rows.isInstanceOf[Placed]) rows else LeftAlone(ReasonToLeave.AlreadyGrouped, rows)
    } else if (!groups.requested &&
        rows.stats.sizeInBytes <= conf.getConf(SaltwiseConf.SmallInput)) {
      LeftAlone(ReasonToLeave.smallInput(rows, conf), rows)
    } else place(keys, rows, groups)
  }

  private def place(keys: Seq[Attribute], rows: LogicalPlan, groups: Groups): LogicalPlan = {
    val function = new FunctionChoice(session, conf).of(keys, rows, groups)
    if (!groups.requested && function.json.isInstanceOf[ScalarSubquery] && !CheapRows(rows)) {
      LeftAlone(SecondPass, rows)
    } else if (function.workers == 1) {
      LeftAlone(ReasonToLeave.OnePartition, rows)
    } else if (function.workers > PartitionFunction.MaxWorkers) {
      LeftAlone(
        s"a partition function has at most ${PartitionFunction.MaxWorkers} workers", rows)
    } else {
      Placed(keys, PlaceKey(GroupingKeys.hash(keys), function.json), function.workers, rows)
    }
  }
}

object PlaceGroups {
  private val ConstantKeys = "its keys are constants, so there is one group"
  private val SecondPass =
    "a pass over its keys would compute its rows a second time; cache them, or name a strategy"
}
