package org.apache.spark.sql.saltwise.local

import org.apache.spark.sql.catalyst.expressions.aggregate._

/**
 * Functions whose state keeps what it has seen: it is about as large as its rows, until values repeat. To combine a few
 * rows saves nothing then, whereas a sketch of fixed size is worth it from some rows on.
 */
object GrowingStates {
  def among(functions: Seq[AggregateFunction]): Boolean = functions.exists {
    case _: Collect[_] | _: PercentileBase | _: ApproximatePercentile | _: Mode => true
    case _ => false
  }
}
