package org.apache.spark.sql.saltwise.local

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/** What rows and states cost, as the largest group of waiting rows shows it. */
private[local] final class MeasuredStates(keyOf: KeyOfRow, partial: PartialStates) {
  import MeasuredStates._

  // A state that only lives until it is measured.
  private val state = partial.emptyState()
  private val row = new UnsafeRow(keyOf.input.length)

  /**
   * Measures the batch's largest group.
   *
   * @param batch   rows that have been sorted, at least one
   * @param fewKeys if the batch has at most so many keys, each comes again and again, and a digest
   *                stops growing
   */
  def of(batch: RowBatch, fewKeys: Int): Measured = {
    var keys, begin, end = 0
    var bucket = batch.buckets(0)
    for (other <- batch.buckets) other.foreachRun { (first, last) =>
      keys += 1
      if (last - first > end - begin) {
        begin = first
        end = last
        bucket = other
      }
    }
    Measured(costs(batch.rowBytes, bucket, begin, end, keys <= fewKeys), end - begin)
  }

  private def costs(
      rowBytes: Double, bucket: RowBucket, begin: Int, end: Int, few: Boolean): StateCosts = {
    val empty = (keyOf(bucket.read(begin, row)).getSizeInBytes + partial.emptyBytes).toDouble
    if (partial.isFixed) StateCosts(rowBytes, empty, 0, 0) else {
      val n = math.min(end - begin, math.max(MeasuredRows, (end - begin) / 4))
      def grownWith(from: Int, until: Int): Seq[Long] = {
        for (i <- from until until) partial.add(state, bucket.read(begin + i, row))
        partial.grownBy(state)
      }
      partial.clear(state)
      val fields = partial.growingFields(few)
      // What the first rows add may be more than what all others do, as in a set.
      val first = n / 4
      val before = if (first == 0) Nil else grownWith(0, first)
      val after = grownWith(first, n)
      val added = fields.map(i => after(i) - (if (first == 0) 0L else before(i))).sum
      val perRow = math.max(0L, added).toDouble / (n - first)
      StateCosts(rowBytes, empty, math.max(0.0, after.sum - n * perRow), perRow)
    }
  }
}

private[local] object MeasuredStates {

  /** What rows and states cost, and the number of rows of the largest group. */
  final case class Measured(costs: StateCosts, largest: Int)

  /** Rows of a group that show how its state grows. Of a large group, it is a fourth. */
  private val MeasuredRows = 1 << 8
}
