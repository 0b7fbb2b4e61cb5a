package org.apache.spark.sql.saltwise.plan

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.UnaryNode

/** A node of Saltwise that returns the rows of its child as they are, perhaps in another place. */
trait PassesRows extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override def maxRows: Option[Long] = child.maxRows
}
