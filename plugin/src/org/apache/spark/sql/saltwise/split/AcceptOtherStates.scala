package org.apache.spark.sql.saltwise.split

import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.adaptive.ShuffleQueryStageExec
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec
import org.apache.spark.sql.saltwise.compat.SparkCompat
import org.apache.spark.sql.saltwise.local.CombineExec

/**
 * Tells Spark, once an exchange of states has run, that a map task may write other states when it
 * runs again. The plan stays as it is.
 *
 * Without that, Spark 4.2 and later may end a job whose map task writes other rows in a second run.
 * This is not needed where only states differ. When rows come in another order, Combine may give
 * states to other rows, and the last bits of a state of a slice may differ. For each key, what a
 * map task writes stands for all of its rows of this key, in either run, and all of it is in the
 * one partition that is the key's hash. A reducer or a slice reads such a partition of a map task
 * as a whole, from one run: parts by content are made where there is no Combine. So it makes no
 * difference to a reducer which run it reads. The same holds below a join, which is by columns of
 * the key. Where the rows themselves may differ, the aggregate is left to Spark.
 */
object AcceptOtherStates extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan = {
    plan.foreach {
      case stage: ShuffleQueryStageExec if stage.isMaterialized => stage.shuffle match {
        case exchange: ShuffleExchangeExec if carriesStates(exchange) =>
          SparkCompat.letRowsDiffer(exchange.shuffleDependency)
        case _ =>
      }
      case _ =>
    }
    plan
  }

  private def carriesStates(exchange: ShuffleExchangeExec): Boolean = exchange.child match {
    case combine: CombineExec =>
      combine.belowJoin || exchange.outputPartitioning.isInstanceOf[CountingPartitioning]
    case other => other.exists(_.isInstanceOf[SlicedPartitionsExec])
  }
}
