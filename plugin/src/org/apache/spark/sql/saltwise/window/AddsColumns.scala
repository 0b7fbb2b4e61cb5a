package org.apache.spark.sql.saltwise.window

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet}
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.trees.UnaryLike

/** A logical or physical node that returns the rows of its child with more columns. */
trait AddsColumns[T <: QueryPlan[T]] extends QueryPlan[T] with UnaryLike[T] {
  this: T =>

  def added: Seq[Attribute]
  override def output: Seq[Attribute] = child.output ++ added
  override def producedAttributes: AttributeSet = AttributeSet(added)
}
