package org.apache.spark.sql.saltwise.sketch

import java.nio.{BufferUnderflowException, ByteBuffer, ByteOrder}
import java.nio.charset.StandardCharsets.UTF_8
import java.util.Arrays
import java.util.zip.CRC32

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import org.apache.spark.sql.catalyst.expressions.{RowOrdering, UnsafeRow}
import org.apache.spark.sql.saltwise.SaltwiseException
import org.apache.spark.sql.types.{DataType, StructType}

/**
 * A SpaceSaving summary that keeps whole items, of any type that can be grouped by. Items are equal
 * if Spark treats them as equal. Each item is shown as it was first seen.
 *
 * Merging follows Agarwal et al., "Mergeable Summaries" (PODS 2012). The counts of an item are
 * added. A summary without the item adds to count and error what it may have missed (`absent`).
 * Then the largest `capacity` counts stay. The guarantee of [[SpaceSaving]] holds for the merged
 * rows: the new `absent` is the sum of both or, where larger, the largest count that was dropped,
 * and each of these is at most total / capacity.
 *
 * The bytes that `serialize` writes (version 1, little endian) describe themselves. Summaries with
 * equal counts have equal bytes:
 * {{{
 *   "SALT"  version: byte  length: int  item type: JSON of struct<item: T>
 *   capacity: int  total: long  absent: long  size: int
 *   size times, count descending, then error and bytes ascending:
 *     count: long  error: long  length: int  item: UnsafeRow of one column
 *   CRC-32 of all before: int
 * }}}
 */
final class ItemSketch(val itemType: DataType, capacity: Int) extends SpaceSaving(capacity) {
  import ItemSketch._

  private val items = Items(itemType)

  override protected def holdsCurrent(counter: Int): Boolean = items.holdsCurrent(counter)
  override protected def storeCurrent(counter: Int): Unit = items.storeCurrent(counter)

  /** Counts an item, a row of one column, `weight` times. */
  def add(row: UnsafeRow, weight: Long): Unit = offer(items.setCurrent(row), weight)

  /** The counter of an item, or -1. */
  def counterOf(row: UnsafeRow): Int = find(items.setCurrent(row))

  /** The value on a counter. */
  def value(counter: Int): Any = items.row(counter).get(0, itemType)

  /** The k counters with the highest counts, in the order of the serialised form. */
  def top(k: Int): Seq[Int] = ranked.take(k).toSeq

  def merge(other: ItemSketch): Unit = {
    if (total > Long.MaxValue - other.total) {
      throw new SaltwiseException(s"the sketches counted $total and ${other.total} rows, which " +
        "is more than a BIGINT holds; leave out those that counted something else.")
    }
    val (missedHere, missedThere) = (absent, other.absent)
    val here = entries.map { entry =>
      val there = other.counterOf(entry.item)
      if (there >= 0) entry.plus(other.count(there), other.error(there))
      else entry.plus(missedThere, missedThere)
    }
    val onlyThere = other.entries.filter(entry => counterOf(entry.item) < 0)
    val all = (here ++ onlyThere.map(_.plus(missedHere, missedHere))).sorted
    val dropped = if (all.length > capacity) all(capacity).count else 0L
    fill(all.take(capacity), total + other.total, math.max(missedHere + missedThere, dropped))
  }

  def serialize(): Array[Byte] = {
    val order = entries.sorted
    val typeBytes = typeJson(itemType).getBytes(UTF_8)
    val length = 4 + 1 + 4 + typeBytes.length + 4 + 8 + 8 + 4 +
      order.map(EntryHeader + _.item.getSizeInBytes).sum + 4
    val out = ByteBuffer.allocate(length).order(ByteOrder.LITTLE_ENDIAN)
    out.put(Magic).put(Version).putInt(typeBytes.length).put(typeBytes)
    out.putInt(capacity).putLong(total).putLong(absent).putInt(size)
    order.foreach { entry =>
      val bytes = entry.item.getBytes
      out.putLong(entry.count).putLong(entry.error).putInt(bytes.length).put(bytes)
    }
    out.putInt(checksum(out.array, length - 4))
    out.array
  }

  private def entries: Array[Entry] =
    Array.tabulate(size)(i => Entry(count(i), error(i), items.row(i)))

  private def ranked: Array[Int] = entries.zipWithIndex.sortBy(_._1).map(_._2)

  /** Replaces the content by these entries, which are in the order of the serialised form. */
  private def fill(entries: Array[Entry], total: Long, absent: Long): Unit = {
    clear()
    entries.reverseIterator.foreach { entry =>
      val hash = items.setCurrent(entry.item)
      if (find(hash) >= 0) damaged("it counts an item twice")
      storeCurrent(append(hash, entry.count, entry.error))
    }
    restore(total, absent)
  }
}

