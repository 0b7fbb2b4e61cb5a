package org.apache.spark.sql.saltwise.local

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.NoOp
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.DataType

/**
 * A projection that adds a row to a state, as Spark's MutableProjection does, but faster: it reads
 * the state and the row in place, not as one row that is joined, and it writes texts, arrays, and
 * the like only if they change. Mostly they do not: of the rows of a group, few have a larger value
 * than all before. Spark copies such a value for each row.
 */
private[local] object StateProjection
  extends CodeGenerator[Seq[Expression], BaseMutableProjection] {

  /**
   * @param updates the new value of each field of the state, or NoOp
   * @param schema  the fields of the state, and then the columns of the row
   */
  def create(updates: Seq[Expression], schema: Seq[Attribute]): MutableProjection = {
    val canGenerate = updates.forall { update =>
      update.deterministic && !update.exists(_.isInstanceOf[CodegenFallback])
    }
    if (canGenerate) {
      new Fallback(updates, schema).createObject(())
    } else MutableProjection.create(updates, schema)
  }

  private final class Fallback(updates: Seq[Expression], schema: Seq[Attribute])
    extends CodeGeneratorWithInterpretedFallback[Unit, MutableProjection] {

    override protected def createCodeGeneratedObject(in: Unit): MutableProjection =
      generate(updates, schema)

    override protected def createInterpretedObject(in: Unit): MutableProjection =
      MutableProjection.create(updates, schema)
  }

  override protected def canonicalize(updates: Seq[Expression]): Seq[Expression] =
    updates.map(ExpressionCanonicalizer.execute)

  override protected def bind(updates: Seq[Expression], schema: Seq[Attribute]): Seq[Expression] = {
    val (state, row) = schema.splitAt(updates.length)
    updates.map { update =>
      BindReferences.bindReference(
        update.transform {
          case field: Attribute if state.exists(_.exprId == field.exprId) =>
            StateField(state.indexWhere(_.exprId == field.exprId), field.dataType, field.nullable)
        }, row)
    }
  }

  override protected def create(updates: Seq[Expression]): BaseMutableProjection = {
    val context = newCodeGenContext()
    val used = updates.zipWithIndex.filter(_._1 != NoOp)
    val codes = context.generateExpressions(
      used.map(_._1), SQLConf.get.subexpressionEliminationEnabled)
    val (evaluations, writes) = used.zip(codes).map { case ((update, i), code) =>
      val isNull = context.addMutableState(CodeGenerator.JAVA_BOOLEAN, "isNull")
      val value = context.addMutableState(CodeGenerator.javaType(update.dataType), "value")
      val now = ExprCode(
        JavaCode.isNullGlobal(isNull), JavaCode.global(value, update.dataType))
      val write =
        CodeGenerator.updateColumn("state", update.dataType, i, now, update.nullable)
      val evaluation = s"""
        ${code.code}
        $isNull = ${code.isNull};
        $value = ${code.value};
      """
      val before = CodeGenerator.getValue("state", update.dataType, i.toString)
      val mayBeSame = !CodeGenerator.isPrimitiveType(update.dataType)
      (evaluation, if (mayBeSame) s"if ($isNull || $value != $before) { $write }" else write)
    }.unzip
    // Fields are written when all are known, since each may depend on what others were.
    val evaluate = context.splitExpressionsWithCurrentInputs(evaluations)
    val write = context.splitExpressionsWithCurrentInputs(writes)
    val row = context.INPUT_ROW
    val code = s"""
      public java.lang.Object generate(Object[] references) {
        return new SpecificStateProjection(references);
      }

      class SpecificStateProjection extends ${classOf[BaseMutableProjection].getName} {
        private Object[] references;
        private InternalRow state;
        ${context.declareMutableStates()}

        public SpecificStateProjection(Object[] references) {
          this.references = references;
          ${context.initMutableStates()}
        }

        public ${classOf[BaseMutableProjection].getName} target(InternalRow state) {
          this.state = state;
          return this;
        }

        public InternalRow currentValue() {
          return state;
        }

        public java.lang.Object apply(java.lang.Object joined) {
          InternalRow $row = ((${classOf[JoinedRow].getName}) joined).getRight();
          ${context.subexprFunctionsCode}
          $evaluate
          $write
          return state;
        }

        ${context.declareAddedFunctions()}
      }
      """
    val formatted = new CodeAndComment(code, context.getPlaceHolderToComments())
    val (compiled, _) = CodeGenerator.compile(CodeFormatter.stripOverlappingComments(formatted))
    compiled.generate(context.references.toArray).asInstanceOf[BaseMutableProjection]
  }
}

/** A field of the state that a [[StateProjection]] writes. It is only read by generated code. */
private final case class StateField(ordinal: Int, dataType: DataType, nullable: Boolean)
  extends LeafExpression {

  override def eval(row: InternalRow): Any =
    throw new UnsupportedOperationException("A field of a state is read by generated code only.")

  override protected def doGenCode(context: CodegenContext, code: ExprCode): ExprCode = {
    val read = CodeGenerator.getValue("state", dataType, ordinal.toString)
    val javaType = JavaCode.javaType(dataType)
    if (nullable) {
      code.copy(code = code"""
        boolean ${code.isNull} = state.isNullAt($ordinal);
        $javaType ${code.value} = ${code.isNull} ?
          ${CodeGenerator.defaultValue(dataType)} : ($read);
      """)
    } else code.copy(code = code"$javaType ${code.value} = $read;", isNull = FalseLiteral)
  }
}
