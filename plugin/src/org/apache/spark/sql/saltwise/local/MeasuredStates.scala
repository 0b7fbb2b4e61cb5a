package org.apache.spark.sql.saltwise.local

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.saltwise.local.StateTable.Entry

/** States of groups, and what they cost, as the largest group of waiting rows shows it. */
private[local] abstract class MeasuredStates(
    keys: Seq[Attribute],
    aggregates: Seq[AggregateExpression],
    input: Seq[Attribute],
    partition: Int,
    mayFail: Boolean)
  extends PartialStates(keys, aggregates, input, partition, mayFail) {
  import MeasuredStates.MeasuredRows

  protected val keyOf: UnsafeProjection = UnsafeProjection.create(keys, input)

  /** Keys that Spark would have in its own table of objects, before it sorts rows instead. */
  protected val fewKeys: Int = SQLConf.get.objectAggSortBasedFallbackThreshold

  // A state that only lives until it is sent, or measured.
  protected val passingState: InternalRow = emptyState()
  private val row = new UnsafeRow(input.length)

  /** The bytes by which each field of a state has grown. */
  private def grownBy(state: InternalRow): Seq[Long] =
    sizes(state).zip(emptySizes).map { case (now, empty) => now - empty }

  protected def grownBytes(entry: Entry): Long = grownBy(entry.state).sum

  /**
   * Measures what rows and states cost, in the batch's largest group.
   *
   * @param largest the bucket of the group, its first row, and its end
   * @param few     whether there are so few keys that each comes again and again. Then a digest
   *                stops growing.
   */
  protected def measure(
      batch: RowBatch, largest: (RowBucket, Int, Int), few: Boolean): StateCosts = {
    val (bucket, begin, end) = largest
    val empty = (keyOf(bucket.read(begin, row)).getSizeInBytes + emptyBytes).toDouble
    if (isFixed) StateCosts(batch.rowBytes, empty, 0, 0) else {
      val n = math.min(end - begin, math.max(MeasuredRows, (end - begin) / 4))
      def grownWith(from: Int, until: Int): Seq[Long] = {
        for (i <- from until until) add(passingState, bucket.read(begin + i, row))
        grownBy(passingState)
      }
      initializeBuffer(passingState)
      val fields = if (few) growingFields else emptySizes.indices.diff(singleFields)
      // What the first rows add may be more than what all others do, as in a set.
      val first = n / 4
      val before = grownWith(0, first)
      val after = grownWith(first, n)
      val added = fields.map(i => after(i) - (if (first == 0) 0L else before(i))).sum
      val perRow = math.max(0L, added).toDouble / (n - first)
      StateCosts(batch.rowBytes, empty, math.max(0.0, after.sum - n * perRow), perRow)
    }
  }
}

private object MeasuredStates {

  /** Rows of a group that show how its state grows. Of a large group, it is a fourth. */
  private val MeasuredRows = 1 << 8
}
