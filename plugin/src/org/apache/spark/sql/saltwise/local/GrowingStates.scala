package org.apache.spark.sql.saltwise.local

import org.apache.spark.sql.catalyst.expressions.aggregate._

/**
 * Functions whose state keeps the values that it has seen. Such a state is about as large as its
 * rows, until values repeat, so combining a few rows saves nothing. A sketch of fixed size, on the
 * other hand, pays off after some rows.
 */
object GrowingStates {
  def among(functions: Seq[AggregateFunction]): Boolean = functions.exists {
    case _: Collect[_] | _: PercentileBase | _: ApproximatePercentile | _: Mode => true
    case _ => false
  }
}
