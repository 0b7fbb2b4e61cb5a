package org.apache.spark.sql.saltwise.routing

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.types.{DataType, LongType}

/**
 * A hash of all bytes of the row over which it is evaluated.
 *
 * @param child any of the columns: generated code gives no row to an expression without children
 */
private[saltwise] final case class HashOfRow(child: Expression)
  extends UnaryExpression with CodegenFallback {
  override def nullable: Boolean = false
  override def dataType: DataType = LongType
  override def eval(row: InternalRow): Any =
    RepeatableOrderExec.contentHash(row.asInstanceOf[UnsafeRow])
  override protected def withNewChildInternal(c: Expression): HashOfRow = copy(child = c)
}

private[saltwise] object HashOfRow {
  /** An order in which no rows are equal that differ. */
  def repeatable(order: Seq[SortOrder], rows: Seq[Attribute]): Seq[SortOrder] =
    order :+ SortOrder(HashOfRow(rows.head), Ascending)
}
