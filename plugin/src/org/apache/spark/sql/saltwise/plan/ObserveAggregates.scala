package org.apache.spark.sql.saltwise.plan

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.SQLConfHelper
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, LogicalPlan}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.saltwise.{SaltwiseConf, SaltwiseException}

/**
 * Plans an aggregate as Spark does, in a session that only observes, and notes for the reports what
 * [[SkewAggregation]] would have done.
 *
 * {{{
 *   before:  Aggregate(k) - t
 *   after:   Final(k) - Exchange(k) - Partial(k) - t, with a note at Final: auto
 * }}}
 */
final case class ObserveAggregates(session: SparkSession) extends SparkStrategy with SQLConfHelper {
  private val choice = new AggregateChoice(session)

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case GroupBy(aggregate, hint) if SaltwiseConf.observes(conf) =>
      val stock = choice.stock(aggregate)
      // ObservePlacement and AggregateBelowJoin have noted what they would do.
      val would = aggregate.getTagValue(Reported.WouldRun)
        .getOrElse(wouldRun(aggregate, hint.getOrElse(Map.empty), stock))
      stock.foreach(_.setTagValue(Reported.WouldRun, would))
      stock
    case _ => Nil
  }

  private def wouldRun(
      aggregate: Aggregate, hint: Map[String, String], stock: Seq[SparkPlan]): String =
    try {
      val options = choice.options(hint, conf)
      if (choice.splitsJoin(aggregate, options, stock, conf)) {
        aggregate.setTagValue(Reported.JoinWouldRun, Reported.SplitJoin)
      }
      choice.of(aggregate, hint, options, stock, conf).fold(
        "nothing: " + _, _.options.strategy.name)
    } catch {
      case wrong: SaltwiseException => s"nothing: ${wrong.getMessage}"
    }
}
