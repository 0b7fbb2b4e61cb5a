package org.apache.spark.sql.saltwise.auto

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.aggregate.ObjectHashAggregateExec
import org.apache.spark.sql.saltwise.{Local, SkewOptions, Split, Strategy}

/** What the strategy auto does with an aggregate that may be rewritten. */
object AutoStrategy {

  /** A plan has to promise this much, as a share of what the stock plan costs, before it is taken: costs are estimates. */
  private val WorthIt = 0.95

  /**
   * @param stock    the aggregate as Spark planned it, in two phases
   * @param options  with what `local` would run
   * @param keys     what is known of its keys, or a remark why nothing is
   * @param cluster  what it runs on
   * @param inPlace  whether rows come in the same order when a task runs again: where not, `local` may send other states
   *                 then, and Spark, which from 4.2 on compares checksums of rows, may end the job
   * @param adaptive whether adaptive execution may decide a split
   * @return why to leave it alone, or the strategy and why
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
        if (cost <= WorthIt * costs.stock) Right((strategy, why)) else Left(why)
      case (_, Left(remark)) if stock.isInstanceOf[ObjectHashAggregateExec] =>
        Right((possible.head, s"auto knows nothing of the keys$remark"))
      case (_, keys) =>
        Left(s"nothing is known of its keys${keys.left.getOrElse("")}; name a strategy to rewrite all the same")
    }
  }
}
