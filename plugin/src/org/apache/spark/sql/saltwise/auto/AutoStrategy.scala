package org.apache.spark.sql.saltwise.auto

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.aggregate.ObjectHashAggregateExec
import org.apache.spark.sql.saltwise.{Local, SkewOptions, Split, Strategy}

/** The decision of the strategy auto for an aggregate that may be rewritten. */
object AutoStrategy {

  /**
   * A plan is taken if it costs at most this share of the stock plan's cost. The margin is there
   * because costs are estimates.
   */
  private val MaxCostShare = 0.95

  /**
   * @param stock    the aggregate as Spark planned it, in two phases
   * @param options  the options that `local` would have
   * @param keys     the statistics of its keys, or a remark why there are none
   * @param cluster  the cluster that it runs on
   * @param inPlace  whether rows come in the same order when a task runs again. If not, `local` may
   *                 send other states then. From version 4.2, Spark compares checksums of rows and
   *                 may end such a job.
   * @param adaptive whether adaptive execution can decide a split
   * @return the reason to leave it alone, or the strategy and the reason for it
   */
  def choose(
      stock: SparkPlan,
      options: SkewOptions,
      keys: Either[String, KeyStatistics],
      cluster: Cluster,
      inPlace: Boolean,
      adaptive: Boolean): Either[String, (Strategy, String)] = {
    val possible: Seq[Strategy] =
      (if (inPlace) Seq(Local(options.parameters)) else Nil) ++ (if (adaptive) Seq(Split) else Nil)
    (PlanCosts.constants(stock), keys) match {
      case _ if possible.isEmpty =>
        Left("its rows come out of a shuffle, and without adaptive execution nothing is split")
      case (Some(constants), Right(known)) =>
        val costs = PlanCosts(stock, constants, known, options, cluster)
        val why = s"auto predicts $costs, from $known"
        val (strategy, cost) = possible
          .map(strategy => (strategy, if (strategy == Split) costs.split else costs.local))
          .minBy(_._2)
        if (cost <= MaxCostShare * costs.stock) Right((strategy, why)) else Left(why)
      case (_, Left(remark)) if stock.isInstanceOf[ObjectHashAggregateExec] =>
        Right((possible.head, s"auto knows nothing of the keys$remark"))
      case (_, statistics) =>
        val remark = statistics.left.getOrElse("")
        Left(s"nothing is known of its keys$remark; name a strategy to rewrite all the same")
    }
  }
}
