package org.apache.spark.sql.saltwise.state

import scala.collection.mutable

import org.apache.spark.scheduler._
import org.apache.spark.sql.execution.ui._

/**
 * Follows the streams of a Spark context, and calls `ended` with each batch of those that keep
 * state, as soon as its tasks have ended.
 *
 * Spark itself sends all of this to its listeners. The plan of a query and its checkpoint stay as
 * they are.
 */
private[state] class StateListener(ended: StateBatch => Unit) extends SparkListener {
  import StateListener._

  private val running = mutable.Map.empty[Int, StateStage]
  private val open = mutable.LinkedHashSet.empty[Long]

  override def onJobStart(job: SparkListenerJobStart): Unit = {
    def property(name: String) = Option(job.properties).flatMap(p => Option(p.getProperty(name)))
    for {
      batch <- property("streaming.sql.batchId")
      // A sink may run queries of its own. They belong to the batch.
      execution <-
        property("spark.sql.execution.root.id").orElse(property("spark.sql.execution.id"))
      // A thread that outlives its execution may still name it.
      if open.contains(execution.toLong)
      stage <- job.stageInfos
    } running.getOrElseUpdate(stage.stageId, new StateStage(stage, execution.toLong, batch.toLong))
  }

  override def onTaskEnd(task: SparkListenerTaskEnd): Unit =
    if (task.taskInfo.successful && task.taskMetrics != null) {
      running.get(task.stageId).foreach(_.tasks += StateTask.of(task))
    }

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case start: SparkListenerSQLExecutionStart =>
      open += start.executionId
      // If Spark has dropped events, the end of an execution may be missing.
      if (open.size > MaxOpen) forget(open.head)
    case end: SparkListenerSQLExecutionEnd =>
      val stages = forget(end.executionId)
      if (stages.nonEmpty && end.qe != null) {
        StateBatch.of(stages, StateOperator.of(end.qe.executedPlan), end.time).foreach(ended)
      }
    case _ =>
  }

  private def forget(execution: Long): Seq[StateStage] = {
    open -= execution
    val stages = running.values.filter(_.execution == execution).toSeq
    running --= stages.map(_.info.stageId)
    stages
  }
}

private object StateListener {
  private val MaxOpen = 10000
}
