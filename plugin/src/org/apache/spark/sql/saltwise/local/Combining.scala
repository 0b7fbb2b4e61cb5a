package org.apache.spark.sql.saltwise.local

/**
 * Decides, in one map task, which rows become states. The decision depends only on counts and bytes
 * of the task's own rows.
 *
 * Rows wait in a batch ([[RowBatch]]) until the task looks back at them. Then it knows how often
 * each key came. If a key has enough rows for a state to pay, a state is sent for them. The rows of
 * the other keys are sent raw. A key with very many rows gets an entry in a small table of states
 * ([[StateTable]]), where its next rows are combined at once. There are three ways:
 *
 *  - ''all'': rows whose key is not in the table wait in the batch. If each key comes in one run of
 *    rows, as in sorted files, no row waits: a run is combined as it comes.
 *  - ''head'': these rows are sent raw, because the batch combined few of its rows. One batch in
 *    sixteen looks for new keys.
 *  - ''raw'': all rows are sent unseen, because almost none was combined. A batch looks at some of
 *    them now and then, and less often each time.
 *
 * A batch grows as long as more keys come back in a larger one. So it stays small if keys return
 * soon, and also if they hardly return.
 */
private[local] final class Combining {
  import Combining._

  /** The number of the next rows that are sent unseen. */
  var unseen = 0

  /** Whether rows whose keys are not in the table wait in the batch. */
  def waits: Boolean = headRowsLeft == 0

  /** The task looks back when the batch has this many rows. */
  var nextLook: Int = FirstLook

  /** The fewest rows for which a state pays. */
  var minRows: Int = Never

  /** Whether states save nothing, and only hot keys get one. */
  var hotOnly = false

  /** Whether more rows add less to a state, as for sets and digests. Then larger batches pay. */
  var levelOff = false

  // For the metrics.
  var allRows = 0L
  var headRows = 0L

  private var headRowsLeft = 0L
  private var followedLeft = 0
  private var sleep = FirstSleep

  // The runs of rows with the same key since the last look, and the hash of the last row's key.
  private var runs = 0
  private var lastHash = 0L

  // The last look at the batch, if it has grown since.
  private var lastLook = Option.empty[Groups]
  // The number of the next batches that do not grow.
  private var fixedBatches = 0

  /** Rows that were combined with states of the table since the last look. */
  var hits = 0L

  /** Whether rows are combined with those before them that have the same key. */
  def follows: Boolean = followedLeft > 0

  /** Notes that a row came whose key has this hash. */
  def see(hash: Long): Unit = if (hash != lastHash) {
    lastHash = hash
    runs += 1
  }

  /** Notes that a row was combined with those before it, or was the first of its run. */
  def follow(): Unit = {
    allRows += 1
    followedLeft -= 1
    if (followedLeft % FirstLook == 0) {
      if (minRows.toLong * runs > FirstLook) followedLeft = 0
      else if (LongRun.toLong * minRows * runs <= FirstLook) followedLeft = Unlooked * FirstLook
      runs = 0
    }
  }

  /** Notes that a row was combined with a state of the table. */
  def hit(): Unit = {
    hits += 1
    if (waits) allRows += 1 else pass()
  }

  /** Notes that a row joined the batch. */
  def join(): Unit = allRows += 1

  /** Notes that a row is sent raw: the table does not have its key, or the row is very wide. */
  def pass(): Unit = {
    headRows += 1
    if (headRowsLeft > 0) {
      headRowsLeft -= 1
      if (headRowsLeft == 0) nextLook = FirstLook
    }
  }

  /**
   * The fewest rows of a batch for which a key gets an entry in the table. All keys get one if
   * there is room for all, and each is likely to have enough rows in the end.
   */
  def minRowsInTable(groups: Groups, room: Int): Int = {
    if (!hotOnly && groups.keys <= room && Early * groups.rows >= minRows * groups.keys) 1
    else Seq(minRows, MinRowsInTable, groups.rows / (2 * room + 1)).max
  }

  /**
   * The fewest rows for which a list pays. A list saves no bytes, but without it the rows of a hot
   * key would be shuffled twice: as rows that are read in slices, and as the lists of the slices.
   */
  def rowsOfHotKey(groups: Groups, atLeast: Int): Int = {
    val least = math.max(atLeast, math.ceil(HotShare * (hits + groups.rows)).toInt)
    if (math.max(hits, groups.largestOther) >= least) least else Never
  }

  /** The fewest rows since the last look for which a key stays in the table. */
  def minRecentRows(rows: Int, capacity: Int): Long = math.max(1L, (hits + rows) / (8L * capacity))

  /** Sends rows unseen for a while, because there is no memory. */
  def rest(): Unit = unseen = FirstSleep

  /**
   * Looks back at a batch, and decides how to go on.
   *
   * @param maxRows the most rows that the batch may have
   * @param inRuns  whether it [[seesRuns]]
   * @return whether the batch is to be sent; otherwise it goes on growing
   */
  def look(groups: Groups, maxRows: Double, inRuns: Boolean): Boolean = {
    val mayStay = fixedBatches == 0 && groups.rows > 0 && maxRows > groups.rows && !keysGrow(groups)
    val stays = mayStay &&
      (if (inRuns) !areRunsOf(LongRun * rowsOfRunThatPay, groups) else isHopeful(groups, maxRows))
    if (stays) {
      lastLook = Some(groups)
      nextLook = math.min(Growth.toLong * nextLook, Int.MaxValue / 2).toInt
    } else leave(groups, inRuns)
    !stays
  }

  /**
   * Whether almost every key came in one run of rows, and the runs are long enough to combine rows
   * as they come. If runs are short, keys that came before must not come again.
   *
   * @param inTable how many keys the table has
   */
  def seesRuns(groups: Groups, inTable: Int): Boolean = {
    val keys = groups.combinedKeys + groups.seenOthers + inTable
    minRows != Never && runs <= MaxRunsPerKey * keys &&
      areRunsOf(rowsOfRunThatPay, groups) &&
      (fixedBatches > 0 || lastLook.isEmpty || keysGrow(groups))
  }

  private def areRunsOf(n: Int, groups: Groups): Boolean = hits + groups.rows >= n.toLong * runs

  private def rowsOfRunThatPay: Int = math.max(2, minRows / RunsPay)

  private def leave(groups: Groups, inRuns: Boolean): Unit = {
    if (inRuns) {
      if (fixedBatches == 0) fixedBatches = Patience else fixedBatches -= 1
      followedLeft = Unlooked * FirstLook
      minRows = rowsOfRunThatPay
      nextLook = FirstLook
    } else choose(groups)
    lastLook = None
    hits = 0
    runs = 0
  }

  private def choose(groups: Groups): Unit = {
    val gained = gain(groups)
    if (lastLook.exists(_ => gained < MinGain * groups.rows) || keysGrow(groups)) {
      fixedBatches = Patience
      nextLook = FirstLook
    } else if (fixedBatches > 0) fixedBatches -= 1
    if (hits + gained < MinCaught * (hits + groups.rows)) {
      unseen = sleep
      sleep = math.min(2 * sleep, MaxSleep)
      nextLook = FirstLook
    } else {
      sleep = FirstSleep
      if (gained < MinGain * groups.rows) headRowsLeft = Unlooked.toLong * groups.rows
    }
  }

  /** Whether the number of keys grows like the rows: keys come and go, and never come back. */
  private def keysGrow(groups: Groups): Boolean = lastLook.exists { before =>
    groups.rows > 0 && groups.keys * before.rows >= AsRowsDo * before.keys * groups.rows
  }

  /** The number of rows that the states save, after their own cost. */
  private def gain(groups: Groups): Long =
    groups.combinedRows - minRows.toLong * groups.combinedKeys

  /**
   * Whether the largest possible batch would save a larger share of its rows: because its groups
   * are larger, or because other keys have enough rows, on average or the most frequent one of
   * them. A state to which each row still adds too much may be one that stops growing, like a
   * digest.
   */
  private def isHopeful(groups: Groups, maxRows: Double): Boolean = levelOff || {
    val growth = maxRows / groups.rows
    def gained(rows: Double, keys: Double): Double = math.max(0.0, rows - minRows * keys / growth)
    val others = math.max(
      gained(groups.rows - groups.combinedRows, groups.otherKeys),
      gained(groups.largestOther, 1))
    val possible = gained(groups.combinedRows, groups.combinedKeys) + others
    if (minRows != Never && !hotOnly) possible - gain(groups) > MinHope * groups.rows
    else groups.rows < MaxRowsToGrow && groups.largestOther >= MinLargest * groups.rows
  }
}

