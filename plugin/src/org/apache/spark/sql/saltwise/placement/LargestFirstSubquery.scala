package org.apache.spark.sql.saltwise.placement

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.saltwise.{OffGreedy, SaltwiseConf, SaltwiseException, SkewOptions}
import org.apache.spark.sql.saltwise.compat.SparkCompat
import org.apache.spark.sql.saltwise.plan.GroupingKeys
import org.apache.spark.sql.saltwise.sketch.SpaceSavingAgg
import org.apache.spark.sql.types.{DoubleType, NumericType}

/**
 * The subquery that finds the heavy keys of some rows and places them by [[LargestFirst]]. It runs
 * once, when the query runs, and passes over the key columns alone.
 *
 * {{{
 *   PlaceLargestFirst(sketch of k) - t
 * }}}
 */
private[placement] final class LargestFirstSubquery(session: SparkSession, conf: SQLConf) {
  import LargestFirstSubquery._

  def of(keys: Seq[Attribute], rows: LogicalPlan, options: SkewOptions): Expression = {
    val cost = options.placement.cost
    val sketch = SpaceSavingAgg(
      GroupingKeys.hash(keys), Literal(OffGreedy(options.parameters).capacity), weight(cost, rows))
    val function = PlaceLargestFirst(
      sketch.toAggregateExpression(), options.workers, PartitionFunctionJson.keyType(keys),
      squared = cost == SquaredRows)
    val pass = SparkCompat.aggregate(Alias(function, "function")(), rows)
    // Spark has optimized the subqueries of the query before, so this one is optimized here. A
    // session that observes does not run it.
    val runs = !SaltwiseConf.observes(conf)
    SparkCompat.scalarSubquery(
      if (runs) SparkCompat.state(session).optimizer.execute(pass) else pass)
  }

  /** What a row adds to the cost of its key. A number that is no cost adds 0. */
  private def weight(cost: String, rows: LogicalPlan): Expression = cost match {
    case "rows" | SquaredRows => SpaceSavingAgg.OneRow
    case "bytes" => RowBytes(rows.output)
    case name => rows.output.find { column =>
      conf.resolver(column.name, name) && column.dataType.isInstanceOf[NumericType]
    } match {
      case Some(column) =>
        val number = Cast(column, DoubleType)
        val isCost = And(
          GreaterThanOrEqual(number, Literal(0.0)),
          LessThanOrEqual(number, Literal(SpaceSavingAgg.MaxWeight)))
        // Balance is no reason to end a query. Of NULL, the condition is NULL.
        If(isCost, Least(Seq(number, Literal(MaxCost))), Literal(0.0))
      // The session's conf is for the queries that have such a column.
      case None if conf.getConf(SaltwiseConf.PlacementCost) == name => SpaceSavingAgg.OneRow
      case None => throw new SaltwiseException(
        s"placement.cost is '$name'; it must be rows, bytes, $SquaredRows, or a column of " +
          s"numbers that the query reads: ${rows.output.map(_.name).mkString(", ")}.")
    }
  }
}

private object LargestFirstSubquery {
  private val SquaredRows = "rows^2"

  /** The most that a row counts: the costs of two billion such rows are still a BIGINT. */
  private val MaxCost = (1L << 32).toDouble
}
