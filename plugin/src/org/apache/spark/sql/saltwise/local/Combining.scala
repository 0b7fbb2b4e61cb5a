package org.apache.spark.sql.saltwise.local

/**
 * Decides, in one map task, which rows become states, from counts and bytes of its own rows alone.
 *
 * Rows wait in a batch ([[RowBatch]]) until the task looks back at them. Then it knows how often
 * each key came. A key with so many rows that a state pays leaves as a state, and the rows of the
 * other keys leave as they are. A key with very many rows gets an entry in a small table of states
 * ([[StateTable]]), where its next rows are combined at once. There are three ways:
 *
 *  - ''all'': rows whose key is not in the table wait in the batch. Where each key comes in one run
 *    of rows, as in sorted files, none waits: a run is combined as it comes.
 *  - ''head'': they leave, because the batch combined few of its rows. One batch in sixteen looks
 *    for new keys.
 *  - ''raw'': all rows leave without a look at them, because next to none was combined. A batch
 *    looks at some now and then, and less often each time.
 *
 * A batch grows while that lets more keys come back. So it is small where keys return soon, and
 * where they hardly return it is not made larger either.
 */
private[local] final class Combining {
  import Combining._

  /** How many of the next rows leave without a look at them. */
  var unseen = 0

  /** Whether rows wait in the batch if the table does not have their keys. */
  def waits: Boolean = headRowsLeft == 0

  /** The task looks back when the batch has so many rows. */
  var nextLook: Int = FirstLook

  /** The fewest rows for which a state pays. */
  var minRows: Int = Never

  /** Whether a state saves nothing, and hot keys have states all the same. */
  var hotOnly = false

  /** Whether more rows add less to a state, as to sets and digests. So larger batches pay. */
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

  // The last look at the batch, if it has grown since. Of so many batches none grows.
  private var before = Option.empty[Groups]
  private var noHope = 0

  /** Rows that were combined with states of the table since the last look. */
  var hits = 0L

  /** Whether rows are combined with those before them that have the same key. */
  def follows: Boolean = followedLeft > 0

  /** A row comes whose key has this hash. */
  def see(hash: Long): Unit = if (hash != lastHash) {
    lastHash = hash
    runs += 1
  }

  /** A row is combined with those before it, or is the first with its key. */
  def follow(): Unit = {
    allRows += 1
    followedLeft -= 1
    if (followedLeft % FirstLook == 0) {
      if (minRows.toLong * runs > FirstLook) followedLeft = 0
      else if (LongRun.toLong * minRows * runs <= FirstLook) followedLeft = Unlooked * FirstLook
      runs = 0
    }
  }

  /** A row was combined with a state of the table. */
  def hit(): Unit = {
    hits += 1
    if (waits) allRows += 1 else pass()
  }

  /** A row joins the batch. */
  def join(): Unit = allRows += 1

  /** A row leaves, since the table does not have its key, or since the row is very wide. */
  def pass(): Unit = {
    headRows += 1
    if (headRowsLeft > 0) {
      headRowsLeft -= 1
      if (headRowsLeft == 0) nextLook = FirstLook
    }
  }

  /**
   * The fewest rows of a batch for which a key gets an entry in the table. All keys do if there is
   * room for all, and they are likely to have enough rows in the end.
   */
  def minRowsInTable(groups: Groups, room: Int): Int = {
    if (!hotOnly && groups.keys <= room && Early * groups.rows >= minRows * groups.keys) 1
    else Seq(minRows, MinRowsInTable, groups.rows / (2 * room + 1)).max
  }

  /**
   * The rows for which a list pays, which saves no bytes. Rows of a hot key would be shuffled
   * twice: to be read in slices, and as the lists of these.
   */
  def rowsOfHotKey(groups: Groups, atLeast: Int): Int = {
    val least = math.max(atLeast, math.ceil(HotShare * (hits + groups.rows)).toInt)
    if (math.max(hits, groups.largestOther) >= least) least else Never
  }

  /** Of a table's key, the fewest rows since the last look for which it stays. */
  def minRecentRows(rows: Int, capacity: Int): Long = math.max(1L, (hits + rows) / (8L * capacity))

  /** There is no memory, so rows leave for a while. */
  def rest(): Unit = unseen = FirstSleep

  /**
   * Looks back at a batch, and decides how to go on.
   *
   * @param maxRows the most rows that the batch may have
   * @param inRuns  whether it [[seesRuns]]
   * @return whether the batch should leave; otherwise it goes on to grow
   */
  def look(groups: Groups, maxRows: Double, inRuns: Boolean): Boolean = {
    val mayStay = noHope == 0 && groups.rows > 0 && maxRows > groups.rows && !keysGrow(groups)
    val stays = mayStay &&
      (if (inRuns) !areRunsOf(LongRun * rowsOfRunThatPay, groups) else isHopeful(groups, maxRows))
    if (stays) {
      before = Some(groups)
      nextLook = math.min(Growth.toLong * nextLook, Int.MaxValue / 2).toInt
    } else leave(groups, inRuns)
    !stays
  }

  /**
   * Whether nearly each key came in one run of rows, so long that it pays to combine them as they
   * come. If runs are short, keys that came before must not come again.
   *
   * @param inTable how many keys the table has
   */
  def seesRuns(groups: Groups, inTable: Int): Boolean = {
    val keys = groups.combinedKeys + groups.seenOthers + inTable
    minRows != Never && runs <= MaxRunsPerKey * keys &&
      areRunsOf(rowsOfRunThatPay, groups) && (noHope > 0 || before.isEmpty || keysGrow(groups))
  }

  private def areRunsOf(n: Int, groups: Groups): Boolean = hits + groups.rows >= n.toLong * runs

  private def rowsOfRunThatPay: Int = math.max(2, minRows / RunsPay)

  private def leave(groups: Groups, inRuns: Boolean): Unit = {
    if (inRuns) {
      if (noHope == 0) noHope = Patience else noHope -= 1
      followedLeft = Unlooked * FirstLook
      minRows = rowsOfRunThatPay
      nextLook = FirstLook
    } else choose(groups)
    before = None
    hits = 0
    runs = 0
  }

  private def choose(groups: Groups): Unit = {
    val gained = gain(groups)
    if (before.exists(_ => gained < MinGain * groups.rows) || keysGrow(groups)) {
      noHope = Patience
      nextLook = FirstLook
    } else if (noHope > 0) noHope -= 1
    if (hits + gained < MinCaught * (hits + groups.rows)) {
      unseen = sleep
      sleep = math.min(2 * sleep, MaxSleep)
      nextLook = FirstLook
    } else {
      sleep = FirstSleep
      if (gained < MinGain * groups.rows) headRowsLeft = Unlooked.toLong * groups.rows
    }
  }

  /** The number of keys grows as the rows do: they come and go, and no batch sees them again. */
  private def keysGrow(groups: Groups): Boolean = before.exists { before =>
    groups.rows > 0 && groups.keys * before.rows >= AsRowsDo * before.keys * groups.rows
  }

  /** How many rows less would cost as much as the states. */
  private def gain(groups: Groups): Long =
    groups.combinedRows - minRows.toLong * groups.combinedKeys

  /**
   * Whether a batch that is as large as can be would gain more of its rows: because its groups are
   * larger, or because other keys have enough rows, in the mean or the most frequent one of them. A
   * state to which rows add too much may be one that stops to grow, like a digest.
   */
  private def isHopeful(groups: Groups, maxRows: Double): Boolean = levelOff || {
    val growth = maxRows / groups.rows
    def gained(rows: Double, keys: Double): Double = math.max(0.0, rows - minRows * keys / growth)
    val others = math.max(
      gained(groups.rows - groups.combinedRows, groups.otherKeys),
      gained(groups.largestOther, 1))
    val most = gained(groups.combinedRows, groups.combinedKeys) + others
    if (minRows != Never && !hotOnly) most - gain(groups) > MinHope * groups.rows
    else groups.rows < MaxRowsToGrow && groups.largestOther >= MinLargest * groups.rows
  }
}

