package org.apache.spark.sql.saltwise.sketch

import java.util.Arrays

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult.{TypeCheckFailure, TypeCheckSuccess}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._

/**
 * space_saving_top(sketch[, k[, type]]): the highest counts of a sketch. A sketch is a plain binary
 * value, so the type of its items is not known until the query runs. Items are strings in the
 * result, unless `type` gives their type.
 */
final case class SpaceSavingTop(sketch: Expression, k: Expression, itemType: Expression)
    extends TernaryExpression with CodegenFallback {

  override def first: Expression = sketch
  override def second: Expression = k
  override def third: Expression = itemType
  override def prettyName: String = "space_saving_top"
  override def nullable: Boolean = true
  override def dataType: DataType = SketchArguments.topType(requestedType.getOrElse(StringType))

  private lazy val requestedType: Option[DataType] =
    Option(itemType.eval(InternalRow.empty)).map(name => DataType.fromDDL(name.toString))

  override def checkInputDataTypes(): TypeCheckResult =
    if (sketch.dataType != BinaryType) TypeCheckFailure(SketchFunctions.notASketch(sketch))
    else if (!itemType.foldable || !Seq(StringType, NullType).contains(itemType.dataType)) {
      TypeCheckFailure(s"type is ${itemType.sql}; it must be a constant string such as 'bigint'")
    } else SketchArguments.check("k", k, 1, SketchArguments.MaxCapacity)

  override def eval(row: InternalRow): Any = {
    val bytes = sketch.eval(row).asInstanceOf[Array[Byte]]
    if (bytes == null) null else {
      val items = ItemSketch.deserialize(bytes)
      requestedType.foreach(SketchArguments.requireType(items, _))
      val show: Any => Any = if (requestedType.isDefined) identity else asString(items.itemType)
      SketchArguments.top(items, SketchArguments.int(k), show)
    }
  }

  private def asString(itemType: DataType): Any => Any = {
    val cast = Cast(BoundReference(0, itemType, nullable = true), StringType,
      Some(SQLConf.get.sessionLocalTimeZone))
    value => cast.eval(InternalRow(value))
  }

  override protected def withNewChildrenInternal(
      newFirst: Expression, newSecond: Expression, newThird: Expression): SpaceSavingTop =
    copy(newFirst, newSecond, newThird)
}

/** space_saving_estimate(sketch, item): how often the item was counted, with certain bounds. */
final case class SpaceSavingEstimate(sketch: Expression, item: Expression)
    extends BinaryExpression with CodegenFallback {

  @transient private var lastBytes: Array[Byte] = _
  @transient private var lastSketch: ItemSketch = _
  @transient private var toItem: UnsafeProjection = _

  override def stateful: Boolean = true
  override def left: Expression = sketch
  override def right: Expression = item
  override def prettyName: String = "space_saving_estimate"
  override def nullable: Boolean = true
  override def dataType: DataType = new StructType()
    .add("estimate", LongType, nullable = false)
    .add("lower", LongType, nullable = false)
    .add("upper", LongType, nullable = false)

  override def checkInputDataTypes(): TypeCheckResult =
    if (sketch.dataType == BinaryType) TypeCheckSuccess
    else TypeCheckFailure(SketchFunctions.notASketch(sketch))

  override def eval(row: InternalRow): Any = {
    val bytes = sketch.eval(row).asInstanceOf[Array[Byte]]
    if (bytes == null) null else {
      // Most queries ask one sketch for many items, so the last sketch is kept.
      if (!Arrays.equals(bytes, lastBytes)) {
        lastSketch = ItemSketch.deserialize(bytes)
        toItem = itemProjection(lastSketch)
        lastBytes = bytes
      }
      val counter = lastSketch.counterOf(toItem(InternalRow(item.eval(row))))
      if (counter < 0) InternalRow(0L, 0L, lastSketch.absent)
      else {
        val count = lastSketch.count(counter)
        InternalRow(count, count - lastSketch.error(counter), count)
      }
    }
  }

  /** Casts the item to the type of the sketch's items. The cast may not lose anything. */
  private def itemProjection(items: ItemSketch): UnsafeProjection = {
    val value = BoundReference(0, item.dataType, nullable = true)
    if (DataType.equalsIgnoreNullability(item.dataType, items.itemType)) {
      UnsafeProjection.create(Seq(value))
    } else {
      if (!Cast.canUpCast(item.dataType, items.itemType)) {
        SketchArguments.requireType(items, item.dataType)
      }
      val timeZone = Some(SQLConf.get.sessionLocalTimeZone)
      UnsafeProjection.create(Seq(Cast(value, items.itemType, timeZone)))
    }
  }

  override protected def withNewChildrenInternal(
      newLeft: Expression, newRight: Expression): SpaceSavingEstimate = copy(newLeft, newRight)
}

object SketchFunctions {
  def notASketch(other: Expression): String =
    s"sketch is of type ${other.dataType.sql}; give the binary result of space_saving_agg or " +
      "space_saving_merge"
}
