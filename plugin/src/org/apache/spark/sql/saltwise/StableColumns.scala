package org.apache.spark.sql.saltwise

import org.apache.spark.sql.catalyst.catalog.HiveTableRelation
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, AttributeSet, Expression}
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, LogicalQueryStage}
import org.apache.spark.sql.execution.columnar.InMemoryRelation
import org.apache.spark.sql.execution.datasources.LogicalRelation

/**
 * The columns of a plan that are the same, bit for bit, when a task runs again: those of tables, files and ranges,
 * and what deterministic projections make of them. What an aggregate or a window computes may differ by the order in which
 * rows arrived (first, collect_list, the last bits of a sum of doubles), so it may not choose a row's worker: the
 * row would go elsewhere in the second run, and be lost or counted twice.
 *
 * {{{
 *   SELECT k, upper(v) AS u, s FROM (SELECT k, v, sum(x) AS s FROM t GROUP BY k, v)      stable: k, u
 * }}}
 */
object StableColumns {

  def apply(plan: LogicalPlan): AttributeSet = plan match {
    case stage: LogicalQueryStage => apply(stage.logicalPlan)
    case cached: InMemoryRelation => ofCached(cached)
    case input @ (_: LogicalRelation | _: HiveTableRelation | _: Range | _: LocalRelation) => input.outputSet
    case union: Union =>
      val stable = union.children.map(child => child.output.map(apply(child).contains))
      AttributeSet(union.output.zip(stable.transpose).collect { case (column, all) if all.forall(identity) => column })
    case project: Project => computed(project.projectList, apply(project.child))
    case aggregate: Aggregate =>
      val keys = AttributeSet(aggregate.groupingExpressions.collect { case key: Attribute => key })
      computed(aggregate.aggregateExpressions, AttributeSet(apply(aggregate.child).filter(keys.contains)))
    case node => AttributeSet(node.children.flatMap(apply(_))).intersect(node.outputSet)
  }

  /** A lost block of a cache is computed again, so what holds is what holds below the cache. */
  private def ofCached(cached: InMemoryRelation): AttributeSet = {
    val planned = cached.cacheBuilder.cachedPlan match {
      case adaptive: AdaptiveSparkPlanExec => adaptive.inputPlan
      case other => other
    }
    AttributeSet(planned.logicalLink.toSeq.flatMap { below =>
      val stable = apply(below)
      cached.output.zip(planned.output).collect { case (column, source) if stable.contains(source) => column }
    })
  }

  private def computed(expressions: Seq[Expression], stable: AttributeSet): AttributeSet =
    AttributeSet(expressions.collect {
      case column: Attribute if stable.contains(column) => column
      case alias @ Alias(e, _) if e.deterministic && e.references.subsetOf(stable) &&
          !e.exists(_.isInstanceOf[AggregateExpression]) => alias.toAttribute
    })
}
