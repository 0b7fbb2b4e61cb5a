package org.apache.spark.sql.saltwise.report

import scala.collection.mutable

import org.apache.spark.SparkContext
import org.apache.spark.scheduler._
import org.apache.spark.sql.execution.{QueryExecution, SparkPlan}
import org.apache.spark.sql.execution.ui._
import org.apache.spark.sql.saltwise.SaltwiseConf
import org.apache.spark.sql.saltwise.plan.Reported
import org.apache.spark.sql.streaming.StreamingQueryListener

/**
 * Follows the SQL executions of a Spark context. After each execution it posts a [[GroupByEvent]]
 * for each GROUP BY of its plan, for the UI and the event log. If the query failed, the events have
 * what its tasks did until then.
 *
 * Spark itself sends all of this to its listeners. The plan stays as it is.
 */
private[report] final class GroupByListener(context: SparkContext, ledger: Ledger)
  extends SparkListener {
  import GroupByListener._

  private val stages = mutable.Map.empty[Int, StageRows]
  private val executions = mutable.LinkedHashMap.empty[Long, Execution]

  override def onJobStart(job: SparkListenerJobStart): Unit =
    Option(job.properties).flatMap(p => Option(p.getProperty("spark.sql.execution.id")))
      .map(_.toLong).filter(executions.contains).foreach { execution =>
        job.stageIds.foreach(stages.getOrElseUpdate(_, new StageRows(execution)))
      }

  override def onTaskEnd(task: SparkListenerTaskEnd): Unit =
    if (task.taskMetrics != null) {
      stages.get(task.stageId).foreach(_.add(task))
    }

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    // The plan is empty if Spark could not make one.
    case start: SparkListenerSQLExecutionStart if start.sparkPlanInfo.nodeName.nonEmpty =>
      val confs = start.modifiedConfigs.filter(_._1.startsWith(SaltwiseConf.Prefix))
      executions(start.executionId) = Execution(start.description.take(MaxText), start.time, confs)
      // If Spark has dropped events, the end of an execution may be missing.
      if (executions.size > MaxExecutions) forget(executions.head._1)
    case end: SparkListenerSQLExecutionEnd =>
      val (started, ended) = forget(end.executionId)
      if (end.qe != null) started.foreach(report(end, _, ended))
    case progress: StreamingQueryListener.QueryProgressEvent =>
      StreamBatches.of(progress.progress, showsKeys).foreach(context.listenerBus.post)
    case _ =>
  }

  private def forget(execution: Long): (Option[Execution], Seq[StageRows]) = {
    val stagesOfExecution = stages.filter(_._2.execution == execution)
    stages --= stagesOfExecution.keys
    (executions.remove(execution), stagesOfExecution.values.toSeq)
  }

  private def report(
      end: SparkListenerSQLExecutionEnd, started: Execution, stages: Seq[StageRows]): Unit =
    if (!end.qe.logical.isStreaming) {
      val groups = events(end, started, stages)
      groups.filter(group => started.mode(end.qe) != SaltwiseConf.Off ||
        group.strategy.nonEmpty || group.reason.nonEmpty).foreach(context.listenerBus.post)
      groups.headOption.filterNot(_.failed || started.isMeasurement).foreach { group =>
        val run = Ledger.Run(group.millis, stages.map(_.bytes).sum)
        ledger.add(group.fingerprint, group.description, groups.exists(_.strategy.nonEmpty), run)
      }
    }

  /** A stream's progress does not name its session, so this is the conf of the application. */
  private def showsKeys = context.conf.getBoolean(SaltwiseConf.ReportKeys.key, defaultValue = false)

  private def events(
      end: SparkListenerSQLExecutionEnd,
      started: Execution,
      stages: Seq[StageRows]): Seq[GroupByEvent] = {
    val groups = GroupsOfPlan.of(end.qe.executedPlan)
    lazy val fingerprint = GroupByListener.fingerprint(end.qe)
    groups.zipWithIndex.map { case (group, number) =>
      val rows = group.shuffled.toArray.flatMap(rowsOfWorkers(_, stages))
      val millis = group.shuffled.toSeq.flatMap(millisOfWorkers(_, stages))
      val hot = group.hotKeys.take(MaxHotKeys)
      def count(name: String) = group.metric(name).getOrElse(0L)
      GroupByEvent(
        end.executionId, number, nameOf(end, started), end.time, end.time - started.time,
        group.node.nodeName, group.keys.toArray, group.functions.toArray,
        group.strategy, group.reason, group.wouldRun,
        GroupByEvent.bars(rows), rows.length, rows.sum, if (rows.isEmpty) 0 else rows.max,
        group.read.getOrElse(-1),
        count("all"), count("head"), count("raw"),
        group.metric("states").getOrElse(-1L), count("peak"), count("saved"),
        hot.map(_.shown).toArray, hot.map(_.rows).toArray, fingerprint,
        end.executionFailure.nonEmpty,
        millis.length, (0L +: millis).max, millis.sum, context.defaultParallelism)
    }
  }
}

