package org.apache.spark.sql.saltwise.sketch

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult.{TypeCheckFailure, TypeCheckSuccess}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.TypedImperativeAggregate
import org.apache.spark.sql.catalyst.util.{GenericArrayData, TypeUtils}
import org.apache.spark.sql.saltwise.SaltwiseException
import org.apache.spark.sql.types._

/**
 * An aggregate whose state is an [[ItemSketch]]. The state is null until the first row, which gives
 * the type of the items.
 */
abstract class SketchAggregate extends TypedImperativeAggregate[ItemSketch] {
  override def createAggregationBuffer(): ItemSketch = null

  override def merge(buffer: ItemSketch, other: ItemSketch): ItemSketch =
    if (other == null) buffer
    else if (buffer == null) other
    else if (other.capacity < buffer.capacity) {
      other.merge(buffer) // the smaller capacity limits the error of both
      other
    } else {
      buffer.merge(other)
      buffer
    }

  override def serialize(buffer: ItemSketch): Array[Byte] =
    if (buffer == null) Array.emptyByteArray else buffer.serialize()

  override def deserialize(bytes: Array[Byte]): ItemSketch =
    if (bytes.isEmpty) null else ItemSketch.deserialize(bytes)
}

/** Counts the values of `item`, including NULL. */
abstract class ItemCounting extends SketchAggregate {
  def item: Expression
  def capacityExpression: Expression

  protected final def capacity: Int = SketchArguments.int(capacityExpression)

  /** The number of rows that this row counts for. */
  protected def weight(row: InternalRow): Long = 1

  @transient private lazy val project = UnsafeProjection.create(Seq(item))

  override def update(buffer: ItemSketch, row: InternalRow): ItemSketch = {
    val sketch = if (buffer == null) new ItemSketch(item.dataType, capacity) else buffer
    val rows = weight(row)
    if (rows > 0) sketch.add(project(row), rows)
    sketch
  }

  override def checkInputDataTypes(): TypeCheckResult = {
    val groupable = TypeUtils.checkForOrderingExpr(item.dataType, prettyName)
    if (groupable.isFailure) groupable
    else if (item.dataType.existsRecursively(_.isInstanceOf[UserDefinedType[_]])) {
      TypeCheckFailure(s"${item.sql} has a user-defined type; cast it, or take a field of it")
    } else if (SketchArguments.levels(item.dataType) > SketchArguments.MaxLevels) {
      TypeCheckFailure(s"${item.sql} has structs and arrays inside of each other; it must have " +
        s"at most ${SketchArguments.MaxLevels} levels of them")
    } else SketchArguments.check("capacity", capacityExpression, 1, SketchArguments.MaxCapacity)
  }
}

/** heavy_hitters(expr[, k[, capacity]]): the k most frequent values with their bounds. */
final case class HeavyHitters(
    item: Expression,
    kExpression: Expression,
    capacityExpression: Expression,
    mutableAggBufferOffset: Int = 0,
    inputAggBufferOffset: Int = 0)
  extends ItemCounting {

  override def children: Seq[Expression] = Seq(item, kExpression, capacityExpression)
  override def prettyName: String = "heavy_hitters"
  override def nullable: Boolean = false
  override def dataType: DataType = SketchArguments.topType(item.dataType)

  override def checkInputDataTypes(): TypeCheckResult = super.checkInputDataTypes() match {
    case TypeCheckSuccess => SketchArguments.check("k", kExpression, 1, capacity)
    case failure => failure
  }

  override def eval(buffer: ItemSketch): Any =
    if (buffer == null) new GenericArrayData(Array.empty[Any])
    else SketchArguments.top(buffer, SketchArguments.int(kExpression))

  override def withNewMutableAggBufferOffset(offset: Int): HeavyHitters =
    copy(mutableAggBufferOffset = offset)
  override def withNewInputAggBufferOffset(n: Int): HeavyHitters = copy(inputAggBufferOffset = n)
  override protected def withNewChildrenInternal(c: IndexedSeq[Expression]): HeavyHitters =
    copy(item = c(0), kExpression = c(1), capacityExpression = c(2))
}

