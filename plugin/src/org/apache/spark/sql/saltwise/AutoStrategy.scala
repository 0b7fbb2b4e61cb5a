package org.apache.spark.sql.saltwise

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.aggregate.ObjectHashAggregateExec

/** What the strategy auto does with an aggregate that may be rewritten. */
object AutoStrategy {

  /** A plan has to promise this much, as a share of what the stock plan costs, before it is taken: costs are estimates. */
  private val WorthIt = 0.95

  /**
   * @param stock    the aggregate as Spark planned it, in two phases
   * @param capacity keys that a map task of `local` combines at a time
   * @param keys     what is known of its keys
   * @param adaptive whether adaptive execution may decide a split
   * @return why to leave it alone, or the strategy and why
   */
  def choose(
      stock: SparkPlan, capacity: Int, keys: Option[KeyStatistics], adaptive: Boolean): Either[String, (String, String)] =
    (PlanCosts.constants(stock), keys) match {
      case (Some(constants), Some(known)) =>
        val costs = PlanCosts(stock, constants, known, capacity)
        val why = s"auto predicts $costs, from $known"
        val (strategy, cost) =
          if (adaptive && costs.split < costs.local) (SkewStrategy.Split, costs.split) else (SkewStrategy.Local, costs.local)
        if (cost <= WorthIt * costs.stock) Right((strategy, why)) else Left(why)
      case (_, None) if stock.isInstanceOf[ObjectHashAggregateExec] =>
        Right((SkewStrategy.Local, "auto knows nothing of the keys"))
      case _ => Left("nothing is known of its keys; name a strategy to rewrite all the same")
    }
}
