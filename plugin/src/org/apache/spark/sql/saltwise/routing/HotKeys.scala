package org.apache.spark.sql.saltwise.routing

import com.fasterxml.jackson.core.JsonProcessingException
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.saltwise.SaltwiseException
import org.apache.spark.sql.saltwise.plan.GroupingKeys
import org.apache.spark.sql.types._

/** Hot keys that do not fit the grouping columns. */
class HotKeyMismatch(message: String) extends SaltwiseException(message)

/** Reads the hot keys that the user gives: [{"key": ["UA", 7], "share": 0.17}, ...]. */
object HotKeys {

  /**
   * @param json     the keys. The values of a key are in the order of the grouping columns. null is
   *                 NULL, binary is base64, structs and arrays are JSON. share is optional.
   * @param grouping the grouping columns, which give the values their types
   * @throws SaltwiseException if the text is not such a list, or a value does not fit its column
   */
  def parse(json: String, grouping: Seq[Expression]): Seq[HotKey] = {
    val tree = try new ObjectMapper().readTree(json) catch {
      case _: JsonProcessingException => malformed(json)
    }
    if (tree == null || !tree.isArray || tree.isEmpty) malformed(json)
    tree.elements.asScala.map(hotKey(_, grouping)).toSeq
  }

  private def hotKey(entry: JsonNode, grouping: Seq[Expression]): HotKey = {
    val key = entry.get("key")
    if (key == null || !key.isArray) malformed(entry.toString)
    if (key.size != grouping.length) {
      throw new HotKeyMismatch(s"hot key $key has ${key.size} values; it must have one for each " +
        s"of the ${grouping.length} grouping columns.")
    }
    val values = key.elements.asScala.toSeq.zip(grouping).map { case (value, column) =>
      literal(value, column.dataType)
    }
    val hash = GroupingKeys.hash(values).eval(InternalRow.empty).asInstanceOf[Long]
    HotKey(hash, share(entry.get("share")))
  }

  private def literal(value: JsonNode, dataType: DataType): Expression = {
    if (value.isNull) return Literal(null, dataType)
    val text = Literal(if (value.isTextual) value.asText else value.toString)
    val timeZone = Some(SQLConf.get.sessionLocalTimeZone)
    val typed = dataType match {
      case BinaryType => UnBase64(text)
      case _: StructType | _: ArrayType => JsonToStructs(dataType, Map.empty, text, timeZone)
      case _ => Cast(text, dataType, timeZone, EvalMode.TRY)
    }
    val result = try typed.eval(InternalRow.empty) catch {
      case NonFatal(_) => null
    }
    if (result == null) {
      throw new HotKeyMismatch(
        s"hot key value $value is not of type ${dataType.sql}; give a value of that type.")
    }
    Literal(result, dataType)
  }

  private def share(node: JsonNode): Option[Double] =
    if (node == null || node.isNull) None
    else if (node.isNumber && node.asDouble > 0 && node.asDouble <= 1) Some(node.asDouble)
    else throw new SaltwiseException(
      s"share of a hot key is $node; it must be above 0 and at most 1.")

  private def malformed(text: String): Nothing = throw new SaltwiseException(
    s"hot is $text; it must be a list such as " +
      """[{"key": ["UA"], "share": 0.17}]; share may be left out.""")
}