object ItemSketch {
  private val Magic = "SALT".getBytes(UTF_8)
  private val Version: Byte = 1
  private val EntryHeader = 8 + 8 + 4

  private final case class Entry(count: Long, error: Long, item: UnsafeRow) extends Ordered[Entry] {
    def plus(count: Long, error: Long): Entry = Entry(this.count + count, this.error + error, item)

    override def compare(that: Entry): Int = {
      val byCount = java.lang.Long.compare(that.count, count)
      if (byCount != 0) return byCount
      val byError = java.lang.Long.compare(error, that.error)
      if (byError != 0) byError else Arrays.compareUnsigned(item.getBytes, that.item.getBytes)
    }
  }

  /**
   * Reads a summary.
   *
   * @throws SaltwiseException if the bytes are not a SpaceSaving sketch, or are newer or damaged
   */
  def deserialize(bytes: Array[Byte]): ItemSketch = {
    if (bytes.length < 9 || !Arrays.equals(Arrays.copyOf(bytes, 4), Magic)) {
      refuse(s"these ${bytes.length} bytes are not a SpaceSaving sketch")
    }
    if (bytes(4) != Version) {
      refuse(s"the sketch has version ${bytes(4)}, but this Saltwise reads version $Version")
    }
    val in = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN)
    if (in.getInt(bytes.length - 4) != checksum(bytes, bytes.length - 4)) {
      damaged("its checksum does not match")
    }
    try read(in) catch {
      case e: BufferUnderflowException => damaged(e.toString)
      case NonFatal(e) if !e.isInstanceOf[SaltwiseException] =>
        damaged(String.valueOf(e.getMessage).linesIterator.next())
    }
  }

  private def read(in: ByteBuffer): ItemSketch = {
    in.position(Magic.length + 1) // after the version
    val itemType = typeOf(new String(next(in), UTF_8))
    val (capacity, total, absent, size) = (in.getInt(), in.getLong(), in.getLong(), in.getInt())
    val fits = capacity >= 1 && capacity <= SketchArguments.MaxCapacity && total >= 0 &&
      absent >= 0 && absent <= total && size >= 0 && size <= capacity &&
      size <= in.remaining / EntryHeader
    if (!fits) damaged(s"it says $size items of $total rows on $capacity counters")
    val entries = Array.fill(size)(readEntry(in, itemType, total))
    if (in.remaining != 4) damaged(s"${in.remaining - 4} bytes follow the last item")
    val sketch = new ItemSketch(itemType, capacity)
    sketch.fill(entries.sorted, total, absent)
    sketch
  }

  private def readEntry(in: ByteBuffer, itemType: DataType, total: Long): Entry = {
    val (count, error, item) = (in.getLong(), in.getLong(), next(in))
    if (error < 0 || error > count || count > total) {
      damaged(s"it counts an item $count times, with an error of $error, in $total rows")
    }
    if (!UnsafeLayout.isRow(item, Seq(itemType))) {
      damaged(s"${item.length} bytes are not an item of type ${itemType.sql}")
    }
    val row = new UnsafeRow(1)
    row.pointTo(item, item.length)
    Entry(count, error, row)
  }

  private def next(in: ByteBuffer): Array[Byte] = {
    val length = in.getInt()
    if (length < 0 || length > in.remaining) throw new BufferUnderflowException
    val bytes = new Array[Byte](length)
    in.get(bytes)
    bytes
  }

  private def checksum(bytes: Array[Byte], length: Int): Int = {
    val crc = new CRC32
    crc.update(bytes, 0, length)
    crc.getValue.toInt
  }

  private def typeOf(json: String): DataType = {
    // Reading a user-defined type would run the code of the class that it names.
    if (namesClass(new ObjectMapper().readTree(json))) damaged("it names a class as its type")
    val itemType = DataType.fromJson(json).asInstanceOf[StructType].head.dataType
    if (SketchArguments.levels(itemType) > SketchArguments.MaxLevels) {
      damaged(s"its items have more than ${SketchArguments.MaxLevels} levels of structs and arrays")
    }
    // The bytes of other types contain sizes that are not checked here.
    if (!RowOrdering.isOrderable(itemType)) damaged(s"items cannot be of type ${itemType.sql}")
    itemType
  }

  private def namesClass(json: JsonNode): Boolean =
    json.path("type").asText == "udt" || json.elements.asScala.exists(namesClass)

  private def typeJson(itemType: DataType): String = new StructType().add("item", itemType).json

  private def damaged(why: String): Nothing = refuse(s"the sketch is damaged: $why")

  private def refuse(why: String): Nothing =
    throw new SaltwiseException(
      s"$why; give the binary result of space_saving_agg or space_saving_merge.")
}
