package org.apache.spark.sql.saltwise.window

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project, Window}

/**
 * Puts a window without an order into one with an order, so that both run in the same slices.
 *
 * {{{
 *   SELECT x, v / sum(v) OVER () AS share, rank() OVER (ORDER BY x) AS r FROM t
 *
 *   before:  Window(sum(v)) - Window(rank(), x) - t
 *   after:   Window(rank(), sum(v) of all rows, x) - t
 * }}}
 *
 * An aggregate of all rows that is exact ([[TotalFunctions]]) is the same in any order. A sum may
 * overflow on the way in one order and not in another, but in stock Spark these rows have none.
 */
private[window] object TotalsBesideOrder {

  /** The window with the functions of this one and of the one below, over the rows of that. */
  def unapply(window: Window): Option[Window] = chosen(window.child) match {
    case below: Window if SharedSlices.haveSameKeys(window, below) &&
        window.orderSpec.isEmpty != below.orderSpec.isEmpty && !reads(window, below) =>
      val (totals, ordered) = if (window.orderSpec.isEmpty) (window, below) else (below, window)
      if (TotalFunctions(totals.windowExpressions).isEmpty) None
      else Some(ordered.copy(
        windowExpressions = Seq(below, window).flatMap { each =>
          if (each eq ordered) each.windowExpressions
          else each.windowExpressions.map(ofAllRows(_, ordered.orderSpec))
        },
        child = below.child))
    case _ => None
  }

  /** The plan below a choice of its columns. */
  private def chosen(plan: LogicalPlan): LogicalPlan = plan match {
    case Project(columns, child) if columns.forall(_.isInstanceOf[Attribute]) => child
    case other => other
  }

  /** Whether a window reads what the one below adds. */
  private def reads(window: Window, below: Window): Boolean = {
    val added = AttributeSet(below.windowExpressions.map(_.toAttribute))
    (window.windowExpressions ++ window.orderSpec).exists(_.references.intersect(added).nonEmpty)
  }

  private def ofAllRows(e: NamedExpression, order: Seq[SortOrder]): NamedExpression =
    e.transform { case spec: WindowSpecDefinition =>
      spec.copy(
        orderSpec = order,
        frameSpecification =
          SpecifiedWindowFrame(RowFrame, UnboundedPreceding, UnboundedFollowing))
    }.asInstanceOf[NamedExpression]
}
