package org.apache.spark.sql.saltwise.plan

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.catalyst.plans.logical.Aggregate
import org.apache.spark.sql.saltwise.compat.SparkCompat
import org.apache.spark.sql.types.{ArrayType, DataType, MapType, StringType, StructType}

/**
 * Grouping keys as Spark compares them: NULL is a key, -0.0 equals 0.0, all NaNs are one key, and
 * strings compare by their collation. Spark has sorted the maps in its keys before.
 */
object GroupingKeys {

  def of(aggregate: Aggregate): Seq[Expression] = aggregate.groupingExpressions.map {
    case Alias(key, _) => key
    case key => key
  }

  /** The key's 64-bit hash: xxhash64 of its columns. Keys that Spark compares as equal share it. */
  def hash(keys: Seq[Expression]): Expression = new XxHash64(keys.map(comparable))

  /** `key` in a form whose bytes are equal exactly if Spark treats the values as equal. */
  def comparable(key: Expression): Expression =
    NormalizeFloatingNumbers.normalize(hashable(key))

  private def hashable(key: Expression): Expression = key.dataType match {
    case dataType if !isCollated(dataType) && !hasMaps(dataType) => key
    case fields: StructType =>
      val values = fields.indices.map(i => hashable(GetStructField(key, i)))
      val struct = CreateNamedStruct(fields.zip(values).flatMap { case (field, value) =>
        Seq(Literal(field.name), value)
      })
      if (key.nullable) If(IsNull(key), Literal(null, struct.dataType), struct) else struct
    case ArrayType(elementType, containsNull) =>
      val element = NamedLambdaVariable("element", elementType, containsNull)
      ArrayTransform(key, LambdaFunction(hashable(element), Seq(element)))
    // Spark hashes no maps.
    case _: MapType => hashable(MapEntries(key))
    case _ => SparkCompat.collationKey(key)
  }

  def hasMaps(dataType: DataType): Boolean = dataType.existsRecursively(_.isInstanceOf[MapType])

  /** Whether values of this type hold collated strings, which `comparable` turns into bytes. */
  def isCollated(dataType: DataType): Boolean = dataType.existsRecursively {
    case string: StringType => SparkCompat.isCollated(string)
    case _ => false
  }
}
