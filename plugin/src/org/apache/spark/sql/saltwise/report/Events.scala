package org.apache.spark.sql.saltwise.report

import org.apache.spark.scheduler.SparkListenerEvent

/** An event of Saltwise. A History Server reads it from a file that somebody may have changed. */
sealed trait ReportEvent extends SparkListenerEvent {

  /** Whether it can be shown: no text or list is missing, and no list is too long or too short. */
  def isWhole: Boolean

  protected def arePresent(values: AnyRef*): Boolean = !values.contains(null)
}

/**
 * One GROUP BY, window or group map of a SQL execution that has ended. The event log has it as
 * JSON, and readers without Saltwise skip it.
 *
 * Fields are arrays and plain values, because JSON does not contain the type of a sequence's
 * elements.
 *
 * @param executionId the SQL execution
 * @param number      tells the groups of an execution apart
 * @param ended       milliseconds since 1970
 * @param millis      how long the whole execution took
 * @param operator    the name of the operator, as Spark's plans show it
 * @param keys        the grouping columns
 * @param functions   what is computed for each group
 * @param strategy    the strategy that ran; empty where Spark's own plan did
 * @param reason      why Spark's own plan ran
 * @param wouldRun    what would have run with mode = on; empty if that is not known
 * @param received    rows that each worker received. If there are more than
 *                    [[GroupByEvent.MaxBars]] workers, each number stands for several neighbours,
 *                    and is that of the fullest.
 * @param workers     the number of workers
 * @param rows        rows that all workers received
 * @param most        rows of the fullest worker
 * @param read        rows that came into the GROUP BY; -1 if that is not known
 * @param all         rows that Combine took as all; `head` and `raw` are its other ways
 * @param states      states that were sent; -1 if that is not known
 * @param memory      peak bytes of the states
 * @param saved       about how many bytes less were sent than if all rows had been sent
 * @param hotKeys     the heaviest keys: their hashes, or their values if the session allows it
 * @param hotRows     about how many rows each of them has
 * @param fingerprint the same number for executions of the same query
 * @param failed      whether the query failed or was cancelled. The counts are then those of the
 *                    tasks that ended before. False in an event without this field.
 * @param tasks       the tasks that read what was received; 0 if that is not known, as in an event
 *                    without this field
 * @param longest     milliseconds of the longest of them
 * @param work        milliseconds of them all
 * @param cores       how many tasks the application can run at once
 */
final case class GroupByEvent(
    executionId: Long,
    number: Int,
    description: String,
    ended: Long,
    millis: Long,
    operator: String,
    keys: Array[String],
    functions: Array[String],
    strategy: String,
    reason: String,
    wouldRun: String,
    received: Array[Long],
    workers: Int,
    rows: Long,
    most: Long,
    read: Long,
    all: Long,
    head: Long,
    raw: Long,
    states: Long,
    memory: Long,
    saved: Long,
    hotKeys: Array[String],
    hotRows: Array[Long],
    fingerprint: Int,
    failed: Boolean,
    tasks: Int,
    longest: Long,
    work: Long,
    cores: Int) extends ReportEvent {

  override def isWhole: Boolean =
    arePresent(
      description, operator, keys, functions, strategy, reason, wouldRun, received, hotKeys, hotRows
    ) && received.length <= GroupByEvent.MaxBars && hotKeys.length == hotRows.length

  def mean: Double = rows.toDouble / math.max(1, workers)

  /** The rows of the fullest worker as a multiple of the mean. */
  def maxToMean: Double = if (rows == 0) 1.0 else most.toDouble * workers / rows

  /** Milliseconds by which the longest task would end earlier if the tasks were even. */
  def toGain: Long = {
    // Without keys, there may be as many tasks as can run.
    val even = if (keys.isEmpty) cores else math.min(cores, tasks)
    math.max(0L, longest - work / math.max(1, even))
  }

  /** Whether what was received are states, of more rows. */
  def receivedStates: Boolean = strategy.isEmpty && read > rows

  /**
   * A lower bound of [[maxToMean]] if all rows of a key went to one worker; 0 if no hot key is
   * known. It assumes that one worker has the heaviest key, and that the other rows are spread
   * evenly.
   */
  def expected: Double = if (hotRows.isEmpty || read <= 0) 0.0 else {
    val share = math.min(1.0, hotRows.max.toDouble / read)
    share * workers + (1 - share)
  }
}

object GroupByEvent {

  /** The most bars of a drawing. */
  val MaxBars = 200

  /** The rows of the workers as at most `MaxBars` bars. */
  def bars(rows: Array[Long]): Array[Long] = if (rows.length <= MaxBars) rows else {
    val width = math.ceil(rows.length.toDouble / MaxBars).toInt
    rows.grouped(width).map(_.max).toArray
  }
}

/** One micro-batch of a stream whose rows were routed. */
final case class StreamBatchEvent(
    run: String,
    name: String,
    batch: Long,
    aggregate: String,
    strategy: String,
    workers: Int,
    choices: Int,
    rows: Long,
    most: Long,
    hotKeys: Array[String],
    hotRows: Array[Long]) extends ReportEvent {

  override def isWhole: Boolean =
    arePresent(run, name, aggregate, strategy, hotKeys, hotRows) && hotKeys.length == hotRows.length
}

/**
 * The time that executors spent on a batch of a stream whose state partitions a balancer moves.
 *
 * @param millis the time that the state partitions of each executor took for a batch, as the mean
 *               of the balancer's window
 * @param moved  partitions moved so far
 */
final case class StateBalanceEvent(
    run: String,
    batch: Long,
    executors: Array[String],
    millis: Array[Long],
    moved: Long) extends ReportEvent {

  override def isWhole: Boolean =
    arePresent(run, executors, millis) && executors.length == millis.length

  def mean: Double = millis.sum.toDouble / math.max(1, millis.length)

  def maxToMean: Double = if (millis.sum == 0) 1.0 else millis.max / mean
}