private[report] object GroupByListener {
  /** Spark's name of the metric that counts the rows which a task reads from a shuffle. */
  private val RecordsRead = "records read"

  private val MaxHotKeys = 10
  private val MaxText = 500
  private val MaxExecutions = 10000

  /** The tasks of a stage that have ended. A task that ran again takes its own place. */
  private final class StageRows(val execution: Long) {
    private val read = mutable.Map.empty[Int, Map[Long, Long]]
    private val failed = mutable.Map.empty[Int, Long]
    private val ran = mutable.Map.empty[Int, Long]
    var bytes = 0L

    def add(task: SparkListenerTaskEnd): Unit = {
      val partition = task.taskInfo.partitionId
      if (task.taskInfo.successful) {
        bytes += task.taskMetrics.shuffleWriteMetrics.bytesWritten
        ran(partition) = task.taskMetrics.executorRunTime
        read(partition) = task.taskInfo.accumulables.collect {
          case update if update.name.contains(RecordsRead) =>
            update.id -> update.update.collect { case rows: Long => rows }.getOrElse(0L)
        }.filter(_._2 > 0).toMap
      } else {
        failed(partition) = task.taskMetrics.shuffleReadMetrics.recordsRead
      }
    }

    /**
     * By partition, the rows that this metric has counted. A task without rows is a worker too. A
     * task that read only rows of other metrics, as below a union, is not.
     */
    def rows(metric: Long): Map[Int, Long] =
      if (!read.values.exists(_.contains(metric))) Map.empty
      else ofFailedTasks(metric) ++ read.iterator.collect {
        case (partition, counted) if counted.isEmpty || counted.contains(metric) =>
          partition -> counted.getOrElse(metric, 0L)
      }

    /** The milliseconds of the tasks that read rows of this metric. */
    def millis(metric: Long): Seq[Long] =
      rows(metric).keys.toSeq.flatMap(ran.get)

    /** The rows of failed tasks. Spark sums them over all exchanges, so there must be only one. */
    private def ofFailedTasks(metric: Long): Map[Int, Long] =
      if (read.values.forall(_.keys.forall(_ == metric))) failed.toMap else Map.empty
  }

  /**
   * The rows of each worker. A sort runs the tasks that read an exchange twice, the first time to
   * sample them. Their rows count once.
   */
  private def rowsOfWorkers(exchange: SparkPlan, stages: Seq[StageRows]): Seq[Long] =
    recordsRead(exchange).toSeq.flatMap { metric =>
      stages.map(_.rows(metric)).distinct.flatMap(_.toSeq.sortBy(_._1).map(_._2))
    }

  /** The milliseconds of the tasks that read an exchange, in the stage that worked the most. */
  private def millisOfWorkers(exchange: SparkPlan, stages: Seq[StageRows]): Seq[Long] =
    recordsRead(exchange).toSeq.flatMap { metric =>
      stages.map(_.millis(metric)).filter(_.nonEmpty).sortBy(-_.sum).headOption.getOrElse(Nil)
    }

  private def recordsRead(exchange: SparkPlan): Option[Long] =
    exchange.metrics.get("recordsRead").map(_.id)

  /** What a user calls a query. Spark shows where it was called, which in Python says nothing. */
  private def nameOf(end: SparkListenerSQLExecutionEnd, started: Execution): String = {
    val sql = end.qe.logical.collectFirst {
      case node if node.origin.sqlText.isDefined => node.origin.sqlText.get
    }
    val isNamed = !started.description.contains("NativeMethodAccessorImpl")
    (if (isNamed) started.description else sql.getOrElse("")).take(MaxText)
  }

  /**
   * An execution that runs.
   *
   * @param confs the confs of its session when it began. They may have changed when it ends.
   */
  private final case class Execution(description: String, time: Long, confs: Map[String, String]) {
    /** Whether Saltwise itself ran the query, to measure it. */
    def isMeasurement: Boolean = confs.contains(SaltwiseConf.Measured)

    def mode(query: QueryExecution): String = SaltwiseConf.mode(key =>
      confs.get(key).orElse(query.sparkSession.sharedState.conf.getOption(key)))
  }

  /** The same number for the same query, with a hint or without. */
  def fingerprint(query: QueryExecution): Int =
    Reported.withoutHints(query.analyzed).semanticHash()
}
