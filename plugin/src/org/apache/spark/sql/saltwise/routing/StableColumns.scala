package org.apache.spark.sql.saltwise.routing

import org.apache.spark.rdd.DeterministicLevel
import org.apache.spark.sql.catalyst.catalog.HiveTableRelation
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution.{LogicalRDD, SparkPlan}
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, LogicalQueryStage}
import org.apache.spark.sql.execution.columnar.InMemoryRelation
import org.apache.spark.sql.execution.datasources.LogicalRelation
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation
import org.apache.spark.sql.saltwise.plan.{
  GroupingKeys, PassesRows, SkewGroupByHint, StandsForRows}
import org.apache.spark.sql.types._

/**
 * The columns of a plan that are the same, bit for bit, when a task runs again.
 *
 * These are the columns of tables, files and ranges, and what deterministic projections, counts and
 * exact sums compute from them. The results of other aggregates and of windows may depend on the
 * order in which rows arrived: first, collect_list, the last bits of a sum of doubles. Such a
 * result must not choose the worker of a row. The row could go to another worker in the second
 * run, and be lost or counted twice.
 *
 * {{{
 *   SELECT k, upper(v) AS u, s FROM (SELECT k, v, sum(x) AS s FROM t GROUP BY k, v)
 *
 *   stable: k, u
 * }}}
 */
object StableColumns {

  def apply(plan: LogicalPlan): AttributeSet = plan match {
    case stage: LogicalQueryStage => apply(stage.logicalPlan)
    case cached: InMemoryRelation => stableInCache(cached)
    case rows: LogicalRDD if keepsOrder(rows) => rows.outputSet
    case leaf: LeafNode if canBeReadAgain(leaf) => leaf.outputSet
    case union: Union =>
      val stable = union.children.map(child => child.output.map(apply(child).contains))
      AttributeSet(union.output.zip(stable.transpose).collect {
        case (column, inEachChild) if inEachChild.forall(identity) => column
      })
    case project: Project => stableAmong(project.projectList, apply(project.child))
    case rows: StandsForRows => apply(rows.child).intersect(AttributeSet(rows.keys))
    case generate: Generate =>
      withAdded(generate.generatorOutput, Seq(generate.generator), generate.child)
    case python: BaseEvalPython => withAdded(python.resultAttrs, python.udfs, python.child)
    case expand: Expand =>
      val stable = apply(expand.child)
      AttributeSet(expand.output.zip(expand.projections.transpose).collect {
        case (column, values) if values.forall(repeats(_, stable)) => column
      })
    case aggregate: Aggregate => stableInAggregate(aggregate)
    case node => AttributeSet(node.children.flatMap(apply(_))).intersect(node.outputSet)
  }

  /**
   * Whether rows stay in the tasks that read them, as far as the logical plan shows. Then a second
   * run returns the same rows in the same order, even if rand() computes them.
   */
  def staysInPlace(plan: LogicalPlan): Boolean = plan match {
    case rows: LogicalRDD => keepsOrder(rows)
    case cached: InMemoryRelation => logical(cached).exists(staysInPlace)
    case _: LogicalQueryStage => false
    case leaf: LeafNode => canBeReadAgain(leaf)
    case _: Project | _: Filter | _: Generate | _: BaseEvalPython | _: Expand | _: Sample |
        _: SkewGroupByHint | _: Union | _: DeserializeToObject | _: SerializeFromObject |
        _: MapElements | _: MapPartitions | _: TypedFilter | _: MapInPandas |
        _: EventTimeWatermark => plan.children.forall(staysInPlace)
    case _ => false
  }

  /**
   * Whether a second run has the same rows, or the same groups. Their order may differ, and so may
   * results of aggregates that depend on the order.
   */
  def sameRows(plan: LogicalPlan): Boolean = sameRows(plan, window =>
    window.windowExpressions.flatMap(_.collect { case w: WindowExpression => w })
      .forall(isOfWholePartition) &&
      window.partitionSpec.forall(repeats(_, apply(window.child))))

  /**
   * Whether a second run has the same rows as far as their stable columns show. A window adds
   * columns that are not stable. A filter of these, a LIMIT and a sample keep other rows.
   */
  def sameStableRows(plan: LogicalPlan): Boolean = sameRows(plan, _ => true)

