package org.apache.spark.sql.saltwise.state

import java.util.{Collections, LinkedHashMap, Map => JavaMap}
import java.util.concurrent.{ConcurrentHashMap, LinkedBlockingQueue, TimeUnit}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.apache.spark.{ExecutorAllocationClient, SparkContext}
import org.apache.spark.scheduler.SparkListenerApplicationEnd
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.streaming.state.StateStoreCoordinatorRef
import org.apache.spark.sql.saltwise.GuardedListener
import org.apache.spark.sql.saltwise.compat.SparkCompat
import org.apache.spark.sql.saltwise.report.Reports
import org.apache.spark.util.{ThreadUtils, Utils}

/**
 * The streams of a Spark context that keep state: the load of each state partition in each batch,
 * and the moves of state partitions to other executors. Python plans the moves. The other folders
 * know of `state/` only by this class and its object.
 *
 * One table on the driver decides where a state partition runs: Spark's coordinator of state
 * stores. A task prefers the executor in that table. A move is an entry of the table. Spark then
 * loads the state from the checkpoint, as after a lost executor.
 *
 * Moves wait until the tasks of a batch have ended. While a task runs, it writes its own executor
 * into the table, and a move would be lost.
 */
final class StateStreams private (context: SparkContext, coordinator: => StateStoreCoordinatorRef) {
  import StateStreams._

  private val batches = new LinkedBlockingQueue[StateBatch](MaxWaiting)
  private val moves = ofLastRuns[JsonNode](MaxRuns)
  private val failures = ofLastRuns[String](MaxRuns)
  private val reports = ofLastRuns[String](MaxReports)

  /** Sends moves. Each waits for the coordinator, and Spark's listeners must not wait for that. */
  private val sender = ThreadUtils.newDaemonSingleThreadExecutor("saltwise-state-moves")

  context.addSparkListener(new GuardedListener("StateListener", new StateListener(ended) {
    override def onApplicationEnd(end: SparkListenerApplicationEnd): Unit = {
      ofContext.remove(context)
      sender.shutdownNow()
    }
  }))

  private def ended(batch: StateBatch): Unit = if (!sender.isShutdown) sender.execute { () =>
    send(batch)
    // If nobody asks, the oldest batch is dropped.
    while (!batches.offer(batch)) batches.poll()
  }

  /** The next batch that has ended, as JSON; null if none ends within these milliseconds. */
  def next(millis: Long, withTraffic: Boolean): String =
    Option(batches.poll(millis, TimeUnit.MILLISECONDS))
      .map(_.json(executors, withTraffic)).orNull

  /**
   * Replaces the moves of a run of a query. They are sent when its next batch has ended.
   *
   * @param json a list of {"operators": [0], "partition": 3, "executor": "2"}
   */
  def move(run: String, json: String): Unit = moves.put(run, mapper.readTree(json))

  /** The error of the last moves of this run; null if they did not fail. */
  def failure(run: String): String = failures.remove(run)

  /** Stores the planner's report on a run, as JSON, and shows it in the UI. */
  def report(run: String, json: String): Unit = {
    reports.put(run, json)
    Reports.balanced(context, run, json)
  }

  /** Asks the cluster manager for more executors, if their number may change. */
  def requestExecutors(more: Int): Boolean =
    Utils.isDynamicAllocationEnabled(context.conf) && context.requestExecutors(more)

  /** The executors; in local mode, the driver. */
  private def executors: Seq[StateExecutor] =
    context.statusStore.executorList(activeOnly = true)
      .filter(executor => executor.id != SparkContext.DRIVER_IDENTIFIER || context.isLocal)
      .map { executor =>
        val (host, _) = Utils.parseHostPort(executor.hostPort)
        StateExecutor(executor.id, host, executor.totalCores, leaving = !isActive(executor.id))
      }

  /** An executor that is being decommissioned is not active any more. */
  private def isActive(executor: String): Boolean = context.schedulerBackend match {
    case client: ExecutorAllocationClient => client.isExecutorActive(executor)
    case _ => true
  }

  private def send(batch: StateBatch): Unit = {
    val run = batch.run.toString
    try Option(moves.remove(run)).foreach { waiting =>
      val active = executors.filterNot(_.leaving).map(executor => executor.id -> executor).toMap
      waiting.forEach(send(batch, _, active))
    } catch {
      case NonFatal(e) => failures.put(run, e.toString)
    }
  }

  private def send(
      batch: StateBatch, move: JsonNode, active: Map[String, StateExecutor]): Unit = {
    val ids = Seq.tabulate(move.get("operators").size)(move.get("operators").get(_).asLong)
    for {
      executor <- active.get(move.get("executor").asText)
      operator <- batch.stages.flatMap(_.operators) if ids.contains(operator.id)
      store <- operator.stores(move.get("partition").asInt)
      if coordinator.getLocation(store).isDefined
    } SparkCompat.reportActive(coordinator, store, executor.host, executor.id)
  }
}

object StateStreams {

  /** The most batches that wait for the planner. */
  private val MaxWaiting = 64

  /** The most runs of queries that are remembered. Each restart is a run of its own. */
  private val MaxRuns = 1000

  /** The most reports. A report has the rounds and batches of a run, up to a megabyte. */
  private val MaxReports = 50

  private def ofLastRuns[A](maxRuns: Int): JavaMap[String, A] =
    Collections.synchronizedMap(new LinkedHashMap[String, A] {
      override def removeEldestEntry(eldest: JavaMap.Entry[String, A]): Boolean = size > maxRuns
    })

  private val mapper = new ObjectMapper
  private val ofContext = new ConcurrentHashMap[SparkContext, StateStreams]

  /** The streams of the application that runs in this JVM. */
  def running: StateStreams = ofContext.values.iterator.next()

  /** The last report of a planner on a run, as JSON; null if there is none. */
  def report(run: String): String =
    ofContext.values.asScala.map(_.reports.get(run)).find(_ != null).orNull

  /** The streams of the session's Spark context. The first call begins to follow them. */
  def of(session: SparkSession): StateStreams = {
    require(!session.sparkContext.isStopped, "the Spark context has stopped")
    ofContext.computeIfAbsent(
      session.sparkContext,
      context => new StateStreams(
        context, SparkCompat.state(session).streamingQueryManager.stateStoreCoordinator))
  }
}
