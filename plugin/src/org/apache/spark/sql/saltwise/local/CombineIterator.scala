package org.apache.spark.sql.saltwise.local

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, Collect}
import org.apache.spark.sql.saltwise.local.KeySample.{FullAfter, HalfLife}
import org.apache.spark.sql.saltwise.local.StateCosts.{Never, Tenth}
import org.apache.spark.sql.saltwise.local.StateTable.Entry
import org.apache.spark.sql.saltwise.plan.GroupingKeys
import org.apache.spark.sql.saltwise.sketch.HotKeysOfTask

/**
 * One map task of a [[CombineExec]].
 *
 * A row comes in as a raw row is sent: its key, what the aggregates read, and NULL for the state.
 * A row of a hot key is combined with the state of its key at once. Other rows wait in a batch, or
 * are sent raw if it does not pay to wait ([[BatchSize]]). From time to time the task looks at the
 * batch, where the rows of a key are side by side: rows whose key has a state are combined with it,
 * and a key with enough rows gets one. Other rows wait on, or are sent.
 *
 * If an aggregate depends on the order of rows, what the task sends for a key is in the order in
 * which its rows came. So `collect_list` of rows that a task has sorted keeps their order, as in
 * stock Spark.
 *
 * @param lists     whether each state, and each result, keeps all of its rows
 * @param maxMemory the bytes that waiting rows and states may take
 * @param belowJoin whether a join comes first that may drop rows. The arguments of such a row may
 *                  fail, which stock Spark would not evaluate. The row is then sent raw; so are all
 *                  others, once there were [[MaxFailed]].
 * @param hot       collects the heaviest keys, with the rows of each that were combined
 */
