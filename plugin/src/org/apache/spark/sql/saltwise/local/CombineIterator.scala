package org.apache.spark.sql.saltwise.local

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, Collect}
import org.apache.spark.sql.saltwise.local.Combining.{Early, Groups, Never}
import org.apache.spark.sql.saltwise.local.StateTable.Entry
import org.apache.spark.sql.saltwise.plan.GroupingKeys
import org.apache.spark.sql.saltwise.routing.RepeatableOrderExec.contentHash
import org.apache.spark.sql.saltwise.sketch.HotKeysOfTask

/**
 * One map task of a [[CombineExec]].
 *
 * A row comes in as a raw row is sent: its key, what the aggregates read, and NULL for the state.
 *
 * If an aggregate depends on the order of rows, what the task sends for a key is in the order in
 * which its rows came. So `collect_list` of rows that a task has sorted keeps their order, as in
 * stock Spark. Before rows may pass those that wait or that a state stands for, these are sent.
 *
 * @param lists     whether each state, and each result, keeps all of its rows
 * @param maxMemory the bytes that waiting rows and states may take
 * @param hot       collects the heaviest keys, with the rows of each that were combined
 */
private final class CombineIterator(
    keys: Seq[Attribute],
    aggregates: Seq[AggregateExpression],
    lists: Boolean,
    input: Seq[Attribute],
    maxMemory: Long,
    partition: Int,
    hot: HotKeysOfTask,
    in: Iterator[InternalRow])
  extends PartialStates(keys, aggregates, input, partition) {
  import CombineIterator._

  private val keyOf = UnsafeProjection.create(keys, input)
  // Keys are the same if these bytes are. Of texts that a collation compares as equal, the first
  // one that a task sees stands for the group, as in stock Spark.
  private val isCollated = keys.exists(key => GroupingKeys.isCollated(key.dataType))
  // A projection of its own: the group of a row is still read when a key of an earlier one is made.
  private val groupOf =
    UnsafeProjection.create(if (isCollated) keys.map(GroupingKeys.comparable) else keys, input)
  // Of late, Spark takes collect_list as deterministic.
  private val keepsOrder = isCollated || aggregates.map(_.aggregateFunction).exists {
    case _: Collect[_] | _: UserDefinedExpression => true
    case function => !function.deterministic
  }
  private val memory = new StateMemory(TaskContext.get().taskMemoryManager())
  private val maxStates = maxMemory / StatesShare
  private val batch = new RowBatch(memory, maxMemory - maxStates)
  val combining = new Combining

  // What the metrics show, apart from what `combining` counts.
  var rows = 0L
  var combinedRows = 0L
  def peakMemory: Long = memory.peak

  // The state of a group that is sent at once.
  private val passingState = emptyState()

  private lazy val table = {
    val fits = math.min(TableBytes, maxStates) / (ObjectBytes + emptyBytes)
    new StateTable(fits.min(if (isFixed) MaxKeys else MaxGrowingKeys).max(1).toInt)
  }

  // In bytes: how much the states of the table have grown, how much of that has memory, how much
  // the single values of a state take, and how much a row may add to a state.
  private var grownBytes = 0L
  private var takenBytes = 0L
  private var singleBytes = 0L
  private var addedPerRow = 0L

  private var readyRow: UnsafeRow = _
  private val row = new UnsafeRow(input.length)
  // How many rows joined the batch, and a row that is sent raw, after those that leave now.
  private var waitingRows = 0
  private var passingNext: UnsafeRow = _
  // The bucket of the batch that is sent, and its next row. Rows before `rawEnd` are sent raw.
  private var sendingBucket = NotSending
  private var nextRow = 0
  private var rawEnd = 0
  private var leavingEntries: Iterator[Entry] = Iterator.empty
  private var ended = false

  // The run of rows at the end of the input so far: their group, their number, and the first of
  // them. `passingState` is their state.
  private val runGroup = UnsafeRow.createFromByteArray(0, keys.length)
  private var runRows = 0
  private var first = UnsafeRow.createFromByteArray(0, input.length)
  private var spare = UnsafeRow.createFromByteArray(0, input.length)

  override def hasNext: Boolean = {
    if (readyRow == null) advance()
    readyRow != null
  }

  override def next(): UnsafeRow = {
    if (!hasNext) throw new NoSuchElementException
    val out = readyRow
    readyRow = null
    out
  }

  /** Frees what the task holds, if it ends before its last row. */
  def close(): Unit = memory.release()

  private def advance(): Unit = while (readyRow == null) {
    if (sendingBucket != NotSending) sendNext()
    else if (leavingEntries.hasNext) {
      val entry = leavingEntries.next()
      readyRow = stateRow(entry.key, entry.state)
    } else if (passingNext != null) {
      readyRow = passingNext
      passingNext = null
    } else if (runRows > 0 && !(combining.follows && in.hasNext)) readyRow = endRun()
    else if (memory.scarce) giveBack()
    else if (in.hasNext) take(in.next().asInstanceOf[UnsafeRow])
    else if (!ended) {
      ended = true
      if (waitingRows > 0) look(maxRows = 0)
      sendStates()
    } else return
  }

  private def take(row: UnsafeRow): Unit = {
    rows += 1
    if (combining.unseen > 0) {
      combining.unseen -= 1
      readyRow = row
    } else {
      val group = groupOf(row)
      val hash = contentHash(group)
      combining.see(hash)
      val entry = if (combining.follows) null else table.find(hash, group)
      if (combining.follows) follow(group, row)
      else if (entry != null) {
        combining.hit()
        update(entry, row)
      } else if (!combining.waits || row.getSizeInBytes > batch.maxRowBytes) {
        combining.pass()
        pass(hash, row, sendsFirst = keepsOrder)
      } else {
        combining.join()
        if (!batch.add(hash, row)) pass(hash, row, sendsFirst = true)
        else {
          waitingRows += 1
          if (waitingRows >= combining.nextLook) look(batch.maxRows)
        }
      }
    }
  }

  /**
   * Sends a row raw, after those that wait if `sendsFirst`. With these, its key may move to the
   * table.
   */
  private def pass(hash: Long, row: UnsafeRow, sendsFirst: Boolean): Unit =
    if (!sendsFirst || waitingRows == 0) readyRow = row else {
      look(maxRows = 0)
      val entry = if (keepsOrder) table.find(hash, groupOf(row)) else null
      if (entry != null) update(entry, row) else passingNext = row
    }

  /** Combines a row with those before it if it has the same key. If not, those are sent. */
  private def follow(group: UnsafeRow, row: UnsafeRow): Unit = {
    combining.follow()
    if (runRows > 0 && runGroup == group) {
      if (runRows == 1) {
        initializeBuffer(passingState)
        processRow(passingState, first)
        combinedRows += 1
      }
      processRow(passingState, row)
      combinedRows += 1
      runRows += 1
      if (runRows * addedPerRow > maxStates) readyRow = endRun()
    } else {
      if (runRows > 0) readyRow = endRun()
      runGroup.copyFrom(group)
      first.copyFrom(row)
      runRows = 1
    }
  }

  /** What is sent for a run: its row, if it has only one, or a state. */
  private def endRun(): UnsafeRow = {
    val isState = runRows > 1
    val key = keyOf(first)
    hot.note(contentHash(key), key, runRows, rows)
    runRows = 0
    if (isState) stateRow(key, passingState) else {
      val out = first
      first = spare
      spare = out
      out
    }
  }

  private def update(entry: Entry, row: UnsafeRow): Unit = {
    processRow(entry.state, row)
    entry.rows += 1
    entry.recentRows += 1
    combinedRows += 1
    grownBytes += addedPerRow
    if (grownBytes > takenBytes && !takeGrown()) outgrown()
  }

  /**
   * Takes memory for states that have grown, within a limit. The states of few keys stay in the
   * cache, so they may take all the memory that waiting rows do not. Single values need not be in
   * the cache, because most rows do not change them.
   */
  private def takeGrown(): Boolean = {
    val limit =
      if (table.size <= FewKeys) maxMemory - batch.heldBytes
      else if (addedPerRow == 0) maxStates
      else math.min(MaxGrownBytes, maxStates)
    val taken = math.min(grownBytes + GrowthStep, limit) - takenBytes
    val fits = taken > 0 && memory.take(taken)
    if (fits) takenBytes += taken
    fits
  }

  /**
   * The states have outgrown their memory. They are sent, and later rows of their keys wait in the
   * batch, except for a few keys whose states fit into the cache. If the largest state shows that
   * states grow more slowly than estimated, they stay.
   */
  private def outgrown(): Unit = {
    val largest = table.iterator.maxBy(_.rows)
    val grown = grownBy(largest.state)
    val added = HeapBytes * (grown.sum - singleFields.map(grown).sum).toDouble / largest.rows
    val isSlower = added < SlowerGrowth * addedPerRow
    if (isSlower) {
      addedPerRow = math.max(1, math.ceil(added).toLong)
      grownBytes =
        (added * table.iterator.map(_.rows.toLong).sum).toLong + table.size * singleBytes
    }
    if (!isSlower || grownBytes > takenBytes) {
      table.capacity = math.min(table.capacity, FewKeys)
      sendStates()
    }
  }

  private def sendStates(): Unit = {
    send(_ => true)
    memory.give(takenBytes)
    takenBytes = 0
    grownBytes = 0
  }

  /** Sends all rows and states, because another operator needs memory or there is no more. */
  private def giveBack(): Unit = {
    if (waitingRows > 0) look(maxRows = 0)
    else if (table.size > 0) sendStates()
    else {
      batch.free()
      memory.release()
      combining.rest()
    }
  }

  /**
   * Looks back at the batch: some keys move to the table, and the batch is sent or goes on growing.
   *
   * @param maxRows the most rows that the batch may have
   */
  private def look(maxRows: Double): Unit = {
    batch.buckets.foreach(_.sort())
    combining.minRows = rowsThatPay()
    val seen = Groups(batch, combining.minRows)
    val inRuns = !ended && combining.seesRuns(seen, table.size)
    val groups = if (ended || inRuns || !fillTable(seen)) seen else Groups(batch, combining.minRows)
    val leastRecent = combining.minRecentRows(groups.rows, table.capacity)
    if (combining.look(groups, maxRows, inRuns)) {
      sendingBucket = 0
      // These modes do not look for a key in the table.
      if (keepsOrder && (combining.unseen > 0 || combining.follows)) sendStates()
      else send(_.recentRows < leastRecent)
      table.iterator.foreach(_.recentRows = 0)
    }
  }

  /** The bytes by which each field of a state has grown. */
  private def grownBy(state: InternalRow): Seq[Long] =
    sizes(state).zip(emptySizes).map { case (now, empty) => now - empty }

  /** The fewest rows for which a state pays. If states grow, the largest group shows how much. */
  private def rowsThatPay(): Int = {
    val rowBytes = batch.rowBytes
    val someKey = keyOf(batch.buckets.find(_.rows > 0).get.read(0, row))
    val stateBytes = someKey.getSizeInBytes + emptyBytes
    val atLeast = Combining.rowsThatPay(rowBytes, stateBytes.toDouble, 0, 0)
    combining.hotOnly = false
    if (isFixed || atLeast > Early * waitingRows) atLeast else {
      val all = Groups(batch, Never)
      val (bucket, begin) = all.largestBegin
      val rows = math.max(all.largestOther / SampledShare, MinSampledRows).min(all.largestOther)
      initializeBuffer(passingState)
      // If there are few keys, each comes so often that a digest stops growing.
      val counted =
        if (table.size + all.keys <= FewKeys) growingFields
        else emptySizes.indices.diff(singleFields)
      def grownAfter(next: Range): Seq[Long] = {
        next.foreach(i => processRow(passingState, bucket.read(begin + i, row)))
        grownBy(passingState)
      }
      def perRow(grown: Seq[Long], rows: Int): Double =
        math.max(0L, counted.map(grown).sum).toDouble / rows
      val few = math.max(1, rows / SampledShare)
      val first = perRow(grownAfter(0 until few), few)
      val grown = grownAfter(few until rows)
      val added = perRow(grown, rows)
      val kept = math.max(0L, singleFields.map(grown).sum)
      combining.levelOff = rows >= MinSampledRows && added < LevelsOff * first
      addedPerRow = math.ceil(HeapBytes * added).toLong
      singleBytes = HeapBytes * kept
      val pays = Combining.rowsThatPay(rowBytes, stateBytes.toDouble, kept.toDouble, added)
      combining.hotOnly = pays == Never && lists
      if (combining.hotOnly) combining.rowsOfHotKey(all, atLeast) else pays
    }
  }

  /**
   * Moves the most frequent keys to the table, with all of their rows. Returns whether any moved.
   */
  private def fillTable(groups: Groups): Boolean = combining.minRows != Never && {
    val before = table.size
    val least = combining.minRowsInTable(groups, table.capacity - before)
    batch.buckets.foreach(bucket => bucket.removeRuns { (begin, end) =>
      if (end - begin < least || table.size >= table.capacity) 0 else {
        val key = keyOf(bucket.read(begin, row)).copy()
        val group = if (isCollated) groupOf(row).copy() else key
        val entry = new Entry(key, group, emptyState())
        if (!memory.take(bytesOf(entry))) 0 else {
          val rows = combine(group, entry.state, bucket, begin, end)
          entry.rows = rows
          entry.recentRows = rows
          grownBytes += singleBytes + rows * addedPerRow
          combining.hits += rows
          table.add(contentHash(group), entry)
          rows
        }
      }
    })
    table.size > before
  }

  /**
   * Combines the first rows of a run that are of this group, and returns their number. Mostly it is
   * the whole run, but other keys may have the same hash.
   */
  private def combine(
      group: UnsafeRow, state: InternalRow, bucket: RowBucket, begin: Int, end: Int): Int = {
    var i = begin
    while (i < end && groupOf(bucket.read(i, row)) == group) {
      processRow(state, row)
      i += 1
    }
    combinedRows += i - begin
    i - begin
  }

  private def sendNext(): Unit = {
    val bucket = batch.buckets(sendingBucket)
    if (nextRow < rawEnd) {
      readyRow = bucket.read(nextRow, row)
      nextRow += 1
    } else if (nextRow < bucket.rows) {
      val end = bucket.endOfRun(nextRow)
      if (end - nextRow < combining.minRows) rawEnd = end else {
        val key = keyOf(bucket.read(nextRow, row)).copy()
        val group = if (isCollated) groupOf(row).copy() else key
        initializeBuffer(passingState)
        hot.note(contentHash(key), key, end - nextRow, rows)
        nextRow += combine(group, passingState, bucket, nextRow, end)
        readyRow = stateRow(key, passingState)
      }
    } else {
      nextRow = 0
      rawEnd = 0
      sendingBucket += 1
      if (sendingBucket == batch.buckets.length) {
        sendingBucket = NotSending
        waitingRows = 0
        batch.clear()
      }
    }
  }

  /** Takes the entries for which `leaves` holds out of the table, and sends them. */
  private def send(leaves: Entry => Boolean): Unit = {
    val entries = table.remove(leaves)
    entries.foreach(entry => hot.note(contentHash(entry.key), entry.key, entry.rows, rows))
    memory.give(entries.map(bytesOf).sum)
    grownBytes = math.max(0L, grownBytes - entries.size * singleBytes)
    leavingEntries = leavingEntries ++ entries
  }

  private def bytesOf(entry: Entry): Long = {
    val groupBytes = if (isCollated) entry.group.getSizeInBytes else 0
    ObjectBytes + entry.key.getSizeInBytes + groupBytes + emptyBytes
  }
}

private[saltwise] object CombineIterator {

  private val NotSending = -1

  /** The bytes of the Java objects of a key and its state, beside the bytes of their values. */
  private val ObjectBytes = 160

  /** The bytes of heap that a state takes for each byte that it has when it is sent. */
  private val HeapBytes = 2

  /** A state that grows at less than this share of the estimate has stopped growing, or will. */
  private val SlowerGrowth = 0.75

  /** Limits of the table, so that its states stay in the cache. They are lower if states grow. */
  private val TableBytes = 8L << 20
  private val MaxKeys = 1 << 13
  private val MaxGrowingKeys = 1 << 10

  /** The most bytes by which the states of many keys may grow: about the cache of a core. */
  private val MaxGrownBytes = 2L << 20
  private val GrowthStep = 1L << 20
  private val FewKeys = 128

  /** A fourth of the memory is for states, and the rest is for waiting rows. */
  private val StatesShare = 4

  /** A fourth of the largest group shows how its state grows. */
  private val SampledShare = 4
  private val MinSampledRows = 1 << 8

  /** States level off if a row adds less than this share of what one of the first rows added. */
  private val LevelsOff = 0.95
}
