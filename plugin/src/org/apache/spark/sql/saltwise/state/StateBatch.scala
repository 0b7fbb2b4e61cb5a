package org.apache.spark.sql.saltwise.state

import java.util.UUID

import scala.collection.mutable.ArrayBuffer

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.spark.{MapOutputTrackerMaster, SparkEnv}
import org.apache.spark.scheduler.{SparkListenerTaskEnd, StageInfo}
import org.apache.spark.sql.saltwise.compat.SparkCompat

/** A stage of a stream's batch, and its tasks that have ended. */
private final class StateStage(val info: StageInfo, val execution: Long, val batch: Long) {
  val tasks = new ArrayBuffer[StateTask]
}

/**
 * A task that has ended.
 *
 * @param updates the values that it added to the metrics of states, by accumulator
 */
private final case class StateTask(
    partition: Int,
    executor: String,
    millis: Long,
    rows: Long,
    remote: Long,
    updates: Map[Long, Long])

private object StateTask {
  def of(task: SparkListenerTaskEnd): StateTask = {
    val read = task.taskMetrics.shuffleReadMetrics
    val updates = task.taskInfo.accumulables.collect {
      case update if update.name.exists(StateOperator.Shown.contains) =>
        update.id -> update.update.collect { case value: Long => value }.getOrElse(0L)
    }
    StateTask(
      task.taskInfo.partitionId, task.taskInfo.executorId, task.taskMetrics.executorRunTime,
      read.recordsRead, read.remoteBytesRead, updates.toMap)
  }
}

/**
 * The loads of the state partitions of a stream in a batch.
 *
 * @param ended  when it ended, in milliseconds since 1970
 * @param stages the stages that keep state. The operators of a stage share their tasks, so
 *               partition i of one is on the same executor as partition i of the other.
 */
private[state] final case class StateBatch(
    run: UUID, number: Long, ended: Long, stages: Seq[StageLoads]) {

  /**
   * The batch as JSON.
   *
   * @param executors   the executors of the application, with states or without
   * @param withTraffic whether it has the bytes that stages sent to each other
   */
  def json(executors: Seq[StateExecutor], withTraffic: Boolean): String = {
    val node = StateBatch.mapper.createObjectNode()
    node.put("run", run.toString).put("batch", number).put("ended", ended)
    val all = node.putArray("executors")
    executors.foreach { executor =>
      all.addObject().put("id", executor.id).put("cores", executor.cores)
        .put("leaving", executor.leaving)
    }
    val pinned = node.putArray("pinned")
    SparkCompat.pinnedPartitions.foreach(pinned.add(_))
    val loads = node.putArray("stages")
    stages.foreach(stage => stage.write(loads.addObject()))
    if (withTraffic) {
      val traffic = node.putArray("traffic")
      for (from <- stages.indices; to <- stages.indices) stages(to).from(stages(from)).foreach {
        bytes =>
          val rows = traffic.addObject().put("from", from).put("to", to).putArray("bytes")
          bytes.foreach { row =>
            val values = rows.addArray()
            row.foreach(values.add(_))
          }
      }
    }
    node.toString
  }
}

/** An executor, and whether it is being decommissioned. */
private[state] final case class StateExecutor(
    id: String, host: String, cores: Int, leaving: Boolean)

private[state] object StateBatch {
  private val mapper = new ObjectMapper

  /** None if no stage keeps state. */
  def of(
      stages: Seq[StateStage], operators: Seq[StateOperator], ended: Long): Option[StateBatch] = {
    val loads = stages.sortBy(_.info.stageId).flatMap(StageLoads.of(_, operators))
    loads.headOption.map { first =>
      StateBatch(first.operators.head.run, stages.head.batch, ended, loads)
    }
  }
}

/**
 * The loads of the state partitions of a stage.
 *
 * @param executor where each partition ran
 * @param millis   the time that each partition's task ran
 * @param rows     the rows that it read
 * @param remote   the bytes that it read from other executors
 * @param keys     the keys that have a state
 * @param bytes    the bytes of the states: in memory or in files, whichever is more
 */
private[state] final case class StageLoads(
    info: StageInfo,
    operators: Seq[StateOperator],
    executor: Array[String],
    millis: Array[Long],
    rows: Array[Long],
    remote: Array[Long],
    keys: Array[Long],
    bytes: Array[Long]) {

  /** Adds the loads of a task. */
  def add(task: StateTask): Unit = {
    val partition = task.partition
    def metric(operator: StateOperator, name: String): Long =
      operator.metrics.collectFirst {
        case (id, `name`) if task.updates.contains(id) => task.updates(id)
      }.getOrElse(0L)
    executor(partition) = task.executor
    millis(partition) = task.millis
    rows(partition) = task.rows
    remote(partition) = task.remote
    keys(partition) = operators.map(metric(_, StateOperator.Rows)).sum
    bytes(partition) = operators.map { operator =>
      math.max(metric(operator, StateOperator.Memory), metric(operator, StateOperator.Files))
    }.sum
  }

  def write(node: ObjectNode): Unit = {
    val ids = node.putArray("operators")
    operators.foreach(operator => ids.add(operator.id))
    val executors = node.putArray("executor")
    executor.foreach(executors.add(_))
    Seq("millis" -> millis, "rows" -> rows, "remote" -> remote, "keys" -> keys, "bytes" -> bytes)
      .foreach { case (name, values) =>
        val array = node.putArray(name)
        values.foreach(array.add(_))
      }
  }

  /** The bytes that each partition of another stage sent to each partition of this one. */
  def from(other: StageLoads): Option[Array[Array[Long]]] =
    if (!info.parentIds.contains(other.info.stageId)) None else for {
      shuffle <- other.info.shuffleDepId
      tracker = SparkEnv.get.mapOutputTracker.asInstanceOf[MapOutputTrackerMaster]
      status <- tracker.shuffleStatuses.get(shuffle)
    } yield status.withMapStatuses(_.map { output =>
      Array.tabulate(millis.length)(i => if (output == null) 0L else output.getSizeForBlock(i))
    })
}

private[state] object StageLoads {
  def of(stage: StateStage, operators: Seq[StateOperator]): Option[StageLoads] = {
    val updated = stage.tasks.iterator.flatMap(_.updates.keys).toSet
    val ofStage = operators.filter(_.metrics.keys.exists(updated.contains))
    // With another number of tasks, as below a union, partition i of the state is not task i.
    ofStage.headOption.filter(_.partitions == stage.info.numTasks).map { first =>
      val n = first.partitions
      val loads = StageLoads(stage.info, ofStage, new Array[String](n), new Array[Long](n),
        new Array[Long](n), new Array[Long](n), new Array[Long](n), new Array[Long](n))
      stage.tasks.foreach(loads.add)
      loads
    }
  }
}