  private def sameRows(plan: LogicalPlan, sameIn: Window => Boolean): Boolean = {
    def same(plan: LogicalPlan): Boolean = staysInPlace(plan) || (plan match {
      case project: Project => project.projectList.forall(_.deterministic) && same(project.child)
      case filter: Filter => repeats(filter.condition, apply(filter.child)) && same(filter.child)
      case join: Join =>
        val stable = AttributeSet(join.children.flatMap(apply(_)))
        join.condition.forall(repeats(_, stable)) && join.children.forall(same)
      case generate: Generate =>
        repeats(generate.generator, apply(generate.child)) && same(generate.child)
      case aggregate: Aggregate =>
        val stable = apply(aggregate.child)
        val filters = aggregate.aggregateExpressions.flatMap(_.collect {
          case e: AggregateExpression => e.filter
        }).flatten
        staysInPlace(aggregate.child) ||
          ((aggregate.groupingExpressions ++ filters).forall(repeats(_, stable)) &&
            same(aggregate.child))
      case window: Window => sameIn(window) && same(window.child)
      case rows: RepartitionByExpression =>
        rows.partitionExpressions.forall(repeats(_, apply(rows.child))) && same(rows.child)
      case python: BaseEvalPython => python.udfs.forall(_.deterministic) && same(python.child)
      case stage: LogicalQueryStage => same(stage.logicalPlan)
      case cached: InMemoryRelation => logical(cached).exists(same)
      case _: Expand | _: Sort | _: Repartition | _: Union | _: RebalancePartitions |
          _: PassesRows | _: StandsForRows | _: EventTimeWatermark => plan.children.forall(same)
      case _ => false
    })
    same(plan)
  }

  /** Whether all rows of a partition get the same value. */
  private def isOfWholePartition(function: WindowExpression): Boolean =
    function.windowFunction.isInstanceOf[AggregateExpression] &&
      (function.windowSpec.frameSpecification match {
        case SpecifiedWindowFrame(_, UnboundedPreceding, UnboundedFollowing) => true
        case _ => false
      })

  private def canBeReadAgain(leaf: LeafNode): Boolean = leaf match {
    case _: LogicalRelation | _: HiveTableRelation | _: DataSourceV2ScanRelation | _: Range |
        _: LocalRelation | _: OneRowRelation => true
    case _: LogicalRDD => false
    // The source of a stream. Its class differs between Spark versions.
    case other => other.isStreaming
  }

  private def keepsOrder(rows: LogicalRDD): Boolean =
    rows.rdd.outputDeterministicLevel == DeterministicLevel.DETERMINATE

  /** A lost block of a cache is computed again, so a column is stable where its source is. */
  private def stableInCache(cached: InMemoryRelation): AttributeSet = {
    val below = planned(cached)
    AttributeSet(logical(cached).toSeq.flatMap { logical =>
      val stable = apply(logical)
      cached.output.zip(below.output).collect {
        case (column, source) if stable.contains(source) => column
      }
    })
  }

  /** The plan of a cache's query, without the operators that convert its rows. */
  private def logical(cached: InMemoryRelation): Option[LogicalPlan] =
    planned(cached).find(_.logicalLink.isDefined).flatMap(_.logicalLink)

  private def planned(cached: InMemoryRelation): SparkPlan = cached.cacheBuilder.cachedPlan match {
    case adaptive: AdaptiveSparkPlanExec => adaptive.inputPlan
    case other => other
  }

  private def stableInAggregate(aggregate: Aggregate): AttributeSet = {
    val stable = apply(aggregate.child)
    val keys = AttributeSet(aggregate.groupingExpressions.collect { case key: Attribute => key })
    // If a grouping column may differ, the groups may differ too.
    val sameGroups = aggregate.groupingExpressions.forall(repeats(_, stable))
    // A result that repeats is replaced by a constant. The remaining functions may not repeat.
    val results = aggregate.aggregateExpressions.map(_.transform {
      case e: AggregateExpression
          if sameGroups && isOrderFree(e.aggregateFunction) && repeats(e, stable) =>
        Literal.create(null, e.dataType)
    })
    // Which of several equal texts stands for a group depends on the order of rows.
    stableAmong(results, AttributeSet(stable.filter(key =>
      keys.contains(key) && !GroupingKeys.isCollated(key.dataType))))
  }

  private def isOrderFree(function: AggregateFunction): Boolean = function match {
    case _: Count => true
    case _: Sum | _: Min | _: Max => function.children.head.dataType match {
      case _: IntegralType | _: DecimalType | DateType | TimestampType | TimestampNTZType |
          BooleanType | BinaryType | StringType => true
      case _ => false
    }
    case _ => false
  }

  /** The columns among `expressions` that repeat, if the columns that they read are `stable`. */
  private def stableAmong(expressions: Seq[Expression], stable: AttributeSet): AttributeSet =
    AttributeSet(expressions.collect {
      case column: Attribute if stable.contains(column) => column
      case alias @ Alias(e, _)
          if repeats(e, stable) && !e.exists(_.isInstanceOf[AggregateExpression]) =>
        alias.toAttribute
    })

  /** The stable columns of `child`, and `added`, which `functions` compute, if these repeat. */
  private def withAdded(
      added: Seq[Attribute], functions: Seq[Expression], child: LogicalPlan): AttributeSet = {
    val stable = apply(child)
    if (functions.forall(repeats(_, stable))) stable ++ AttributeSet(added) else stable
  }

  private def repeats(e: Expression, stable: AttributeSet): Boolean =
    e.deterministic && e.references.subsetOf(stable)
}