/** space_saving_agg(expr[, capacity[, weight]]): the sketch. A row counts for `weight` rows. */
final case class SpaceSavingAgg(
    item: Expression,
    capacityExpression: Expression,
    weightExpression: Expression = SpaceSavingAgg.OneRow,
    mutableAggBufferOffset: Int = 0,
    inputAggBufferOffset: Int = 0)
  extends ItemCounting {

  override def children: Seq[Expression] = Seq(item, capacityExpression, weightExpression)
  override def prettyName: String = "space_saving_agg"
  override def nullable: Boolean = false
  override def dataType: DataType = BinaryType

  override def checkInputDataTypes(): TypeCheckResult = super.checkInputDataTypes() match {
    case TypeCheckSuccess if !weightExpression.dataType.isInstanceOf[NumericType] =>
      TypeCheckFailure(s"weight is ${weightExpression.sql}; it must be a number")
    case checked => checked
  }

  override protected def weight(row: InternalRow): Long = {
    val weight = weightExpression.eval(row) match {
      case number: Number => number.doubleValue
      case decimal: Decimal => decimal.toDouble
      case _ => Double.NaN
    }
    if (!(weight >= 0 && weight <= SpaceSavingAgg.MaxWeight)) {
      throw new SaltwiseException("the weight of a row is " +
        s"${weightExpression.eval(row)}; it must be a number from 0 to 2^53.")
    }
    math.ceil(weight).toLong
  }

  override def eval(buffer: ItemSketch): Any =
    (if (buffer == null) new ItemSketch(item.dataType, capacity) else buffer).serialize()

  override def withNewMutableAggBufferOffset(offset: Int): SpaceSavingAgg =
    copy(mutableAggBufferOffset = offset)
  override def withNewInputAggBufferOffset(n: Int): SpaceSavingAgg = copy(inputAggBufferOffset = n)
  override protected def withNewChildrenInternal(c: IndexedSeq[Expression]): SpaceSavingAgg =
    copy(item = c(0), capacityExpression = c(1), weightExpression = c(2))
}

object SpaceSavingAgg {
  val OneRow: Expression = Literal(1)

  /** 2^53: a double is exact up to this number. */
  val MaxWeight = (1L << 53).toDouble
}

/** space_saving_merge(sketch): one sketch of all rows that the sketches counted. Ignores NULLs. */
final case class SpaceSavingMerge(
    child: Expression,
    mutableAggBufferOffset: Int = 0,
    inputAggBufferOffset: Int = 0)
  extends SketchAggregate with ExpectsInputTypes {

  override def children: Seq[Expression] = Seq(child)
  override def inputTypes: Seq[AbstractDataType] = Seq(BinaryType)
  override def prettyName: String = "space_saving_merge"
  override def nullable: Boolean = true
  override def dataType: DataType = BinaryType

  override def update(buffer: ItemSketch, row: InternalRow): ItemSketch = {
    val bytes = child.eval(row).asInstanceOf[Array[Byte]]
    if (bytes == null) buffer else merge(buffer, ItemSketch.deserialize(bytes))
  }

  override def merge(buffer: ItemSketch, other: ItemSketch): ItemSketch = {
    if (buffer != null && other != null) SketchArguments.requireType(other, buffer.itemType)
    super.merge(buffer, other)
  }

  override def eval(buffer: ItemSketch): Any = if (buffer == null) null else buffer.serialize()

  override def withNewMutableAggBufferOffset(offset: Int): SpaceSavingMerge =
    copy(mutableAggBufferOffset = offset)
  override def withNewInputAggBufferOffset(offset: Int): SpaceSavingMerge =
    copy(inputAggBufferOffset = offset)
  override protected def withNewChildrenInternal(c: IndexedSeq[Expression]): SpaceSavingMerge =
    copy(child = c(0))
}

/** What the sketch functions share: their whole-number arguments, and the result of a sketch. */
object SketchArguments {
  val MaxCapacity: Int = 1 << 24

  /** The most levels of structs and arrays in an item. Code that compares more of them is slow. */
  val MaxLevels: Int = 20

  def levels(itemType: DataType): Int = itemType match {
    case StructType(fields) => 1 + fields.map(field => levels(field.dataType)).fold(0)(_ max _)
    case ArrayType(element, _) => 1 + levels(element)
    case _ => 0
  }

  /** The type of `heavy_hitters` and `space_saving_top`. */
  def topType(item: DataType): DataType = ArrayType(
    new StructType()
      .add("item", item)
      .add("count", LongType, nullable = false)
      .add("error", LongType, nullable = false),
    containsNull = false)

  def top(sketch: ItemSketch, k: Int, show: Any => Any = identity): GenericArrayData =
    new GenericArrayData(sketch.top(k).map { counter =>
      InternalRow(show(sketch.value(counter)), sketch.count(counter), sketch.error(counter))
    }.toArray[Any])

  def int(expression: Expression): Int = expression.eval(InternalRow.empty).asInstanceOf[Int]

  /** Whether an argument is a constant whole number from `low` to `high`. */
  def check(name: String, argument: Expression, low: Int, high: Int): TypeCheckResult = {
    val allowed = s"it must be a constant whole number from $low to $high"
    if (!argument.foldable || argument.dataType != IntegerType) {
      TypeCheckFailure(s"$name is ${argument.sql}; $allowed")
    } else argument.eval(InternalRow.empty) match {
      case value: Int if value >= low && value <= high => TypeCheckSuccess
      case value => TypeCheckFailure(s"$name is $value; $allowed")
    }
  }

  def requireType(sketch: ItemSketch, wanted: DataType): Unit =
    if (!DataType.equalsIgnoreNullability(sketch.itemType, wanted)) {
      throw new SaltwiseException(
        s"the sketch counts items of type ${sketch.itemType.sql}, not ${wanted.sql}; " +
          "merge and query sketches of one type only.")
    }
}
