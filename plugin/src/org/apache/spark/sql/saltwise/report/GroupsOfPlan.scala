package org.apache.spark.sql.saltwise.report

import java.lang.{Boolean => JBoolean}
import java.util.{Collections, IdentityHashMap}

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.physical.ClusteredDistribution
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, QueryStageExec}
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.exchange._
import org.apache.spark.sql.execution.window.WindowExec
import org.apache.spark.sql.saltwise.plan.{
  Reported, ReportedJoin, ReportedOperator, ReportedPartitioning, ReportedRead, ReportedSample,
  ReportedSlices}
import org.apache.spark.sql.saltwise.sketch.HotKeysSeen.HotKey

/**
 * The groups that a plan made: those of an aggregate, a window, or a function that gets whole
 * groups, or the rows that were combined below a join.
 *
 * @param node     the operator that needed the rows of a key together, or made slices of them
 * @param shuffled what read the exchange that carried the rows, or the states where Spark combines
 *                 them first
 * @param combined the operator of Saltwise below that exchange
 * @param strategy what ran; empty where Spark's own plan did
 * @param reason   why Spark's own plan ran
 */
private[report] final case class GroupsOfPlan(
    node: SparkPlan,
    shuffled: Option[SparkPlan],
    combined: Option[ReportedOperator],
    strategy: String,
    reason: String) {
  import GroupsOfPlan._

  private def forJoin: Option[ReportedJoin] = combined.flatMap(_.forJoin)

  def keys: Seq[String] = (node match {
    case slices: ReportedSlices => slices.keys
    case _ => forJoin.fold(clustering(node))(_.keys)
  }).map {
    case column: Attribute => nameInQuery(column).getOrElse(column.name)
    case other => other.sql
  }

  /** The query's name of a computed key. It is in the result, because Spark uses its own name. */
  private def nameInQuery(key: Attribute): Option[String] = node match {
    case aggregate: BaseAggregateExec => aggregate.resultExpressions.collectFirst {
      case Alias(column: Attribute, name) if column.exprId == key.exprId => name
    }
    case _ => None
  }

  def functions: Seq[String] = node match {
    case aggregate: BaseAggregateExec =>
      aggregate.aggregateExpressions.map(_.aggregateFunction.prettyName).distinct
    case _ => forJoin.toSeq.flatMap(_.functions)
  }

  def wouldRun: String = {
    def tag(name: TreeNodeTag[String]) =
      node.getTagValue(name).orElse(node.logicalLink.flatMap(_.getTagValue(name)))
    tag(Reported.JoinWouldRun).orElse(tag(Reported.WouldRun).map { would =>
      if (alreadyGrouped) s"nothing: ${Reported.AlreadyGrouped}" else would
    }).getOrElse("")
  }

  /** Whether Spark has put no exchange between the phases of this aggregate. */
  private def alreadyGrouped: Boolean = below(node.children)
    .takeWhile(!_.isInstanceOf[ShuffleExchangeLike]).exists(_.isInstanceOf[BaseAggregateExec])

  def hotKeys: Seq[HotKey] = combined.toSeq.flatMap(_.hotKeys)

  /** A metric of the operator of Saltwise. */
  def metric(name: String): Option[Long] =
    combined.orElse(Some(node).filter(_.isInstanceOf[ReportedSlices]))
      .flatMap(_.metrics.get(name)).map(_.value)

  /** The rows that came in, if Saltwise's operator counts them, or Spark those of its input. */
  def read: Option[Long] = metric("rows").orElse {
    val under = shuffled.toSeq.flatMap(exchange => below(exchange.children))
    if (!under.exists(_.isInstanceOf[BaseAggregateExec])) None
    else under.dropWhile(!_.isInstanceOf[BaseAggregateExec]).drop(1)
      .flatMap(_.metrics.get("numOutputRows")).headOption.map(_.value)
  }
}