private final class CombineIterator(
    keys: Seq[Attribute],
    aggregates: Seq[AggregateExpression],
    lists: Boolean,
    input: Seq[Attribute],
    maxMemory: Long,
    belowJoin: Boolean,
    partition: Int,
    hot: HotKeysOfTask,
    in: Iterator[InternalRow])
  extends MeasuredStates(keys, aggregates, input, partition, mayFail = belowJoin) {
  import CombineIterator._

  // Keys are the same if the bytes of their groups are. Of texts that a collation compares as
  // equal, the first one that a task sees stands for the group, as in stock Spark.
  private val isCollated = keys.exists(key => GroupingKeys.isCollated(key.dataType))
  private val comparables = keys.map(GroupingKeys.comparable)
  private val groupOf = UnsafeProjection.create(comparables, input)
  // Of late, Spark takes collect_list as deterministic.
  private val keepsOrder = isCollated || aggregates.map(_.aggregateFunction).exists {
    case _: Collect[_] | _: UserDefinedExpression => true
    case function => !function.deterministic
  }
  private val groups =
    new GroupOfRow(if (isCollated) comparables.map(_.dataType) else keys.map(_.dataType))

  private val memory = new StateMemory(TaskContext.get().taskMemoryManager(), maxMemory)
  private val batch = new RowBatch(memory, maxMemory - maxMemory / StatesShare)
  private val states = new HeldStates(groups, memory, maxMemory / StatesSteps)
  private val sample = new KeySample
  private val batchSize = new BatchSize(sample, belowJoin)
  private val hotRows = new HotRows

  // What the metrics show.
  var rows, combinedRows, allRows, headRows = 0L
  def peakMemory: Long = memory.peak

  /** The bytes of rows that were combined, if these are like those that waited, less the states. */
  def savedBytes: Long = math.max(0L, (combinedRows * batch.rowBytes).toLong - sentBytes)

  // The costs as the last look at the batch found them, and the fewest rows that get a state.
  private var costs: StateCosts = _
  private var minRows = Never
  private var nextLook = FirstLook
  // Below a join, rows wait in vain if they share no keys, so it is soon decided.
  private val decideAfter = if (belowJoin) HalfLife.toInt else FullAfter
  private var rowsAtSweep = 0L

  private var readyRow: UnsafeRow = _
  private val row = new UnsafeRow(input.length)
  // How many rows wait, and a row that is taken again once others have left.
  private var waitingRows = 0
  private var delayed: UnsafeRow = _
  // The bucket of the batch that is sent, and its next row. Rows before `rawEnd` are sent raw.
  private var sendingBucket = NotSending
  private var nextRow, rawEnd = 0
  private var leavingEntries: Iterator[Entry] = Iterator.empty
  private var ended = false

  override def hasNext: Boolean = {
    if (readyRow == null) advance()
    readyRow != null
  }

  override def next(): UnsafeRow = {
    if (!hasNext) throw new NoSuchElementException
    memory.beginToSend()
    val out = readyRow
    readyRow = null
    out
  }

  /** Frees what the task holds, if it ends before its last row. */
  def close(): Unit = {
    batch.free()
    memory.release()
  }

  private def advance(): Unit = while (readyRow == null) {
    if (sendingBucket != NotSending) sendNext()
    else if (leavingEntries.hasNext) {
      val entry = leavingEntries.next()
      readyRow = stateRow(entry.key, entry.state)
    } else if (memory.scarce) giveBack()
    else if (states.needMemory) {
      if (!states.takeMemory(grownBytes)) makeRoom()
    } else if (delayed != null) {
      val again = delayed
      delayed = null
      take(again)
    } else if (in.hasNext) takeRows()
    else if (!ended) {
      ended = true
      if (waitingRows > 0) look(leaves = true)
      send(states.removeAll())
    } else return
  }

  /** Takes rows until something is to be sent. */
  private def takeRows(): Unit = {
    leavingEntries = Iterator.empty
    do {
      rows += 1
      take(in.next().asInstanceOf[UnsafeRow])
    } while (readyRow == null && sendingBucket == NotSending && leavingEntries.isEmpty &&
        !memory.scarce && !states.needMemory && delayed == null && in.hasNext)
  }

  private def take(row: UnsafeRow): Unit = if (failed > MaxFailed) readyRow = row else {
    val group = groupAt(row)
    val hash = groups.hash(group)
    val entry = if (states.hot.size == 0) null else states.hot.find(hash.toInt, group)
    if (entry != null) update(entry, row)
    else {
      sample.see(hash)
      if (batchSize.rows == BatchSize.None) pass(hash, row) else join(hash, row)
      // Both are powers of two, so that no row needs a division.
      if ((sample.rows & (FirstLook - 1)) == 0) {
        if (sample.rows < decideAfter) { if (belowJoin) guess() }
        else if ((sample.rows & (HalfLife - 1)) == 0) decide()
      }
    }
  }

  private def groupAt(row: UnsafeRow): UnsafeRow = if (isCollated) groupOf(row) else row

  /** A row joins the batch, if there is memory for it. If not, it waits until others have left. */
  private def join(hash: Long, row: UnsafeRow): Unit = {
    val isWide = row.getSizeInBytes > batch.maxRowBytes
    if (!isWide && batch.add(hash, row)) {
      allRows += 1
      waitingRows += 1
      if (waitingRows >= nextLook) look(leaves = waitingRows >= batchSize.rows)
    } else if (isWide && !keepsOrder || !makeRoom()) readyRow = row
    else delayed = row
  }

  /** A row is sent raw, unless its key is a hot one, which gets a state. */
  private def pass(hash: Long, row: UnsafeRow): Unit = {
    if (states.hot.size > 0) headRows += 1
    val isHot = minRows != Never && hotRows.see(hash, math.max(minRows, Hot))
    val entry = if (isHot) newEntry(hash.toInt, row) else null
    if (entry != null && states.add(states.hot, entry)) update(entry, row) else readyRow = row
  }

  /** A key and a state before its first row. */
  private def newEntry(hash: Int, row: UnsafeRow): Entry = {
    val key = keyOf(row).copy()
    val group = if (isCollated) groupOf(row).copy() else key
    val groupBytes = if (isCollated) group.getSizeInBytes else 0
    new Entry(hash, key, group, emptyState(), key.getSizeInBytes + groupBytes + emptyBytes)
  }

  private def update(entry: Entry, row: UnsafeRow): Unit = if (!add(entry.state, row)) {
    readyRow = row
  } else {
    if (batchSize.rows != BatchSize.None) allRows += 1 else headRows += 1
    combined(entry, 1)
  }

  private def combined(entry: Entry, n: Int): Unit = {
    states.combined(entry, n)
    combinedRows += n
  }

  /** Decides whether rows wait until the sample knows more. */
  private def guess(): Unit = if (costs != null) {
    batchSize.guess()
    if (batchSize.rows == BatchSize.None && waitingRows > 0) look(leaves = true)
  }

  /** Decides how many rows wait from now on. */
  private def decide(): Unit = if (costs != null) {
    val before = batchSize.rows
    batchSize.choose(batch.maxRows, costs)
    if (batchSize.rows == BatchSize.None) {
      if (waitingRows > 0) look(leaves = true)
      if (before == BatchSize.None) sendIdle(HalfLife)
    } else if (before == BatchSize.None) nextLook = FirstLook
    else nextLook = math.min(nextLook, batchSize.rows)
    if (!batchSize.statesStay && states.others.size > 0) send(states.removeOthers())
  }

  /** What takes more of the memory is sent: the batch, or the states. Returns whether any is. */
  private def makeRoom(): Boolean = {
    if (2 * batch.heldBytes < memory.held && states.size > 0) {
      send(states.removeAll())
      true
    } else if (waitingRows > 0) {
      look(leaves = true)
      true
    } else {
      batch.free()
      false
    }
  }

  /** Sends the states of keys that have not come for about this many rows. */
  private def sendIdle(idle: Long): Unit = if (rows - rowsAtSweep >= math.max(idle, states.slots)) {
    rowsAtSweep = rows
    send(states.removeIdle())
  }

  private def send(entries: Seq[Entry]): Unit = if (entries.nonEmpty) {
    entries.foreach(entry => hot.note(groups.hash(entry.group), entry.key, entry.rows, rows))
    leavingEntries = leavingEntries ++ entries
  }

  /** Sends all rows and states, because another operator needs memory or there is no more. */
  private def giveBack(): Unit = {
    if (waitingRows > 0) look(leaves = true)
    else if (states.size > 0) send(states.removeAll())
    else {
      batch.free()
      memory.release()
      batchSize.rows = BatchSize.None
    }
  }

  /** Looks at the batch: rows are combined with states, and the others may be sent. */
  private def look(leaves: Boolean): Unit =
    if (leaves && waitingRows == sample.rows && costs != null && sample.isHopeless) {
      minRows = Never
      sendingBucket = 0
    } else lookAtGroups(leaves)

  private def lookAtGroups(leaves: Boolean): Unit = {
    val before = waitingRows
    batch.sort()
    if (leaves || costs == null || sample.rows <= decideAfter) measure()
    sample.minRows = minRows
    combineWaiting()
    waitingRows = batch.rows
    if (leaves || waitingRows >= batchSize.rows) sendingBucket = 0
    nextLook =
      if (sample.rows < decideAfter) {
        // If hardly a row was combined, no other look is worth a sort before the first decision.
        if (waitingRows > (1 - Tenth) * before) decideAfter
        else math.min(decideAfter, math.max(FirstLook, 4 * waitingRows))
      } else if (costs.statesGrow) batchSize.rows
      else math.min(
        batchSize.rows, 2 * waitingRows + math.max(FullAfter, RowsOfState * states.others.size))
    if (batchSize.rows < BatchSize.All) sendIdle(batchSize.rows)
  }

  /** Measures what rows and states cost. */
  private def measure(): Unit = if (waitingRows > 0) {
    var groups, begin, end = 0
    var bucket = batch.buckets(0)
    for (other <- batch.buckets) other.foreachRun { (first, last) =>
      groups += 1
      if (last - first > end - begin) {
        begin = first
        end = last
        bucket = other
      }
    }
    costs = measure(batch, (bucket, begin, end), states.hot.size + groups <= fewKeys)
    states.measured(costs)
    minRows = costs.minRows
    // A list saves nothing, but those of hot keys are made here so that they do not meet as rows.
    val hotRows = math.max(Hot, waitingRows / Hot)
    if (minRows == Never && lists && end - begin >= hotRows) minRows = hotRows
  }

  /** Combines rows whose keys have states, or enough rows for one. */
  private def combineWaiting(): Unit = {
    val room =
      if (costs.statesGrow) fewKeys.toLong
      else math.max(fewKeys, CacheBytes / states.bytesOf(emptyBytes))
    batch.buckets.foreach { bucket => bucket.fetch(); bucket.removeRuns { (begin, end) =>
      val isHot = states.hot.size < room && 2 * room * (end - begin) >= waitingRows
      val stays = isHot || !costs.statesGrow && batchSize.statesStay
      val isNew = !ended && end - begin >= minRows && stays
      if (states.others.size == 0 && !isNew) 0 else {
        val hash = bucket.hash(begin)
        val first = bucket.read(begin, row)
        var entry = states.others.find(hash, groupAt(first))
        if (entry == null && isNew) {
          entry = newEntry(hash, first)
          if (!states.add(if (isHot) states.hot else states.others, entry)) entry = null
        }
        if (entry == null) 0 else {
          val rows = combine(entry.group, entry.state, bucket, begin, end)
          combined(entry, rows)
          rows
        }
      }
    }}
  }

  /**
   * Combines the first rows of a run that are of this group, and returns their number. Mostly it is
   * the whole run, but other keys may have the same hash, and the arguments of a row may fail.
   */
  private def combine(
      group: UnsafeRow, state: InternalRow, bucket: RowBucket, begin: Int, end: Int): Int = {
    var i = begin
    while (i < end && groups.areSame(group, groupAt(bucket.read(i, row))) && add(state, row)) {
      i += 1
    }
    i - begin
  }

  private def sendNext(): Unit = {
    val bucket = batch.buckets(sendingBucket)
    if (nextRow < rawEnd) {
      readyRow = bucket.read(nextRow, row)
      nextRow += 1
    } else if (nextRow < bucket.rows) {
      val end = bucket.endOfRun(nextRow)
      if (end - nextRow < minRows) rawEnd = end else {
        val key = keyOf(bucket.read(nextRow, row)).copy()
        val group = if (isCollated) groupOf(row).copy() else key
        val hash = groups.hash(group)
        initializeBuffer(passingState)
        val n = combine(group, passingState, bucket, nextRow, end)
        nextRow += n
        if (n == 0) rawEnd = nextRow + 1 else {
          hot.note(hash, key, n, rows)
          combinedRows += n
          readyRow = stateRow(key, passingState)
        }
      }
    } else {
      nextRow = 0
      rawEnd = 0
      sendingBucket += 1
      if (sendingBucket < batch.buckets.length) batch.buckets(sendingBucket).fetch()
      else {
        sendingBucket = NotSending
        waitingRows = 0
        batch.clear()
      }
    }
  }
}

private[saltwise] object CombineIterator {

  private val NotSending = -1

  private val FirstLook = KeySample.size(0).toInt

  /** A fourth of the memory is for states only, and growing states take it in so many steps. */
  private val StatesShare = 4
  private val StatesSteps = 64

  /** The bytes of states that stay in the cache of a core. */
  private val CacheBytes = 1L << 18

  /** A state that is not in the cache is read once for about this many rows. */
  private val RowsOfState = 16

  /**
   * A key is hot that has this part of the waiting rows. Where no rows wait, it has so many rows
   * more than the other keys of its slot.
   */
  private val Hot = 16

  /** An error takes some 10 microseconds, so that these take a hundredth of a second. */
  private val MaxFailed = 1000
}
