package org.apache.spark.sql.saltwise.plan

import java.util.Locale

import org.apache.spark.sql.catalyst.analysis.{UnresolvedAttribute, UnresolvedHaving}
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression, Literal, OuterReference}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.adaptive.LogicalQueryStage
import org.apache.spark.sql.saltwise.SkewOptions
import org.apache.spark.sql.saltwise.compat.GroupMap

/** Says how the aggregate right above is to be rewritten. It does nothing by itself. */
final case class SkewGroupByHint(options: Map[String, String], child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override def maxRows: Option[Long] = child.maxRows
  override protected def withNewChildInternal(newChild: LogicalPlan): SkewGroupByHint = copy(child = newChild)
}

object SkewGroupByHint {
  val Name = "skew_groupby"

  /** Whether a hint below means this node. */
  def isGroupBy(plan: LogicalPlan): Boolean =
    plan.isInstanceOf[Aggregate] || GroupMap.keys(plan).isDefined || GroupMap.keepsState(plan)

  /** The hint that belongs to an aggregate: below it, with nothing between but single-child operators. */
  def below(aggregate: UnaryNode): Option[SkewGroupByHint] = {
    def find(plan: LogicalPlan): Option[SkewGroupByHint] = plan match {
      case hint: SkewGroupByHint => Some(hint)
      case node if isGroupBy(node) => None
      case node: UnaryNode => find(node.child)
      // Once AQE has run a stage, this node stands for what it ran, the hint included.
      case stage: LogicalQueryStage => find(stage.logicalPlan)
      case _ => None
    }
    find(aggregate.child)
  }
}

/**
 * Puts the hint where its aggregate finds it: right below.
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
 * In SQL the parser puts a hint on top of its query block; on a DataFrame it means the aggregate that follows.
 * The two differ in what lies around the hint: within one query block nothing but an alias parts a hint from
 * the blocks around it, and the child of a DataFrame's hint is a DataFrame.
 */
object ResolveSkewGroupByHint extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (plan.exists(isOurs)) resolve(plan, underAggregate = false)
    else if (plan.exists(isCorrelated)) dropCorrelated(plan)
    else plan

  /** Spark allows no operator that it does not know above a reference to the outer query. */
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
      val options = SkewOptions.parse(hint.parameters.map(text))
      val child = resolve(hint.child, underAggregate)
      val ofThisBlock =
        if (underAggregate || isOfDataFrame(hint.child)) None else pushBelowAggregate(options, child)
      val resolved = ofThisBlock.getOrElse(SkewGroupByHint(options, child))
      resolved.copyTagsFrom(hint) // by which Connect finds the columns of this DataFrame
      resolved
    case node if SkewGroupByHint.isGroupBy(node) => plan.mapChildren(resolve(_, underAggregate = true))
    case _: SubqueryAlias => plan.mapChildren(resolve(_, underAggregate = false))
    case _: UnaryNode => plan.mapChildren(resolve(_, underAggregate))
    case _ => plan.mapChildren(resolve(_, underAggregate = false))
  }

  /** A classic DataFrame has been analysed by itself; over Connect each one has a number. */
  private def isOfDataFrame(plan: LogicalPlan): Boolean =
    plan.analyzed || plan.getTagValue(LogicalPlan.PLAN_ID_TAG).isDefined

  /** The aggregate of a query block lies below its HAVING, DISTINCT, windows and select list. */
  private def pushBelowAggregate(options: Map[String, String], plan: LogicalPlan): Option[LogicalPlan] =
    plan match {
      case aggregate @ (_: Aggregate | _: Pivot) =>
        Some(aggregate.mapChildren(SkewGroupByHint(options, _)))
      case node @ (_: Project | _: Filter | _: UnresolvedHaving | _: Distinct | _: Window |
          _: WithWindowDefinition | _: UnresolvedHint | _: Repartition | _: RepartitionByExpression |
          _: RebalancePartitions) =>
        pushBelowAggregate(options, node.children.head).map(child => node.withNewChildren(Seq(child)))
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
 * Lifts the hint to its aggregate, so that it stands in the way of no other rule, and drops a hint that no
 * aggregate follows.
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
    case SkewGroupByHint(outer, SkewGroupByHint(inner, child)) => SkewGroupByHint(inner ++ outer, child)
    case node: UnaryNode if node.child.isInstanceOf[SkewGroupByHint] && !node.isInstanceOf[SkewGroupByHint] =>
      val hint = node.child.asInstanceOf[SkewGroupByHint]
      hint.copy(child = node.withNewChildren(Seq(hint.child)))
    case node if node.children.length > 1 => node.mapChildren(strip)
  }

  private def strip(plan: LogicalPlan): LogicalPlan = plan match {
    case SkewGroupByHint(_, child) => child
    case _ => plan
  }
}
