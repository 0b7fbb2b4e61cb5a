package org.apache.spark.sql.saltwise.plan

import org.apache.spark.sql.catalyst.expressions.{Expression, UnaryExpression, UnsafeRow}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.types.StructType

/**
 * The fields of a state, which travels as the bytes of an UnsafeRow.
 *
 * A struct column would also work, but each map task would then generate code that copies every
 * field, once for states and once for the NULLs of raw rows. approx_count_distinct has 52 fields.
 */
final case class StateFields(child: Expression, override val dataType: StructType)
  extends UnaryExpression {

  override protected def nullSafeEval(bytes: Any): UnsafeRow =
    StateFields.row(bytes.asInstanceOf[Array[Byte]], dataType.length)

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = defineCodeGen(
    ctx, ev, bytes => s"${classOf[StateFields].getName}.row($bytes, ${dataType.length})")

  override protected def withNewChildInternal(c: Expression): StateFields = copy(child = c)
}

object StateFields {
  def row(bytes: Array[Byte], fields: Int): UnsafeRow = {
    val row = new UnsafeRow(fields)
    row.pointTo(bytes, bytes.length)
    row
  }
}
