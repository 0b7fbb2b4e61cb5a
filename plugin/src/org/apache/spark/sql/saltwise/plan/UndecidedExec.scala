package org.apache.spark.sql.saltwise.plan

import org.apache.spark.sql.catalyst.plans.physical.Partitioning

/**
 * An aggregate in two phases, in whose place a rule puts another plan once the stages below have
 * run. So the partitions of its rows are not known yet.
 */
trait UndecidedExec extends TransparentExec {

  /** How the rows of the aggregate lie in stock Spark. */
  def inStock: Partitioning = outputPartitioning
}
