package org.apache.spark.sql.saltwise.join

import org.apache.spark.sql.catalyst.SQLConfHelper
import org.apache.spark.sql.catalyst.expressions.{
  Attribute, AttributeSet, ExpressionSet, NamedExpression}
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, Partial}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Statistics}
import org.apache.spark.sql.execution.{ProjectExec, SparkPlan, SparkStrategy}
import org.apache.spark.sql.saltwise.{OrStock, SaltwiseConf, SkewOptions}
import org.apache.spark.sql.saltwise.local.{CombineExec, RawRows}
import org.apache.spark.sql.saltwise.plan.StandsForRows

/**
 * The rows of one side of a join, of which a map task combines those with the same keys into
 * states, where that pays. The columns are those of [[RawRows]]; where a row carries a state, the
 * columns beside the keys are NULL.
 */
final case class CombinedRows(
    keys: Seq[Attribute],
    columns: Seq[NamedExpression],
    aggregates: Seq[AggregateExpression],
    noState: NamedExpression,
    child: LogicalPlan)
  extends StandsForRows {

  override def output: Seq[Attribute] =
    keys ++ added.map(_.withNullability(true)) :+ noState.toAttribute
  // A column of the rows that passes through must not be pruned below.
  override def producedAttributes: AttributeSet =
    AttributeSet(added.filterNot(child.outputSet.contains) :+ noState.toAttribute)
  override def maxRows: Option[Long] = child.maxRows

  // What is known of a column does not hold for rows that carry states.
  override lazy val validConstraints: ExpressionSet = ExpressionSet()

  /** Spark chooses joins by these. It would take the states for large ones. */
  override def stats: Statistics = child.stats

  private def added: Seq[Attribute] = columns.drop(keys.length).map(_.toAttribute)

  override protected def withNewChildInternal(c: LogicalPlan): CombinedRows = copy(child = c)
}

object CombinedRows {
  def apply(rows: RawRows, child: LogicalPlan): CombinedRows =
    CombinedRows(rows.keys, rows.columns, rows.aggregates, rows.noState, child)
}

/**
 * Plans a [[CombinedRows]].
 *
 * {{{
 *   before:  Join(k) - CombinedRows(k) - t
 *   after:   SortMergeJoin(k) - Sort(k) - Exchange(k) - Combine(k)
 *              - Project(k, v, NULL AS state) - t
 * }}}
 *
 * If the operator cannot be made, all rows are sent as they are.
 */
object PlanCombinedRows extends SparkStrategy with SQLConfHelper {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case rows: CombinedRows =>
      val raw = ProjectExec(rows.columns :+ rows.noState, planLater(rows.child))
      OrStock[SparkPlan]("AggregateBelowJoin", raw) {
        CombineExec(
          rows.keys,
          rows.aggregates.map(_.copy(mode = Partial)),
          SkewOptions.resolve(Map.empty, conf),
          conf.getConf(SaltwiseConf.LocalMemory),
          belowJoin = true,
          raw)
      } :: Nil
    case _ => Nil
  }
}