private[saltwise] object GroupsOfPlan {
  private val InSlices = "slices"
  private val NoSlices = "its keys were sampled, and none needs slices"

  def of(plan: SparkPlan): Seq[GroupsOfPlan] = {
    // A subquery may be in a plan twice, but runs once. The branches with and without slices belong
    // to the same groups.
    val seen = Collections.newSetFromMap(new IdentityHashMap[SparkPlan, JBoolean])
    visit(plan, reason = None).filter { groups =>
      seen.add(groups.shuffled.filter(_ => groups.strategy.nonEmpty).getOrElse(groups.node))
    }
  }

  private def visit(plan: SparkPlan, reason: Option[String]): Seq[GroupsOfPlan] = plan match {
    case adaptive: AdaptiveSparkPlanExec => visit(adaptive.executedPlan, reason)
    case stage: QueryStageExec => visit(stage.plan, reason)
    // The exchange ran at its first place in the plan.
    case _: ReusedExchangeExec => Nil
    case Reported.LeftAlone(why, child) => visit(child, Some(why))
    case code: WholeStageCodegenExec => visit(code.child, reason)
    case code: InputAdapter => visit(code.child, reason)
    case slices: ReportedSlices => inSlices(slices) +: slices.children.flatMap(visit(_, None))
    case node =>
      val here = if (hasGroups(node) && !isOfSlices(node)) Seq(groups(node, reason)) else Nil
      here ++ forJoin(node) ++ (node.children ++ node.subqueries).flatMap(visit(_, None))
  }

  private def inSlices(slices: ReportedSlices): GroupsOfPlan = {
    val exchange = slices.children.head match {
      case read: ReportedRead => Some(read).filter(_.metrics.nonEmpty)
      case child =>
        below(Seq(child)).collectFirst { case exchange: ShuffleExchangeLike => exchange }
    }
    GroupsOfPlan(slices, exchange, None, InSlices, "")
  }

  /** The rows that were combined below a join, for each side of it. */
  private def forJoin(join: SparkPlan): Seq[GroupsOfPlan] =
    if (join.children.length < 2) Nil
    else for {
      side <- join.children
      shuffled <- below(Seq(side)).collectFirst { case exchange: ShuffleExchangeLike => exchange }
      combined <- below(shuffled.children).collectFirst {
        case operator: ReportedOperator if operator.forJoin.isDefined => operator
      }
    } yield GroupsOfPlan(join, Some(shuffled), Some(combined), combined.options.strategy.name, "")

  /** The keys whose rows a node needs together. */
  private def clustering(node: SparkPlan): Seq[Expression] = node.requiredChildDistribution match {
    case Seq(clustered: ClusteredDistribution) if !node.nodeName.startsWith("WindowGroupLimit") =>
      clustered.clustering
    case _ => Nil
  }

  /** A window without PARTITION BY has no keys, and needs all rows together. */
  private def hasGroups(node: SparkPlan): Boolean =
    clustering(node).nonEmpty || node.isInstanceOf[WindowExec]

  /** Whether a window is over slices, or over the other keys, which the slices' report covers. */
  private def isOfSlices(node: SparkPlan): Boolean = node.isInstanceOf[WindowExec] &&
    withoutSort(node.children.head).collectFirst {
      case _: ReportedSlices => true
      case read: ReportedRead => read.isBesideSlices
    }.getOrElse(false)

  private def withoutSort(plan: SparkPlan): Option[SparkPlan] = plan match {
    case _: SortExec | _: WholeStageCodegenExec | _: InputAdapter =>
      withoutSort(plan.children.head)
    case other => Some(other)
  }

  private def groups(node: SparkPlan, reason: Option[String]): GroupsOfPlan = {
    val above = below(node.children)
    val exchange = above.collectFirst { case exchange: ShuffleExchangeLike => exchange }
    // A plan in two phases carries states in this exchange, and rows in the one below.
    val ofRows = exchange.flatMap { states =>
      below(states.children).collectFirst {
        case rows: ShuffleExchangeLike if strategyOf(rows).isDefined => rows
      }
    }
    val shuffled = ofRows.filter(_ => node.isInstanceOf[BaseAggregateExec]).orElse(exchange)
    val under = shuffled.toSeq.flatMap(rows => below(rows.children))
    val combined = under.collectFirst { case operator: ReportedOperator => operator }
    val left = (above ++ under).collectFirst { case Reported.LeftAlone(why, _) => why }
    val whole = exchange.map(_.outputPartitioning).collect { case _: ReportedSample => NoSlices }
    GroupsOfPlan(
      node,
      shuffled,
      combined,
      combined.map(_.options.strategy.name).orElse(shuffled.flatMap(strategyOf)).getOrElse(""),
      reason.orElse(left).orElse(whole).getOrElse(""))
  }

  private def strategyOf(exchange: ShuffleExchangeLike): Option[String] =
    exchange.outputPartitioning match {
      case partitioning: ReportedPartitioning => Some(partitioning.sentBy)
      case _ => None
    }

  /**
   * The nodes from here down to the next exchanges, with these. It stops at a node with groups of
   * its own, because the nodes below belong to those groups.
   */
  private def below(nodes: Seq[SparkPlan]): Seq[SparkPlan] = nodes.flatMap {
    case exchange: ShuffleExchangeLike => Seq(exchange)
    case stage: QueryStageExec => below(Seq(stage.plan))
    case adaptive: AdaptiveSparkPlanExec => below(Seq(adaptive.executedPlan))
    case reused: ReusedExchangeExec => below(Seq(reused.child))
    case node if hasGroups(node) => Nil
    case read: ReportedRead => below(Seq(read.read))
    // The nodes below a join are not the input of these groups alone.
    case node if node.children.length > 1 || node.isInstanceOf[BroadcastExchangeLike] => Nil
    // The reason belongs to the groups right below it.
    case Reported.LeftAlone(_, node) if hasGroups(node) => Nil
    case node => node +: below(node.children)
  }
}
