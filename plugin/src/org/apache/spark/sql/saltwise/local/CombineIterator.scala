package org.apache.spark.sql.saltwise.local

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, Collect}
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
  // The states of hot keys, which fit into the cache, and those of other keys.
  private val hotStates = new StateTable(groups)
  private val states = new StateTable(groups)
  private val sample = new KeySample
  private val batchSize = new BatchSize(sample)
  private val hotRows = new HotRows

  // What the metrics show.
  var rows, combinedRows, allRows, headRows = 0L
  def peakMemory: Long = memory.peak

  // The costs as the last look at the batch found them, and the fewest rows that get a state.
  private var costs: StateCosts = _
  private var minRows = StateCosts.Never
  private var nextLook = FirstLook
  private var untilAsked = AskedEvery

  // The state of a group that is sent at once.
  private val passingState = emptyState()

  // In bytes: how much the states of the table have grown, how much of that has memory, how much
  // the single values of a state take, and how much a row may add to a state.
  private var grownBytes, takenBytes, singleBytes, addedPerRow = 0L
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
    else if (grownBytes > takenBytes) takeGrown()
    else if (delayed != null) {
      val again = delayed
      delayed = null
      take(again)
    } else if (in.hasNext) takeRows()
    else if (!ended) {
      ended = true
      if (waitingRows > 0) look(leaves = true)
      sendStates()
    } else return
  }

  /** Takes rows until something is to be sent. */
  private def takeRows(): Unit = {
    leavingEntries = Iterator.empty
    while (readyRow == null && sendingBucket == NotSending && leavingEntries.isEmpty &&
        !memory.scarce && grownBytes <= takenBytes && delayed == null && in.hasNext) {
      rows += 1
      take(in.next().asInstanceOf[UnsafeRow])
    }
  }

  private def take(row: UnsafeRow): Unit = {
    val group = groupAt(row)
    val hash = groups.hash(group)
    val entry = if (hotStates.size == 0) null else hotStates.find(hash.toInt, group)
    if (entry != null) update(entry, row)
    else {
      sample.see(hash)
      if (batchSize.rows == BatchSize.None) pass(hash, row) else join(hash, row)
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
    if (hotStates.size > 0) headRows += 1
    untilAsked -= 1
    if (untilAsked == 0) {
      untilAsked = AskedEvery
      batchSize.choose(batch.maxRows, costs)
      nextLook = FirstLook
      sendIdle(AskedEvery)
    }
    val isHot = minRows != StateCosts.Never && hotRows.see(hash, math.max(minRows, HotRows))
    val entry = if (isHot) newEntry(hash.toInt, row) else null
    if (entry == null) readyRow = row else {
      hotStates.add(entry)
      update(entry, row)
    }
  }

  /** A key and a state before its first row, or null if there is no memory for it. */
  private def newEntry(hash: Int, row: UnsafeRow): Entry = {
    val key = keyOf(row).copy()
    val entry = new Entry(hash, key, if (isCollated) groupOf(row).copy() else key, emptyState())
    if (!memory.take(bytesOf(entry))) null else {
      grownBytes += singleBytes
      entry
    }
  }

  private def update(entry: Entry, row: UnsafeRow): Unit = {
    processRow(entry.state, row)
    if (batchSize.rows != BatchSize.None) allRows += 1 else headRows += 1
    combined(entry, 1)
  }

  private def combined(entry: Entry, n: Int): Unit = {
    entry.rows += n
    entry.recentRows += n
    combinedRows += n
    grownBytes += n * addedPerRow
  }

  /** Takes memory for states that have grown, unless the largest one shows that they have not. */
  private def takeGrown(): Unit = {
    val taken = grownBytes + maxMemory / GrowthSteps - takenBytes
    if (memory.take(taken)) takenBytes += taken else {
      val largest = (hotStates.iterator ++ states.iterator).maxBy(_.rows)
      val most = HeapBytes * grownBy(largest.state).sum * (hotStates.size + states.size)
      if (most < takenBytes) grownBytes = most else makeRoom()
    }
  }

  /** What takes more of the memory is sent: the batch, or the states. Returns whether any is. */
  private def makeRoom(): Boolean = {
    val hasStates = hotStates.size + states.size > 0
    if (2 * batch.heldBytes < memory.held && hasStates) {
      sendStates()
      true
    } else if (waitingRows > 0) {
      look(leaves = true)
      true
    } else {
      batch.free()
      false
    }
  }

  private def sendStates(): Unit = {
    send(hotStates, _ => true)
    send(states, _ => true)
    memory.give(takenBytes)
    takenBytes = 0
    grownBytes = 0
  }

  /** Sends the states of keys that have not come for about this many rows. */
  private def sendIdle(idle: Long): Unit =
    if (rows - rowsAtSweep >= math.max(idle, states.slots + hotStates.slots)) {
      rowsAtSweep = rows
      for (table <- Seq(hotStates, states)) {
        send(table, _.recentRows == 0)
        table.iterator.foreach(_.recentRows = 0)
      }
    }

  /** Sends all rows and states, because another operator needs memory or there is no more. */
  private def giveBack(): Unit = {
    if (waitingRows > 0) look(leaves = true)
    else if (hotStates.size + states.size > 0) sendStates()
    else {
      batch.free()
      memory.release()
      batchSize.rows = BatchSize.None
    }
  }

  /** Looks at the batch: rows are combined with states, and the others may be sent. */
  private def look(leaves: Boolean): Unit = {
    batch.sort()
    if (leaves || sample.rows <= Patience) measure()
    sample.minRows = minRows
    combineWaiting()
    if (leaves || sample.rows >= Patience) batchSize.choose(batch.maxRows, costs)
    waitingRows = batch.rows
    val sends = leaves || waitingRows >= batchSize.rows
    if (sends) sendingBucket = 0
    nextLook =
      if (sample.rows < Patience) math.min(Patience, math.max(FirstLook, Growth * waitingRows))
      else if (costs.statesGrow) batchSize.rows
      else math.min(
        batchSize.rows, 2 * waitingRows + math.max(Patience, RowsOfState * states.size))
    if (batchSize.rows == BatchSize.None) send(states, _ => true)
    else if (batchSize.rows < BatchSize.All) sendIdle(batchSize.rows)
  }

  /** The bytes by which each field of a state has grown. */
  private def grownBy(state: InternalRow): Seq[Long] =
    sizes(state).zip(emptySizes).map { case (now, empty) => now - empty }

  /** Measures what rows and states cost. If states grow, the largest group shows how much. */
  private def measure(): Unit = {
    var groups, largest, begin = 0
    var bucket = batch.buckets(0)
    for (other <- batch.buckets) other.foreachRun { (first, end) =>
      groups += 1
      if (end - first > largest) {
        largest = end - first
        begin = first
        bucket = other
      }
    }
    if (largest > 0) {
      val stateBytes = keyOf(bucket.read(begin, row)).getSizeInBytes + emptyBytes
      costs = StateCosts(batch.rowBytes, stateBytes.toDouble, 0, 0)
      if (!isFixed && largest * Early >= costs.minRows) {
        val n = math.max(largest / SampledShare, MinSampledRows).min(largest)
        initializeBuffer(passingState)
        // If there are few keys, each comes so often that a digest stops growing.
        val counted =
          if (hotStates.size + groups <= FewKeys) growingFields
          else emptySizes.indices.diff(singleFields)
        for (i <- 0 until n / 4) processRow(passingState, bucket.read(begin + i, row))
        val before = grownBy(passingState)
        for (i <- n / 4 until n) processRow(passingState, bucket.read(begin + i, row))
        val after = grownBy(passingState)
        val added = counted.map(after).sum - (if (n < 4) 0L else counted.map(before).sum)
        val perRow = math.max(0L, added).toDouble / (if (n < 4) n else n - n / 4)
        val kept = math.max(0.0, after.sum - n * perRow)
        addedPerRow = math.ceil(HeapBytes * perRow).toLong
        singleBytes = (HeapBytes * kept).toLong
        costs = StateCosts(batch.rowBytes, stateBytes.toDouble, kept, perRow)
      }
      minRows = costs.minRows
      if (minRows == StateCosts.Never && lists) {
        val least = math.max(HotRows, math.ceil(HotShare * waitingRows).toInt)
        if (largest >= least) minRows = least
      }
    }
  }

  /** Combines rows whose keys have states, or enough rows for one. */
  private def combineWaiting(): Unit = {
    val room =
      if (costs.statesGrow) FewKeys.toLong
      else math.max(FewKeys, CacheBytes / (ObjectBytes + emptyBytes + singleBytes))
    batch.buckets.foreach { bucket => bucket.fetch(); bucket.removeRuns { (begin, end) =>
      val isHot = hotStates.size < room && 2 * room * (end - begin) >= waitingRows
      val isNew = !ended && end - begin >= minRows && (isHot || !costs.statesGrow)
      if (states.size == 0 && !isNew) 0 else {
        val hash = bucket.hash(begin)
        val first = bucket.read(begin, row)
        var entry = states.find(hash, groupAt(first))
        if (entry == null && isNew) {
          entry = newEntry(hash, first)
          if (entry != null) (if (isHot) hotStates else states).add(entry)
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
   * the whole run, but other keys may have the same hash.
   */
  private def combine(
      group: UnsafeRow, state: InternalRow, bucket: RowBucket, begin: Int, end: Int): Int = {
    var i = begin
    while (i < end && groups.areSame(group, groupAt(bucket.read(i, row)))) {
      processRow(state, row)
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
        hot.note(hash, key, n, rows)
        combinedRows += n
        nextRow += n
        readyRow = stateRow(key, passingState)
      }
    } else {
      nextRow = 0
      rawEnd = 0
      sendingBucket += 1
      if (sendingBucket < batch.buckets.length) batch.buckets(sendingBucket).fetch()
      if (sendingBucket == batch.buckets.length) {
        sendingBucket = NotSending
        waitingRows = 0
        batch.clear()
      }
    }
  }

  /**
   * Takes the entries for which `leaves` holds out of a table, and sends them. They are sorted by
   * their keys, since neighbours that are alike are compressed better.
   */
  private def send(table: StateTable, leaves: Entry => Boolean): Unit = if (table.size > 0) {
    val entries = table.remove(leaves).sortBy(entry => groups.prefix(entry.group))
    entries.foreach(entry => hot.note(groups.hash(entry.group), entry.key, entry.rows, rows))
    memory.give(entries.map(bytesOf).sum)
    grownBytes = math.max(
      0L, grownBytes - entries.map(entry => singleBytes + entry.rows * addedPerRow).sum)
    if (entries.nonEmpty) leavingEntries = leavingEntries ++ entries
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

  /** A fourth of the memory is for states only. */
  private val StatesShare = 4

  /** The states of hot keys stay in the cache of a core. Those of few keys stay anyhow. */
  private val CacheBytes = 1L << 18
  private val GrowthSteps = 64
  private val FewKeys = 128

  /** The task looks at the batch when it has this many rows, and then at 4 times those that wait. */
  private val FirstLook = 1 << 12
  private val Growth = 4

  /** A first batch has this many rows before it is sent. */
  private val Patience = 1 << 18

  /** A state that is not in the cache is read once for about this many rows. */
  private val RowsOfState = 16

  /** If no row waits, the task asks again after this many rows. */
  private val AskedEvery = 1 << 16

  /** A key that gets a state while others leave raw has this many rows more than other keys. */
  private val HotRows = 16

  /** A key with this share of the rows is hot. */
  private val HotShare = 1.0 / 16

  private val Early = 8

  /** A fourth of the largest group shows how its state grows. */
  private val SampledShare = 4
  private val MinSampledRows = 1 << 8
}