private[local] object Combining {

  /** No number of rows is enough for a state to pay. */
  val Never: Int = Int.MaxValue

  private val FirstLook = 1 << 12

  /** A key with this share of the rows is hot. */
  private val HotShare = 1.0 / 16

  /** If the batch goes on growing, the task looks back when it has this many times the rows. */
  private val Growth = 4

  /** A key with fewer rows in a batch has no entry in the table. */
  private val MinRowsInTable = 8

  /** If a batch saves less than this share, this many rows pass it for each row in it. */
  private val Unlooked = 15
  private val MinGain = 0.1

  /** If all keys fit into the table, it takes them with 1 / 8 of the rows that pay. */
  val Early = 8

  /** Rows are sent unseen if less than this share is combined. */
  private val MinCaught = 0.02
  private val FirstSleep = Unlooked * FirstLook
  private val MaxSleep = 1 << 18

  /** Rows are combined as they come if keys have at most this many runs on average. */
  private val MaxRunsPerKey = 1.1

  /** A row of a run does not wait and is not sorted, so a state pays with 1 / 3 of the rows. */
  private val RunsPay = 3

  /** A run with 16 times the rows that pay is long. It does not matter if its key returns. */
  private val LongRun = 16

  /** A batch grows if it might save at least this much more of its rows. */
  private val MinHope = 0.05

  /** After a batch has grown in vain, this many batches do not grow. */
  private val Patience = 16

  /** Keys grow like rows if their number grows at this share of the rate of the rows. */
  private val AsRowsDo = 0.75

  /** A key with this share of this many rows shows whether its state stops growing. */
  private val MinLargest = 0.02
  private val MaxRowsToGrow = 1 << 16

  /** The cost of a row beside its bytes, in bytes. */
  private val RowOverhead = 16

  /** The cost of a byte of a state, in bytes of rows: it is made, sent and merged. */
  private val StateCost = 4.0

  /** No state pays if each row adds this share of its own bytes to it. */
  private val MaxAdded = 0.85

  /**
   * The fewest rows for which a state pays.
   *
   * @param row   the mean bytes of a row
   * @param empty the bytes of a key and a state before its first row
   * @param kept  the bytes of single values that a state keeps; they cost the same as bytes of rows
   * @param added the bytes that each row adds to a state
   */
  def rowsThatPay(row: Double, empty: Double, kept: Double, added: Double): Int =
    if (added >= MaxAdded * row) Never
    else math.max(2.0, math.ceil((StateCost * empty + kept) / (row + RowOverhead - added))).toInt

  /**
   * The keys of a batch, without those that move to the table.
   *
   * @param rows         the rows of the batch
   * @param combinedRows the rows whose keys have at least `minRows` rows
   * @param combinedKeys the number of these keys
   * @param seenOthers   the number of the other keys
   * @param otherKeys    an estimate of that number which includes keys that were not seen
   * @param largestOther the rows of the most frequent of the other keys
   * @param largestBegin the bucket of these rows, and the first of them
   */
  final case class Groups(
      rows: Int,
      combinedRows: Int,
      combinedKeys: Int,
      seenOthers: Int,
      otherKeys: Double,
      largestOther: Int,
      largestBegin: (RowBucket, Int)) {
    def keys: Double = combinedKeys + otherKeys
  }

  object Groups {

    /** Keys of the same hash count as one. */
    def apply(batch: RowBatch, minRows: Int): Groups = {
      var rows, combinedRows, combinedKeys, others, ones, twos, largest, begins = 0
      var bucketOfLargest = batch.buckets(0)
      for (bucket <- batch.buckets) bucket.foreachRun { (begin, end) =>
        val n = end - begin
        rows += n
        if (n == 1) ones += 1 else if (n == 2) twos += 1
        if (n >= minRows) {
          combinedRows += n
          combinedKeys += 1
        } else {
          others += 1
          if (n > largest) {
            largest = n
            begins = begin
            bucketOfLargest = bucket
          }
        }
      }
      // Chao's estimate of the keys that were not seen (1984, bias-corrected), from those that were
      // seen once and twice.
      val unseen = 0.5 * ones * math.max(0, ones - 1) / (twos + 1)
      Groups(rows, combinedRows, combinedKeys, others, others + unseen, largest,
        (bucketOfLargest, begins))
    }
  }
}
