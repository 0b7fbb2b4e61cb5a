package org.apache.spark.sql.saltwise.plan

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, Final, Partial}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution.{PlanLater, SparkPlan}
import org.apache.spark.sql.execution.aggregate.{BaseAggregateExec, HashAggregateExec}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.saltwise.{Auto, SaltwiseConf, SkewOptions, Strategies}
import org.apache.spark.sql.saltwise.compat.{NativeEngine, SparkCompat}
import org.apache.spark.sql.saltwise.local.UpdateOrMerge
import org.apache.spark.sql.saltwise.routing.StableColumns
import org.apache.spark.sql.types.IntegerType

/** Why an aggregate stays as Spark plans it. EXPLAIN and the reports show the reason. */
object ReasonToLeave {
  val NoAggregateFunction =
    "there is no aggregate function, and the map side already drops repeated keys"
  val OnePartition = "there is one partition, so there is nothing to balance"
  val AlreadyGrouped = "its rows are already grouped by key, without another shuffle"

  private val CombinedBelowJoin =
    "its rows are combined below the join, so nothing is left to do here"
  private val BypassPartial = "spark.sql.execution.bypassPartialAggregation"

  /** @param stock the aggregate as Spark's own strategy plans it */
  def apply(
      aggregate: Aggregate,
      options: SkewOptions,
      stock: Seq[SparkPlan],
      conf: SQLConf): Option[String] =
    ofStrategy(aggregate, options, stock, conf).orElse(
      if (options.strategy == Auto) reasonOfAuto(aggregate, stock, conf) else None)

  /**
   * Whether there is a reason not to split a join below an aggregate. One is that its states come
   * from below the join, where the rows of hot keys were combined.
   */
  def overJoin(
      aggregate: Aggregate,
      options: SkewOptions,
      stock: Seq[SparkPlan],
      conf: SQLConf): Boolean =
    ofStrategy(aggregate, options, stock, conf).isDefined || ofInput(aggregate, conf).isDefined ||
      mergesStates(aggregate)

  private def mergesStates(aggregate: Aggregate): Boolean =
    aggregateExpressions(aggregate).exists(_.aggregateFunction.isInstanceOf[UpdateOrMerge])

  def bypassesPartial(conf: SQLConf): Boolean =
    conf.getConfString(BypassPartial, "false").toBoolean

  private def ofStrategy(
      aggregate: Aggregate,
      options: SkewOptions,
      stock: Seq[SparkPlan],
      conf: SQLConf): Option[String] = {
    val aggregates = aggregateExpressions(aggregate)
    if (aggregates.exists(_.isDistinct) || isPhaseOfDistinct(aggregate)) {
      Some("a DISTINCT aggregate has phases of its own")
    } else if (aggregates.isEmpty) {
      Some(NoAggregateFunction)
    } else if (bypassesPartial(conf)) {
      Some(s"$BypassPartial is on, so there are no partial states to merge")
    } else if (!stock.forall(isTwoPhase(_, aggregate))) {
      Some(s"${functionNames(aggregates)} cannot be merged from partial states")
    } else if (options.workers == 1) {
      Some(OnePartition)
    } else if (Strategies.onlyPlaces(options.strategy)) {
      Some(s"strategy ${options.strategy.name} cannot place its keys")
    } else {
      None
    }
  }

  /** `auto` also leaves an aggregate alone if no other plan is faster, or certain to be right. */
  private def reasonOfAuto(
      aggregate: Aggregate, stock: Seq[SparkPlan], conf: SQLConf): Option[String] =
    if (generatesCode(stock.head) && mergesStates(aggregate)) {
      Some(CombinedBelowJoin)
    } else if (generatesCode(stock.head)) {
      val names = functionNames(aggregateExpressions(aggregate))
      Some(s"the states of $names have a fixed size, and the map side already combines them; " +
        "name a strategy to rewrite all the same")
    } else ofInput(aggregate, conf).orElse {
      if (conf.adaptiveExecutionEnabled && SparkCompat.checksRows(conf) &&
          !ClusteredRows.areIn(aggregate.child, aggregate.groupingExpressions) &&
          !StableColumns.sameRows(aggregate)) {
        Some("a task that runs again may read other rows, and Spark has to compare the two runs")
      } else {
        None
      }
    }

  private def ofInput(aggregate: Aggregate, conf: SQLConf): Option[String] =
    if (NativeEngine.running(conf).isDefined) {
      NativeEngine.running(conf).map(engine =>
        s"$engine runs the aggregate outside of the JVM; name a strategy to rewrite all the same")
    } else if (aggregate.child.stats.sizeInBytes <= conf.getConf(SaltwiseConf.SmallInput) &&
        !aggregate.child.exists(mayMakeRows)) {
      Some(smallInput(aggregate.child, conf))
    } else {
      None
    }

  /** The reason to leave a small input alone. */
  def smallInput(rows: LogicalPlan, conf: SQLConf): String =
    s"its input has about ${rows.stats.sizeInBytes} bytes, and spark.saltwise.auto.smallInput is " +
      s"${conf.getConf(SaltwiseConf.SmallInput)}"

  /**
   * Whether a node may have many more rows than its child. Spark estimates that it has as many, so
   * the estimate tells nothing. Of a stage that has run, the size is known.
   */
  private def mayMakeRows(node: LogicalPlan): Boolean = node match {
    case _: Generate | _: Expand | _: ScriptTransformation => true
    case _ => node.nodeName.matches(MapsRows)
  }

  /** Functions of Scala, Python and R that get many rows and return others. */
  private val MapsRows = "(Python)?(Flat)?Map(In|Groups|CoGroups|Partitions).*|CoGroup"

  private def aggregateExpressions(aggregate: Aggregate): Seq[AggregateExpression] =
    aggregate.aggregateExpressions.flatMap(_.collect { case e: AggregateExpression => e })

  private def functionNames(aggregates: Seq[AggregateExpression]): String =
    aggregates.map(_.aggregateFunction.prettyName).distinct.mkString(", ")

  /**
   * Whether this is one of the two aggregates that Spark makes of several DISTINCTs. The first one
   * groups by the group id `gid` too.
   */
  private def isPhaseOfDistinct(aggregate: Aggregate): Boolean = {
    def groupsById(plan: LogicalPlan): Boolean = plan match {
      case node: Aggregate if node.child.isInstanceOf[Expand] => node.groupingExpressions.exists {
        case key: Attribute => key.name == "gid" && key.dataType == IntegerType && !key.nullable
        case _ => false
      }
      case _ => false
    }
    groupsById(aggregate) || groupsById(aggregate.child)
  }

  /** Whether Spark generates code for both phases. Then no other plan combines rows faster. */
  private def generatesCode(stock: SparkPlan): Boolean = stock match {
    case node: HashAggregateExec => node.supportCodegen
    case _ => false
  }

  /** Whether the plan has exactly the phases Final and Partial, and reads the child once. */
  private def isTwoPhase(stock: SparkPlan, aggregate: Aggregate): Boolean = {
    val modes = stock.collect {
      case node: BaseAggregateExec => node.aggregateExpressions.map(_.mode).distinct
    }
    modes == Seq(Seq(Final), Seq(Partial)) &&
      stock.collect { case PlanLater(child) if child eq aggregate.child => child }.length == 1
  }
}
