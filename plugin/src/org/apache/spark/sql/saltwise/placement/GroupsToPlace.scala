package org.apache.spark.sql.saltwise.placement

import org.apache.spark.sql.catalyst.expressions.{ExprId, Expression, PythonUDAF}
import org.apache.spark.sql.catalyst.optimizer.InferWindowGroupLimit
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.saltwise.{Auto, SaltwiseConf, SkewOptions, Strategies}
import org.apache.spark.sql.saltwise.compat.GroupMap
import org.apache.spark.sql.saltwise.plan.SkewGroupByHint

/**
 * Groups that the hint or the confs ask to place.
 *
 * @param hint      the options in the hint of these groups
 * @param requested whether the user asked to place these groups. If not, placement must be worth
 *                  its cost.
 */
private[placement] final case class Groups(
    keys: Seq[Expression],
    hint: Option[Map[String, String]],
    options: SkewOptions,
    requested: Boolean)

/** Finds the groups of a plan that are to be placed. */
private[placement] final class GroupsToPlace(plan: LogicalPlan, conf: SQLConf) {

  /**
   * The groups of a node.
   *
   * @param enabled whether the session places groups that do not ask for it
   */
  def of(node: UnaryNode, enabled: Boolean): Option[Groups] = {
    lazy val hint = SkewGroupByHint.below(node).map(_.options)
    // Hot keys are for groups that are split.
    lazy val options = SkewOptions.resolve(hint.getOrElse(Map.empty) - "hot", conf)
    lazy val namedInHint = hint.exists(hintOptions =>
      hintOptions.get("strategy").exists(_ != Auto.name) ||
        hintOptions.contains("placement.function"))
    node match {
      case aggregate: Aggregate if aggregate.groupingExpressions.nonEmpty =>
        val rewritten = hint.isDefined || SaltwiseConf.mode(conf) != SaltwiseConf.Off
        // Hot keys in the hint ask for a strategy that routes rows, or are refused.
        val alwaysPlaced = rewritten &&
          Strategies.onlyPlaces(SkewOptions.resolve(hint.getOrElse(Map.empty), conf).strategy)
        val callsPython =
          aggregate.aggregateExpressions.exists(_.exists(_.isInstanceOf[PythonUDAF]))
        val byDefault = callsPython && (enabled || (hint.isDefined && options.strategy == Auto))
        if (!alwaysPlaced && !byDefault) None
        else Some(Groups(aggregate.groupingExpressions, hint, options, alwaysPlaced || namedInHint))
      case window: Window if enabled && !keepsFirstRows(window) =>
        Some(Groups(window.partitionSpec, None, options, requested = false))
      case _ =>
        GroupMap.keys(node).filter(_ => enabled || hint.isDefined)
          .map(Groups(_, hint, options, requested = hint.isDefined))
    }
  }

  /**
   * Whether a window keeps only the first rows of each group. Spark drops the other rows before the
   * shuffle, and most of them are rows of hot keys. So there is little to place.
   */
  def keepsFirstRows(window: Window): Boolean =
    window.windowExpressions.exists(e => limitedWindows.contains(e.exprId))

  private lazy val limitedWindows: Set[ExprId] = InferWindowGroupLimit(plan).collect {
    case window: Window if window.child.isInstanceOf[WindowGroupLimit] =>
      window.windowExpressions.map(_.exprId)
  }.flatten.toSet
}
