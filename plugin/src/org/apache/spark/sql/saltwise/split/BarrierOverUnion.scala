package org.apache.spark.sql.saltwise.split

import org.apache.spark.sql.execution.{SparkPlan, UnionExec}
import org.apache.spark.sql.execution.adaptive.QueryStageExec
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.execution.python.MapInBatchExec
import org.apache.spark.sql.saltwise.compat.SparkCompat

/** Spark starts the tasks of a barrier stage together, and allows no union in it. */
object BarrierOverUnion {
  def isIn(plan: SparkPlan): Boolean = plan.exists {
    case node: MapInBatchExec => SparkCompat.isBarrier(node) && readsUnion(node)
    case _ => false
  }

  private def readsUnion(plan: SparkPlan): Boolean = plan match {
    case _: Exchange | _: QueryStageExec => false
    case node => node.isInstanceOf[UnionExec] || node.children.exists(readsUnion)
  }
}
