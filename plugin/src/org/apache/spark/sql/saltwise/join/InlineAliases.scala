package org.apache.spark.sql.saltwise.join

import org.apache.spark.sql.catalyst.expressions._

/** Expressions over the columns of a projection, in terms of what is below it. */
private[join] final class InlineAliases(columns: Seq[NamedExpression]) {
  private val values = AttributeMap(columns.collect { case alias: Alias =>
    alias.toAttribute -> alias.child
  })

  def apply(e: Expression): Expression = e.transform {
    case column: Attribute => values.getOrElse(column, column)
  }
}
