package org.apache.spark.sql.saltwise.plan

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.UnaryNode

/**
 * A node whose rows stand for those of its child: each for one row, or for several with the same
 * keys. A second run may make other rows of the same ones, but for each key they mean the same.
 */
trait StandsForRows extends UnaryNode {
  def keys: Seq[Attribute]
}
