package org.apache.spark.sql.saltwise.plan

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.catalyst.plans.logical.Aggregate
import org.apache.spark.sql.saltwise.compat.SparkCompat
import org.apache.spark.sql.types.{ArrayType, DataType, StringType, StructType}

/**
 * Grouping keys as Spark compares them: NULL is a key, -0.0 equals 0.0, all NaNs are one key, and
 * strings compare by their collation.
 */
object GroupingKeys {

  def of(aggregate: Aggregate): Seq[Expression] = aggregate.groupingExpressions.map {
    case Alias(key, _) => key
    case key => key
  }

  /** The key's 64-bit hash: xxhash64 of its columns. Keys that Spark compares as equal share it. */
  def hash(keys: Seq[Expression]): Expression = new XxHash64(keys.map(comparable))

  /** `key` in a form whose bytes are equal exactly where Spark treats the values as equal. */
  def comparable(key: Expression): Expression =
    NormalizeFloatingNumbers.normalize(collationKey(key))

  private def collationKey(key: Expression): Expression = key.dataType match {
    case dataType if !isCollated(dataType) => key
    case fields: StructType =>
      val values = fields.indices.map(i => collationKey(GetStructField(key, i)))
      val struct = CreateNamedStruct(fields.zip(values).flatMap { case (field, value) =>
        Seq(Literal(field.name), value)
      })
      if (key.nullable) If(IsNull(key), Literal(null, struct.dataType), struct) else struct
    case ArrayType(elementType, containsNull) =>
      val element = NamedLambdaVariable("element", elementType, containsNull)
      ArrayTransform(key, LambdaFunction(collationKey(element), Seq(element)))
    case _ => SparkCompat.collationKey(key)
  }

  /** Whether values of this type hold collated strings, which `comparable` turns into bytes. */
  def isCollated(dataType: DataType): Boolean = dataType match {
    case string: StringType => SparkCompat.isCollated(string)
    case fields: StructType => fields.exists(field => isCollated(field.dataType))
    case ArrayType(elementType, _) => isCollated(elementType)
    case _ => false
  }
}