private[local] object Combining {

  /** No number of rows is enough for a state to pay. */
  val Never: Int = Int.MaxValue

  private val FirstLook = 1 << 12

  /** A key with this share of the rows is hot. */
  private val HotShare = 1.0 / 16

  /** If the batch goes on to grow, the task looks back when it has so many times as many rows. */
  private val Growth = 4

  /** A key with fewer rows in a batch has no entry in the table. */
  private val MinRowsInTable = 8

  /** So many rows pass the batch for each row in it where it gains less than this share. */
  private val Unlooked = 15
  private val MinGain = 0.1

  /** Where all keys fit into the table, it takes them with this part of the rows that pay. */
  val Early = 8

  /** Rows leave unseen where less than this share is combined. */
  private val MinCaught = 0.02
  private val FirstSleep = Unlooked * FirstLook
  private val MaxSleep = 1 << 18

  /** In so many runs may a key come, in the mean, if rows are to be combined as they come. */
  private val MaxRunsPerKey = 1.1

  /** A row of a run does not wait and is not sorted: a state pays with this part of the rows. */
  private val RunsPay = 3

  /** A run with so many times the rows that pay is long: it does not matter if its key returns. */
  private val LongRun = 16

  /** A batch grows if it might gain so much more of its rows. */
  private val MinHope = 0.05

  /** After a batch has grown for nothing, so many do not grow. */
  private val Patience = 16

  /** Keys grow as rows do if their number grows by this share of what that of the rows does. */
  private val AsRowsDo = 0.75

  /** A key with this share of the rows shows, in so many rows, whether its state stops to grow. */
  private val MinLargest = 0.02
  private val MaxRowsToGrow = 1 << 16

  /** What a row costs beside its bytes, in bytes. */
  private val RowOverhead = 16

  /** What a byte of a state costs, in bytes of rows: to make it, to send it, and to merge it. */
  private val StateCost = 4.0

  /** No state pays if a row adds this share of its bytes to it. */
  private val MaxAdded = 0.85

  /**
   * The fewest rows for which a state pays.
   *
   * @param row   the mean bytes of a row
   * @param empty the bytes of a key and a state before its first row
   * @param kept  the bytes of single values that a state keeps, which cost what bytes of rows do
   * @param added the bytes that each row adds to a state
   */
  def rowsThatPay(row: Double, empty: Double, kept: Double, added: Double): Int =
    if (added >= MaxAdded * row) Never
    else math.max(2.0, math.ceil((StateCost * empty + kept) / (row + RowOverhead - added))).toInt

  /**
   * The keys of a batch, apart from those that the table takes.
   *
   * @param rows         the rows of the batch
   * @param combinedRows those whose keys have at least `minRows` rows
   * @param combinedKeys the number of these keys
   * @param seenOthers   the number of the other keys
   * @param otherKeys    an estimate of their number with those that were not seen
   * @param largestOther the rows of the most frequent one of them
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
