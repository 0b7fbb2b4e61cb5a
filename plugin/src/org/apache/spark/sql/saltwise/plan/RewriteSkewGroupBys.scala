package org.apache.spark.sql.saltwise.plan

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.exchange.{
  ENSURE_REQUIREMENTS, REPARTITION_BY_NUM, ValidateRequirements}
import org.apache.spark.sql.saltwise.{Auto, Local, OrStock, SaltwiseConf, SkewOptions, Split}
import org.apache.spark.sql.saltwise.compat.SparkCompat
import org.apache.spark.sql.saltwise.local.{CombineExec, RawRows, UpdateOrMerge}
import org.apache.spark.sql.saltwise.routing.StableColumns
import org.apache.spark.sql.saltwise.split._

/**
 * Rewrites the aggregates under a [[SkewGroupByExec]], after Spark has placed the exchanges. So it
 * sees which aggregates need no exchange, and leaves them alone.
 *
 * {{{
 *   SELECT k, collect_list(v) FROM t GROUP BY k
 *
 *   before:   SkewGroupBy - Final(k) - Exchange(k) - Partial(k) - t
 *
 *   after, with adaptive execution:
 *             SkewSplit - Final(k) - Exchange(k) - Partial(k) - SplitRead - X
 *   without:  Complete(k) - X
 *
 *   where     X = Exchange(k) - Combine(k) - Project(k, v, NULL AS state) - t
 * }}}
 *
 * Once X has run, [[org.apache.spark.sql.saltwise.split.SplitSkewedPartitions]] writes `Complete(k)
 * - X` in place of SkewSplit, or reads oversize partitions in slices. `local` has no slices, and
 * `split` has no Combine. The results have the partitioning and the ordering of Spark's own plan,
 * so nothing changes for the operators above.
 */
final case class RewriteSkewGroupBys(adaptive: Boolean) extends Rule[SparkPlan] {

  override def apply(plan: SparkPlan): SparkPlan = {
    val planned = AskedPartitionsExec.afterExchanges(plan)
    val asGiven = rewriteAll(planned, (options, _) => options)
    // An operator above, such as a join, may need as many partitions as its other side has.
    val rewritten =
      if (!givesWorkers(planned) || ValidateRequirements.validate(asGiven)) asGiven
      else rewriteAll(planned, _.withWorkersOfSpark(_))
    AskedPartitionsExec.whereUndecided(rewritten)
  }

  private def givesWorkers(plan: SparkPlan): Boolean = plan.exists {
    case SkewGroupByExec(options, _) => options.workersGiven
    case _ => false
  }

  private def rewriteAll(
      plan: SparkPlan, chosen: (SkewOptions, Int) => SkewOptions): SparkPlan = plan.transformUp {
    case marked @ SkewGroupByExec(options, stock) =>
      val rewritten = OrStock("RewriteSkewGroupBys", stock) {
        AggregatePhases.of(stock) match {
          case Some(phases) =>
            rewrite(chosen(options, phases.workers), phases, marked.logicalLink)
          case None => SkewLeftAloneExec(ReasonToLeave.AlreadyGrouped, stock)
        }
      }
      // Adaptive execution finds the operators of a logical node by this link.
      marked.logicalLink.foreach(rewritten.setLogicalLink)
      rewritten
  }

  private def rewrite(
      options: SkewOptions, stock: AggregatePhases, logical: Option[LogicalPlan]): SparkPlan = {
    val below = logical.toSeq.flatMap(_.children).headOption
    val inPlace = below.exists(StableColumns.staysInPlace)
    val combines = options.strategy match {
      case Split => false
      // Without adaptive execution, AcceptOtherStates does not run.
      case Auto => adaptive || inPlace || !SparkCompat.checksRows(conf)
      case _ => true
    }
    val raw = RawRows(stock.first, combines)
    val (rows, aggregates) = if (!combines) {
      (ProjectExec(raw.columns, stock.rows), raw.aggregates)
    } else {
      val project = ProjectExec(raw.columns :+ raw.noState, stock.rows)
      val memory = conf.getConf(SaltwiseConf.LocalMemory)
      val combine =
        CombineExec(raw.keys, raw.aggregates, options, memory, belowJoin = false, project)
      (combine, UpdateOrMerge(raw))
    }
    val sliced = adaptive && options.strategy != Local
    val workers = if (options.workersGiven) options.workers else stock.workers
    val partitioning = if (!sliced) HashPartitioning(raw.keys, workers) else {
      val received = RowsReceived(stock.last.session.sparkContext)
      new CountingPartitioning(raw.keys, workers, received)
    }
    // Adaptive execution keeps the number of partitions if the user gave it.
    val origin = if (options.workersGiven) REPARTITION_BY_NUM else ENSURE_REQUIREMENTS
    val shuffled = SparkCompat.exchange(partitioning, rows, origin)
    if (!sliced) stock.inOnePhase(raw.keys, aggregates, clustered = true, shuffled) else {
      // If a task of Combine runs again with less memory, other rows become states.
      val content = if (combines) Nil else {
        val stable = below.fold(AttributeSet.empty)(StableColumns(_))
        raw.columns.filter(column =>
          column.deterministic && column.references.subsetOf(stable)).map(_.toAttribute)
      }
      SkewSplitExec(
        options, stock.inTwoPhases(raw.keys, aggregates, SplitReadExec(content, shuffled)))
    }
  }
}
