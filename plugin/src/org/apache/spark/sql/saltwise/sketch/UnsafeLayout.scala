package org.apache.spark.sql.saltwise.sketch

import java.math.{BigDecimal, BigInteger}

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.array.ByteArrayMethods.roundNumberOfBytesToNearestWord

/**
 * Checks that bytes from an unknown source are an UnsafeRow whose fields are inside it. Spark reads
 * such rows without bounds checks, so unchecked bytes could make it read any memory, or crash.
 */
object UnsafeLayout {

  /** Whether these bytes are a row of these columns. */
  def isRow(bytes: Array[Byte], columns: Seq[DataType]): Boolean =
    isRow(bytes, 0, bytes.length, columns)

  private def isRow(
      bytes: Array[Byte], at: Int, length: Int, columns: Seq[DataType]): Boolean = {
    val nulls = UnsafeRow.calculateBitSetWidthInBytes(columns.length)
    length % 8 == 0 && length >= nulls + 8 * columns.length &&
      columns.zipWithIndex.forall { case (column, i) =>
        isNull(bytes, at, i) || isValue(bytes, at, length, at + nulls + 8 * i, column)
      }
  }

  /**
   * Whether the value of `slot` is inside the `length` bytes that begin at `at`. The slot holds the
   * value, or its offset and size.
   */
  private def isValue(
      bytes: Array[Byte], at: Int, length: Int, slot: Int, dataType: DataType): Boolean =
    UnsafeRow.isFixedLength(dataType) || {
      val (offset, size) = (longAt(bytes, slot) >>> 32, longAt(bytes, slot) & 0xffffffffL)
      offset + size <= length && (dataType match {
        case struct: StructType =>
          isRow(bytes, at + offset.toInt, size.toInt, struct.map(_.dataType))
        case ArrayType(element, _) => isArray(bytes, at + offset.toInt, size.toInt, element)
        case decimal: DecimalType =>
          size >= 1 && size <= 16 && isDecimal(bytes, at + offset.toInt, size.toInt, decimal)
        case _ => true
      })
    }

  private def isDecimal(
      bytes: Array[Byte], at: Int, length: Int, dataType: DecimalType): Boolean =
    new BigDecimal(new BigInteger(bytes.slice(at, at + length))).precision <= dataType.precision

  private def isArray(bytes: Array[Byte], at: Int, length: Int, element: DataType): Boolean =
    length >= 8 && {
      val elements = longAt(bytes, at)
      elements >= 0 && elements <= 8L * length && {
        val header = 8 + (elements + 63) / 64 * 8
        val fixed = UnsafeRow.isFixedLength(element)
        val width = if (element == NullType) 0 else if (fixed) element.defaultSize else 8
        header + roundNumberOfBytesToNearestWord(elements * width) <= length && (fixed ||
          (0 until elements.toInt).forall { i =>
            isNull(bytes, at + 8, i) ||
              isValue(bytes, at, length, (at + header + 8L * i).toInt, element)
          })
      }
    }

  private def isNull(bytes: Array[Byte], bits: Int, i: Int): Boolean =
    (longAt(bytes, bits + i / 64 * 8) >>> (i % 64) & 1) == 1

  private def longAt(bytes: Array[Byte], at: Int): Long =
    Platform.getLong(bytes, Platform.BYTE_ARRAY_OFFSET + at)
}
