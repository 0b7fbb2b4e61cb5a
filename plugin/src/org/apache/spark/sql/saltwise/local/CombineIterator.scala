package org.apache.spark.sql.saltwise.local

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, Collect}
import org.apache.spark.sql.saltwise.local.KeySample.{FullAfter, HalfLife}
import org.apache.spark.sql.saltwise.local.StateCosts.Never
import org.apache.spark.sql.saltwise.local.StateTable.Entry
import org.apache.spark.sql.saltwise.sketch.HotKeysOfTask

/**
 * One map task of a [[CombineExec]].
 *
 * A row comes in as a raw row is sent: its key, what the aggregates read, and NULL for the state.
 * A row of a hot key is combined with the state of its key at once. Other rows wait in a batch, or
 * are sent raw if it does not pay to wait ([[BatchSize]]). From time to time the task looks at the
 * batch ([[BatchLooks]]). If it is full, its rows leave ([[Leaving]]).
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
  extends Iterator[UnsafeRow] {
  import CombineIterator._

  private val keyOf = new KeyOfRow(keys, input)
  private val partial = new PartialStates(keyOf, aggregates, partition, mayFail = belowJoin)
  private val memory = new StateMemory(TaskContext.get().taskMemoryManager(), maxMemory)
  private val batch = new RowBatch(memory, maxMemory - maxMemory / StatesShare)
  private val states = new HeldStates(keyOf, partial, memory, maxMemory / StatesSteps)
  private val hotRows = new HotRows
  private val sample = new KeySample
  private val batchSize = new BatchSize(sample, belowJoin)
  // Below a join, rows wait in vain if they share no keys, so it is soon decided.
  private val decideAfter = if (belowJoin) HalfLife.toInt else FullAfter
  private val looks =
    new BatchLooks(keyOf, partial, batch, states, sample, batchSize, lists, decideAfter)
  private val leaving = new Leaving(keyOf, partial, batch, hot)

  // Of late, Spark takes collect_list as deterministic.
  private val keepsOrder = keyOf.isCollated || aggregates.map(_.aggregateFunction).exists {
    case _: Collect[_] | _: UserDefinedExpression => true
    case function => !function.deterministic
  }

  // What the metrics show.
  var rows, allRows, headRows = 0L
  def combinedRows: Long = states.combinedRows + leaving.combinedRows
  def sentStates: Long = partial.sentStates
  def peakMemory: Long = memory.peak

  /** The bytes of rows that were combined, if these are like those that waited, less the states. */
  def savedBytes: Long =
    math.max(0L, (combinedRows * batch.rowBytes).toLong - partial.sentBytes)

  private var readyRow: UnsafeRow = _
  // A row that is taken again once others have left.
  private var delayed: UnsafeRow = _
  private var rowsAtSweep = 0L
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
    memory.close()
  }

  private def advance(): Unit = while (readyRow == null) {
    if (!leaving.isEmpty) readyRow = leaving.next(rows)
    else if (memory.scarce) giveBack()
    else if (states.needMemory) {
      if (!states.takeMemory()) makeRoom()
    } else if (delayed != null) {
      val again = delayed
      delayed = null
      take(again)
    } else if (in.hasNext) takeRows()
    else if (!ended) {
      ended = true
      if (batch.rows > 0) look(leaves = true)
      leaving.send(states.removeAll())
    } else return
  }

  /** Takes rows until something is to be sent. */
  private def takeRows(): Unit = do {
    rows += 1
    take(in.next().asInstanceOf[UnsafeRow])
  } while (readyRow == null && leaving.isEmpty && !memory.scarce && !states.needMemory &&
      delayed == null && in.hasNext)

  private def take(row: UnsafeRow): Unit = if (partial.failed > MaxFailed) readyRow = row else {
    val group = keyOf.group(row)
    val hash = keyOf.groups.hash(group)
    val entry = if (states.hot.size == 0) null else states.hot.find(hash.toInt, group)
    if (entry != null) update(entry, row)
    else {
      sample.see(hash)
      if (batchSize.rows == BatchSize.None) pass(hash, row) else join(hash, row)
      // Both are powers of two, so that no row needs a division.
      if ((sample.rows & (BatchLooks.First - 1)) == 0) {
        if (sample.rows < decideAfter) { if (belowJoin) guess() }
        else if ((sample.rows & (HalfLife - 1)) == 0) decide()
      }
    }
  }

  /** A row joins the batch, if there is memory for it. If not, it waits until others have left. */
  private def join(hash: Long, row: UnsafeRow): Unit = {
    val isWide = row.getSizeInBytes > batch.maxRowBytes
    if (!isWide && batch.add(hash, row)) {
      allRows += 1
      if (batch.rows >= looks.next) look(leaves = batch.rows >= batchSize.rows)
    } else if (isWide && !keepsOrder || !makeRoom()) readyRow = row
    else delayed = row
  }

  /** A row is sent raw, unless its key is a hot one, which gets a state. */
  private def pass(hash: Long, row: UnsafeRow): Unit = {
    if (states.hot.size > 0) headRows += 1
    val isHot =
      looks.minRows != Never && hotRows.see(hash, math.max(looks.minRows, BatchLooks.HotShare))
    val entry = if (isHot) states.add(states.hot, hash.toInt, row) else null
    if (entry != null) update(entry, row) else readyRow = row
  }

  private def update(entry: Entry, row: UnsafeRow): Unit =
    if (!partial.add(entry.state, row)) readyRow = row
    else {
      if (batchSize.rows != BatchSize.None) allRows += 1 else headRows += 1
      states.combined(entry, 1)
    }

  /** Decides whether rows wait until the sample knows more. */
  private def guess(): Unit = if (looks.costs.nonEmpty) {
    batchSize.guess()
    if (batchSize.rows == BatchSize.None && batch.rows > 0) look(leaves = true)
  }

  /** Decides how many rows wait from now on. */
  private def decide(): Unit = looks.costs.foreach { costs =>
    val before = batchSize.rows
    batchSize.choose(batch.maxRows, costs)
    if (batchSize.rows == BatchSize.None) {
      if (batch.rows > 0) look(leaves = true)
      if (before == BatchSize.None) sendIdle(HalfLife)
    } else looks.next =
      if (before == BatchSize.None) BatchLooks.First else math.min(looks.next, batchSize.rows)
    if (!batchSize.statesStay && states.others.size > 0) leaving.send(states.removeOthers())
  }

  private def look(leaves: Boolean): Unit = {
    looks.look(leaves, ended)
    if (leaves || batch.rows >= batchSize.rows) leaving.sendBatch(looks.minRows)
    if (batchSize.rows < BatchSize.All) sendIdle(batchSize.rows)
  }

  /** Sends the states of keys that have not come for about this many rows. */
  private def sendIdle(idle: Long): Unit = if (rows - rowsAtSweep >= math.max(idle, states.slots)) {
    rowsAtSweep = rows
    leaving.send(states.removeIdle())
  }

  /** What takes more of the memory is sent: the batch, or the states. Returns whether any is. */
  private def makeRoom(): Boolean = {
    if (2 * batch.heldBytes < memory.held && states.size > 0) {
      leaving.send(states.removeAll())
      true
    } else if (batch.rows > 0) {
      look(leaves = true)
      true
    } else {
      batch.free()
      false
    }
  }

  /** Sends all rows and states, because another operator needs memory or there is no more. */
  private def giveBack(): Unit = {
    if (batch.rows > 0) look(leaves = true)
    else if (states.size > 0) leaving.send(states.removeAll())
    else {
      batch.free()
      memory.release()
      batchSize.rows = BatchSize.None
    }
  }
}

private[saltwise] object CombineIterator {

  /** A fourth of the memory is for states only, and growing states take it in so many steps. */
  private val StatesShare = 4
  private val StatesSteps = 64

  /** An error takes some 10 microseconds, so that these take a hundredth of a second. */
  private val MaxFailed = 1000
}
