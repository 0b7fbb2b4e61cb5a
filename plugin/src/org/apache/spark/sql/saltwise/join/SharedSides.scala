package org.apache.spark.sql.saltwise.join

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys
import org.apache.spark.sql.catalyst.plans.QueryPlan.normalizeExpressions
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan}
import org.apache.spark.sql.internal.SQLConf

/**
 * The sides of joins that Spark reads and shuffles once for several joins of a query.
 *
 * {{{
 *   SELECT sum(v) FROM l JOIN r ON l.k = r.k UNION ALL SELECT max(v) FROM l JOIN r ON l.k = r.k
 *
 *   as Spark runs it:
 *            Union - [sum(v) - Join(k) - [Exchange(k) - l, Exchange(k) - r],
 *                     max(v) - Join(k) - [ReusedExchange, ReusedExchange]]
 * }}}
 *
 * States of different functions are different rows, so each would need a shuffle of its own.
 */
private[join] object SharedSides {

  /**
   * The canonical plans of the sides that would be shuffled more often than in `stock`.
   *
   * @param combined the same query with combined rows below its joins
   */
  def lost(stock: LogicalPlan, combined: LogicalPlan, conf: SQLConf): Set[LogicalPlan] = {
    val rows = combined.collectWithSubqueries { case rows: CombinedRows => rows }
    if (rows.isEmpty) Set.empty
    else {
      val shuffles =
        stock.collectWithSubqueries { case join: Join => sidesOf(join, conf) }.flatten
          .groupBy(identity)
      val ofSides = rows.groupBy(_.child.canonicalized)
      shuffles.collect {
        case ((side, _), joins) if joins.length > 1 && ofSides.get(side).exists { found =>
          found.length < joins.length || found.map(_.canonicalized).distinct.length > 1
        } => side
      }.toSet
    }
  }

  /** The canonical plans of the sides that are shuffled, and the keys by their places in them. */
  private def sidesOf(join: Join, conf: SQLConf): Seq[(LogicalPlan, Seq[Expression])] = join match {
    case ExtractEquiJoinKeys(_, leftKeys, rightKeys, _, _, left, right, _)
        if ShuffledJoin(join, conf) =>
      Seq(left -> leftKeys, right -> rightKeys).map { case (side, keys) =>
        side.canonicalized -> keys.map(normalizeExpressions(_, side.output))
      }
    case _ => Nil
  }
}
