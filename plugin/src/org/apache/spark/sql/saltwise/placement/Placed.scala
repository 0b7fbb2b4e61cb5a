package org.apache.spark.sql.saltwise.placement

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.saltwise.OrStock
import org.apache.spark.sql.saltwise.compat.SparkCompat
import org.apache.spark.sql.saltwise.plan.PassesRows
import org.apache.spark.sql.saltwise.routing.SkewReceiveExec

/** Sends all rows of a key to one worker. The expression `worker`, a [[PlaceKey]], chooses it. */
final case class Placed(
    keys: Seq[Attribute], worker: Expression, workers: Int, child: LogicalPlan) extends PassesRows {
  override protected def withNewChildInternal(c: LogicalPlan): Placed = copy(child = c)
}

/**
 * Plans a [[Placed]] as an exchange. It satisfies the clustering that the node above asks for, so
 * Spark adds no exchange.
 *
 * {{{
 *   before:  FlatMapGroupsInPandas(k) - Placed(k) - t
 *   after:   FlatMapGroupsInPandas(k) - Sort(k) - SkewReceive - Exchange(placement of k) - t
 * }}}
 *
 * If the exchange cannot be made, only the rows are planned, and Spark adds its own exchange.
 */
object PlanPlaced extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case Placed(keys, worker, workers, child) =>
      val rows = planLater(child)
      OrStock("PlaceGroups", rows) {
        val partitioning = new PlacementPartitioning(keys, workers, worker)
        SkewReceiveExec(SparkCompat.exchange(partitioning, rows))
      } :: Nil
    case _ => Nil
  }
}
