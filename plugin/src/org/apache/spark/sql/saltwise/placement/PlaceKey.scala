package org.apache.spark.sql.saltwise.placement

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode, FalseLiteral}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.saltwise.sketch.ItemSketch
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * The worker of a key under a partition function.
 *
 * @param key      the key's 64-bit hash
 * @param function the partition function as JSON, the same for every row
 */
final case class PlaceKey(key: Expression, function: Expression) extends BinaryExpression {
  @transient private lazy val placement =
    PartitionFunctionJson.read(function.eval().toString).function

  override def left: Expression = key
  override def right: Expression = function
  override def nullable: Boolean = false
  override def dataType: DataType = IntegerType

  def place(key: Long): Int = placement.place(key)

  override def eval(row: InternalRow): Any = place(key.eval(row).asInstanceOf[Long])

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val self = ctx.addReferenceObj("placeKey", this)
    val hash = key.genCode(ctx)
    ev.copy(
      code = code"${hash.code} final int ${ev.value} = $self.place(${hash.value});",
      isNull = FalseLiteral)
  }

  override protected def withNewChildrenInternal(
      newLeft: Expression, newRight: Expression): PlaceKey = PlaceKey(newLeft, newRight)
}

/**
 * The partition function, as JSON, that places the keys of a sketch by [[LargestFirst]], and all
 * other keys by F_1.
 *
 * @param sketch  a sketch of the keys' 64-bit hashes
 * @param squared whether the cost of a key is the square of its count in the sketch
 */
final case class PlaceLargestFirst(
    sketch: Expression, workers: Int, keyType: String, squared: Boolean)
  extends UnaryExpression {

  override def child: Expression = sketch
  override def dataType: DataType = StringType

  override protected def nullSafeEval(bytes: Any): Any = {
    val keys = ItemSketch.deserialize(bytes.asInstanceOf[Array[Byte]])
    // Lower bounds, because many keys share the count of a counter if no key is hot.
    val counts = keys.top(keys.size).map { counter =>
      val certain = (keys.count(counter) - keys.error(counter)).toDouble
      (keys.value(counter).asInstanceOf[Long], certain)
    }.filter(_._2 > 0)
    val costs = if (squared) counts.map { case (key, count) => (key, count * count) } else counts
    val total = math.max(1.0, if (squared) costs.map(_._2).sum else keys.total.toDouble)
    val shares = costs.map { case (key, cost) => (key, cost / total) }
    val placed = LargestFirst(shares, UniformHash(workers))
    UTF8String.fromString(PartitionFunctionJson.write(placed, keyType))
  }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val self = ctx.addReferenceObj("placeLargestFirst", this)
    nullSafeCodeGen(ctx, ev, bytes => s"${ev.value} = (UTF8String) $self.nullSafeEval($bytes);")
  }

  override protected def withNewChildInternal(c: Expression): PlaceLargestFirst = copy(sketch = c)
}

/** The size of a row in bytes. */
final case class RowBytes(columns: Seq[Expression])
  extends Expression with codegen.CodegenFallback {

  @transient private lazy val project = UnsafeProjection.create(columns)

  override def children: Seq[Expression] = columns
  override def nullable: Boolean = false
  override def dataType: DataType = LongType
  override def eval(row: InternalRow): Any = project(row).getSizeInBytes.toLong
  override protected def withNewChildrenInternal(c: IndexedSeq[Expression]): RowBytes = RowBytes(c)
}
