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

  private val stages = mutable.Map.empty[Int, StateStage]
  private val openExecutions = mutable.LinkedHashSet.empty[Long]

  override def onJobStart(job: SparkListenerJobStart): Unit = {
    def property(name: String) = Option(job.properties).flatMap(p => Option(p.getProperty(name)))
    for {
      batch <- property("streaming.sql.batchId")
      // A sink may run queries of its own. They belong to the batch.
      execution <-
        property("spark.sql.execution.root.id").orElse(property("spark.sql.execution.id"))
      // A thread that outlives its execution may still name it.
      if openExecutions.contains(execution.toLong)
      stage <- job.stageInfos
    } stages.getOrElseUpdate(stage.stageId, new StateStage(stage, execution.toLong, batch.toLong))
  }

  override def onTaskEnd(task: SparkListenerTaskEnd): Unit =
    if (task.taskInfo.successful && task.taskMetrics != null) {
      stages.get(task.stageId).foreach(_.tasks += StateTask.of(task))
    }

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case start: SparkListenerSQLExecutionStart =>
      openExecutions += start.executionId
      // If Spark has dropped events, the end of an execution may be missing.
      if (openExecutions.size > MaxOpen) forget(openExecutions.head)
    case end: SparkListenerSQLExecutionEnd =>
      val batch = forget(end.executionId)
      if (batch.nonEmpty && end.qe != null) {
        StateBatch.of(batch, StateOperator.of(end.qe.executedPlan), end.time).foreach(ended)
      }
    case _ =>
  }

  private def forget(execution: Long): Seq[StateStage] = {
    openExecutions -= execution
    val stagesOfExecution = stages.values.filter(_.execution == execution).toSeq
    stages --= stagesOfExecution.map(_.info.stageId)
    stagesOfExecution
  }
}

private object StateListener {
  private val MaxOpen = 10000
}
