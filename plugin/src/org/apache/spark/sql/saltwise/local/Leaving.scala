package org.apache.spark.sql.saltwise.local

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.saltwise.local.StateTable.Entry
import org.apache.spark.sql.saltwise.sketch.HotKeysOfTask

/**
 * What leaves a map task: the rows of its batch, and then states. Of the batch, rows of one group
 * leave as a state if there are enough of them, and else as they came.
 *
 * @param hot collects the heaviest keys, with the rows of each that were combined
 */
private[local] final class Leaving(
    keyOf: KeyOfRow, partial: PartialStates, batch: RowBatch, hot: HotKeysOfTask) {
  import Leaving._

  // The bucket of the batch that leaves, and its next row. Rows before `rawEnd` leave raw.
  private var bucketNumber = NoBucket
  private var nextRow, rawEnd = 0
  private var minRows = 0
  private val entries = new java.util.ArrayDeque[Entry]

  // A state that only lives until it is sent.
  private val state = partial.emptyState()
  private val row = new UnsafeRow(keyOf.input.length)

  /** The rows of the batch that left as states. */
  var combinedRows = 0L

  def isEmpty: Boolean = bucketNumber == NoBucket && entries.isEmpty

  /** All rows of the batch leave. So many rows of a group leave as a state. */
  def sendBatch(minRows: Int): Unit = {
    this.minRows = minRows
    bucketNumber = 0
  }

  def send(states: Seq[Entry]): Unit = states.foreach(entries.addLast)

  /**
   * What leaves next.
   *
   * @param taskRows the rows of the task so far
   * @return null if it is not found yet, or nothing is left
   */
  def next(taskRows: Long): UnsafeRow =
    if (bucketNumber != NoBucket) nextOfBatch(taskRows)
    else if (entries.isEmpty) null
    else {
      val entry = entries.pollFirst()
      hot.note(keyOf.groups.hash(entry.group), entry.key, entry.rows, taskRows)
      partial.stateRow(entry.key, entry.state)
    }

  private def nextOfBatch(taskRows: Long): UnsafeRow = {
    val bucket = batch.buckets(bucketNumber)
    if (nextRow < rawEnd) {
      nextRow += 1
      bucket.read(nextRow - 1, row)
    } else if (nextRow < bucket.rows) {
      val end = bucket.endOfRun(nextRow)
      if (end - nextRow >= minRows) stateOf(bucket, end, taskRows)
      else {
        rawEnd = end
        null
      }
    } else {
      nextBucket()
      null
    }
  }

  /** The rows of a run that are of its first row's group, as a state; null if none could be. */
  private def stateOf(bucket: RowBucket, end: Int, taskRows: Long): UnsafeRow = {
    val key = keyOf(bucket.read(nextRow, row)).copy()
    val group = keyOf.groupOf(row, key)
    partial.clear(state)
    val n = partial.addRun(group, state, bucket, nextRow, end)
    nextRow += n
    if (n == 0) {
      rawEnd = nextRow + 1
      null
    } else {
      combinedRows += n
      hot.note(keyOf.groups.hash(group), key, n, taskRows)
      partial.stateRow(key, state)
    }
  }

  private def nextBucket(): Unit = {
    nextRow = 0
    rawEnd = 0
    bucketNumber += 1
    if (bucketNumber < batch.buckets.length) batch.buckets(bucketNumber).fetch()
    else {
      bucketNumber = NoBucket
      batch.clear()
    }
  }
}

private object Leaving {
  private val NoBucket = -1
}
