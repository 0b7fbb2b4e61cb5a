package org.apache.spark.sql.saltwise.join

import org.apache.spark.sql.catalyst.expressions.SortOrder
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{SortExec, SparkPlan}
import org.apache.spark.sql.execution.exchange.ShuffleExchangeLike
import org.apache.spark.sql.saltwise.local.CombineExec

/**
 * Drops a Combine below a join where no exchange would carry its states: the rows lie by the keys
 * of the join already, or the other side is broadcast after all.
 *
 * {{{
 *   before:  BroadcastHashJoin(k) - [Combine(k) - Project(k, v, NULL AS state) - t, r]
 *   after:   BroadcastHashJoin(k) - [Project(k, v, NULL AS state) - t, r]
 * }}}
 */
object DropIdleCombine extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan =
    if (plan.exists(isBelowJoin)) dropped(plan) else plan

  private def dropped(plan: SparkPlan): SparkPlan = plan match {
    case exchange: ShuffleExchangeLike => exchange.mapChildren {
      case combine: CombineExec => combine.mapChildren(dropped)
      case other => dropped(other)
    }
    case sort @ SortExec(order, false, combine: CombineExec, _) if combine.belowJoin =>
      val rows = dropped(combine.child)
      if (SortOrder.orderingSatisfies(rows.outputOrdering, order)) rows
      else sort.withNewChildren(Seq(rows))
    case combine: CombineExec if combine.belowJoin => dropped(combine.child)
    case other => other.mapChildren(dropped)
  }

  private def isBelowJoin(plan: SparkPlan): Boolean = plan match {
    case combine: CombineExec => combine.belowJoin
    case _ => false
  }
}
