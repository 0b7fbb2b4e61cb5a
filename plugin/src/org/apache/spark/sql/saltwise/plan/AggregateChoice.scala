package org.apache.spark.sql.saltwise.plan

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, LogicalPlan}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.adaptive.LogicalQueryStage
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.saltwise.{Auto, SaltwiseConf, SkewOptions}
import org.apache.spark.sql.saltwise.compat.SparkCompat
import org.apache.spark.sql.saltwise.join.SkewJoinSplit
import org.apache.spark.sql.saltwise.placement.Placed
import org.apache.spark.sql.saltwise.routing.RoutedRows

/** A GROUP BY over a table, with keys, that no other rule of Saltwise has dealt with. */
object GroupBy {

  /** The aggregate, and the options of its hint. */
  def unapply(plan: LogicalPlan): Option[(Aggregate, Option[Map[String, String]])] = plan match {
    // Spark's own strategy plans streaming aggregates. RouteStreams has put a node below them.
    case aggregate: Aggregate if aggregate.groupingExpressions.nonEmpty &&
        !aggregate.isStreaming && !isDecided(aggregate.child) =>
      Some((aggregate, SkewGroupByHint.below(aggregate).map(_.options)))
    case _ => None
  }

  private def isDecided(rows: LogicalPlan): Boolean = rows match {
    case _: Placed | _: LeftAlone => true
    case stage: LogicalQueryStage => isDecided(stage.logicalPlan)
    case _ => false
  }
}

/**
 * Spark's own plan of an aggregate, and what becomes of it. Spark has not planned the child of the
 * aggregate at this point, so nothing is planned twice.
 */
final class AggregateChoice(session: SparkSession) {
  private lazy val stockAggregation: SparkStrategy = SparkCompat.state(session).planner.Aggregation

  def stock(aggregate: Aggregate): Seq[SparkPlan] = stockAggregation(aggregate)

  /** The options of an aggregate with this hint. */
  def options(hint: Map[String, String], conf: SQLConf): SkewOptions = {
    val resolved = SkewOptions.resolve(hint, conf)
    if (conf.adaptiveExecutionEnabled) resolved else resolved.withoutAdaptiveExecution
  }

  /** Whether an aggregate is over a join that Spark may split if the aggregate lets it. */
  def splitsJoin(
      aggregate: Aggregate,
      options: SkewOptions,
      stock: Seq[SparkPlan],
      conf: SQLConf): Boolean =
    options.strategy == Auto && conf.adaptiveExecutionEnabled &&
      conf.getConf(SaltwiseConf.JoinSplit) && conf.getConf(SQLConf.SKEW_JOIN_ENABLED) &&
      SkewJoinSplit.isBelow(GroupingKeys.of(aggregate), aggregate.child, conf) &&
      !ReasonToLeave.overJoin(aggregate, options, stock, conf)

  /** How an aggregate is rewritten; Left is why it is left alone. */
  def of(
      aggregate: Aggregate,
      hint: Map[String, String],
      options: SkewOptions,
      stock: Seq[SparkPlan],
      conf: SQLConf): Either[String, RoutedRows] =
    for {
      _ <- ReasonToLeave(aggregate, options, stock, conf).toLeft(())
      rows <- RoutedRows.of(
        GroupingKeys.of(aggregate), aggregate.child, options, hotInHint = hint.contains("hot"))
    } yield rows
}
