package org.apache.spark.sql.saltwise.plan

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.SQLConfHelper
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, LogicalPlan}
import org.apache.spark.sql.execution.{PlanLater, SparkPlan, SparkStrategy}
import org.apache.spark.sql.saltwise.{Auto, Local, SaltwiseConf, Split}
import org.apache.spark.sql.saltwise.join.SkewJoinSplit
import org.apache.spark.sql.saltwise.routing.RoutedRows

/**
 * Plans an aggregate so that all workers get about the same number of rows.
 *
 * {{{
 *   SELECT k, collect_list(v) FROM t GROUP BY k
 *
 *   before:  Final(k) - Exchange(k) - Partial(k) - t
 *
 *   after, with auto, split or local:
 *            SkewGroupBy - Final(k) - Exchange(k) - Partial(k) - t
 *
 *   after, with a strategy that routes:
 *            Final(k) - Exchange(k) - Partial(k)
 *              - SkewReceive - Exchange(worker) - SkewRoute(k) - RepeatableOrder - t
 *
 *   after, with auto, if the groups of a join's partitions are whole:
 *            SkewJoinSplit - Final(k) - Exchange(k) - Partial(k) - SkewJoinRead - Join(k)
 *
 *   after, if there is a reason to leave it alone:
 *            SkewLeftAlone(reason) - Final(k) - Exchange(k) - Partial(k) - t
 * }}}
 *
 * Spark's own strategy plans the aggregate. [[RewriteSkewGroupBys]] rewrites what SkewGroupBy
 * marks, once Spark has placed the exchanges.
 *
 * A strategy that routes puts Algorithm 1 of "When Two Choices Are not Enough" below Spark's plan
 * ([[RoutedRows]]). So every aggregate that merges in Spark works unchanged. Final merges the
 * states that Partial makes: at most d for a head key and two for a tail key. It does not matter
 * which worker a row was sent to. The cost is one more shuffle, of raw rows.
 */
final case class SkewAggregation(session: SparkSession) extends SparkStrategy with SQLConfHelper {
  private val choice = new AggregateChoice(session)

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case GroupBy(aggregate, hint)
        if !SaltwiseConf.observes(conf) && (hint.isDefined || SaltwiseConf.isOn(conf)) =>
      val stock = choice.stock(aggregate)
      val asked = hint.getOrElse(Map.empty[String, String])
      val options = choice.options(asked, conf)
      if (choice.splitsJoin(aggregate, options, stock, conf)) {
        stock.map(SkewJoinSplit(options, aggregate.child, _))
      } else {
        choice.of(aggregate, asked, options, stock, conf).fold(
          reason => stock.map(SkewLeftAloneExec(reason, _)),
          rows => stock.map(rewrite(aggregate, rows, _)))
      }
    case _ => Nil
  }

  private def rewrite(aggregate: Aggregate, rows: RoutedRows, stock: SparkPlan): SparkPlan =
    rows.options.strategy match {
      case Auto | Split | Local => SkewGroupByExec(rows.options, stock)
      case _ => stock.transformUp {
        case child @ PlanLater(logical) if logical eq aggregate.child => rows.plan(child)
      }
    }
}
