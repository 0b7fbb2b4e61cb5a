package org.apache.spark.sql.saltwise.plan

import java.util.Locale

import org.apache.spark.sql.catalyst.analysis.{UnresolvedAttribute, UnresolvedHaving}
import org.apache.spark.sql.catalyst.expressions.{Expression, Literal, OuterReference}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.UNRESOLVED_HINT
import org.apache.spark.sql.execution.adaptive.LogicalQueryStage
import org.apache.spark.sql.saltwise.{InUse, SkewOptions}
import org.apache.spark.sql.saltwise.compat.GroupMap

/** Holds the options for the aggregate right above. It does nothing by itself. */
final case class SkewGroupByHint(options: Map[String, String], child: LogicalPlan)
  extends PassesRows {
  override protected def withNewChildInternal(c: LogicalPlan): SkewGroupByHint = copy(child = c)
}

object SkewGroupByHint {
  val Name = "skew_groupby"

  /** Whether a hint below belongs to this node. */
  def isGroupBy(plan: LogicalPlan): Boolean =
    plan.isInstanceOf[Aggregate] || GroupMap.keys(plan).isDefined || GroupMap.keepsState(plan)

  /** The hint of an aggregate. It is below, and only operators with one child are between. */
  def below(aggregate: UnaryNode): Option[SkewGroupByHint] = {
    def find(plan: LogicalPlan): Option[SkewGroupByHint] = plan match {
      case hint: SkewGroupByHint => Some(hint)
      case node if isGroupBy(node) => None
      case node: UnaryNode => find(node.child)
      // Once AQE has run a stage, this node replaces the plan of the stage, including the hint.
      case stage: LogicalQueryStage => find(stage.logicalPlan)
      case _ => None
    }
    find(aggregate.child)
  }
}

/**
 * Puts the hint right below its aggregate, which looks for it there.
 *
 * {{{
 *   SELECT /*+ SKEW_GROUPBY(pkg) */ k, count(*) FROM t GROUP BY k HAVING count(*) > 1
 *
 *   before:  UnresolvedHint(SKEW_GROUPBY, [pkg]) - Having - Aggregate(k) - t
 *   after:   Having - Aggregate(k) - SkewGroupByHint(strategy = pkg) - t
 *
 *   df.hint("skew_groupby", "pkg").groupBy("k").count()
 *
 *   before:  Aggregate(k) - UnresolvedHint(skew_groupby, [pkg]) - df
 *   after:   Aggregate(k) - SkewGroupByHint(strategy = pkg) - df
 * }}}
 *
 * In SQL the parser puts a hint on top of its query block. On a DataFrame the hint belongs to the
 * aggregate that follows. The plan around the hint tells the two apart: the child of a DataFrame's
 * hint is a DataFrame, and a query block inside another one is below an alias.
 */
object ResolveSkewGroupByHint extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (plan.containsPattern(UNRESOLVED_HINT) && plan.exists(isOurs)) {
      resolve(plan, underAggregate = false)
    } else if (InUse() && plan.exists(isCorrelated)) dropCorrelated(plan) else plan

  /** Above a reference to the outer query, Spark allows only operators that it knows. */
  private def isCorrelated(plan: LogicalPlan): Boolean = plan match {
    case SkewGroupByHint(_, child) =>
      child.exists(_.expressions.exists(_.exists(_.isInstanceOf[OuterReference])))
    case _ => false
  }

  private def dropCorrelated(plan: LogicalPlan): LogicalPlan = plan match {
    case hint: SkewGroupByHint if isCorrelated(hint) => dropCorrelated(hint.child)
    case _ => plan.mapChildren(dropCorrelated)
  }

  private def isOurs(plan: LogicalPlan): Boolean = plan match {
    case hint: UnresolvedHint => hint.name.toLowerCase(Locale.ROOT) == SkewGroupByHint.Name
    case _ => false
  }

  private def resolve(plan: LogicalPlan, underAggregate: Boolean): LogicalPlan = plan match {
    case hint: UnresolvedHint if isOurs(hint) =>
      InUse.begin()
      val options = SkewOptions.parse(hint.parameters.map(text))
      val child = resolve(hint.child, underAggregate)
      val pushed =
        if (underAggregate || isDataFrame(hint.child)) None else pushBelowAggregate(options, child)
      val resolved = pushed.getOrElse(SkewGroupByHint(options, child))
      resolved.copyTagsFrom(hint) // Connect finds the columns of this DataFrame by them.
      resolved
    case node if SkewGroupByHint.isGroupBy(node) =>
      plan.mapChildren(resolve(_, underAggregate = true))
    case _: SubqueryAlias => plan.mapChildren(resolve(_, underAggregate = false))
    case _: UnaryNode => plan.mapChildren(resolve(_, underAggregate))
    case _ => plan.mapChildren(resolve(_, underAggregate = false))
  }

  /** A classic DataFrame is already analysed. Over Connect each DataFrame has an id. */
  private def isDataFrame(plan: LogicalPlan): Boolean =
    plan.analyzed || plan.getTagValue(LogicalPlan.PLAN_ID_TAG).isDefined

  /** The aggregate of a query block is below its HAVING, DISTINCT, windows and select list. */
  private def pushBelowAggregate(
      options: Map[String, String], plan: LogicalPlan): Option[LogicalPlan] = plan match {
    case aggregate @ (_: Aggregate | _: Pivot) =>
      Some(aggregate.mapChildren(SkewGroupByHint(options, _)))
    case node @ (_: Project | _: Filter | _: UnresolvedHaving | _: Distinct | _: Window |
        _: WithWindowDefinition | _: UnresolvedHint | _: Repartition |
        _: RepartitionByExpression | _: RebalancePartitions) =>
      pushBelowAggregate(options, node.children.head)
        .map(child => node.withNewChildren(Seq(child)))
    case _ => None
  }

  private def text(parameter: Any): String = parameter match {
    case name: UnresolvedAttribute => name.nameParts.mkString(".")
    case literal: Literal => String.valueOf(literal.value)
    case other: Expression => other.sql
    case other => String.valueOf(other)
  }
}

/**
 * Lifts the hint to its aggregate, so that it does not stop other rules. A hint without an
 * aggregate above it is dropped.
 *
 * {{{
 *   before:  Aggregate(k) - Project(k, v) - SkewGroupByHint - Relation(k, v, w)
 *   after:   Aggregate(k) - SkewGroupByHint - Project(k, v) - Relation(k, v, w)
 * }}}
 */
object LiftSkewGroupByHint extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (plan.exists(_.isInstanceOf[SkewGroupByHint])) strip(plan.transformUp(lift)) else plan

  private val lift: PartialFunction[LogicalPlan, LogicalPlan] = {
    case node if SkewGroupByHint.isGroupBy(node) => node
    case SkewGroupByHint(outer, SkewGroupByHint(inner, child)) =>
      SkewGroupByHint(inner ++ outer, child)
    case node: UnaryNode if node.child.isInstanceOf[SkewGroupByHint] =>
      val hint = node.child.asInstanceOf[SkewGroupByHint]
      hint.copy(child = node.withNewChildren(Seq(hint.child)))
    case node if node.children.length > 1 => node.mapChildren(strip)
  }

  private def strip(plan: LogicalPlan): LogicalPlan = plan match {
    case SkewGroupByHint(_, child) => child
    case _ => plan
  }
}
