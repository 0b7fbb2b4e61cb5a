package org.apache.spark.sql.saltwise.plan

import org.apache.spark.sql.catalyst.expressions.PythonUDF
import org.apache.spark.sql.catalyst.plans.logical._

/** Whether computing rows a second time costs no more than reading them. */
object CheapRows {
  def apply(rows: LogicalPlan): Boolean = rows match {
    case _: LeafNode => true
    case _: Project | _: Filter | _: Union | _: SkewGroupByHint =>
      !rows.expressions.exists(_.exists(_.isInstanceOf[PythonUDF])) && rows.children.forall(apply)
    case _ => false
  }
}
