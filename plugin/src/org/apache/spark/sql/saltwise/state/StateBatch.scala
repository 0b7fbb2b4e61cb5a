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
 * What is kept of a task.
 *
 * @param updates what it added to accumulators whose names metrics of states have
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
 * What the state partitions of a stream took in a batch.
 *
 * @param ended  when it ended, in milliseconds since 1970
 * @param stages the stages that keep state. The operators of a stage share their tasks, so
 *               partition i of one is where partition i of the other is.
 */
private[state] final case class StateBatch(
    run: UUID, number: Long, ended: Long, stages: Seq[StageLoads]) {

  /** The executors that hold states, and others of the application. */
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

/** An executor, and whether it is on its way out. */
private[state] final case class StateExecutor(
    id: String, host: String, cores: Int, leaving: Boolean)

private[state] object StateBatch {
  private val mapper = new ObjectMapper

  /** None where no stage keeps state. */
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
 * @param remote   the bytes of these that came from other executors
 * @param keys     the keys that have a state
 * @param bytes    what the states take: in memory or in files, whichever is more
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

  /** Adds what a task did. */
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
    val at = node.putArray("executor")
    executor.foreach(at.add(_))
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
    val its = operators.filter(_.metrics.keys.exists(updated.contains))
    // With another number of tasks, partition i of the state is not task i, as below a union.
    its.headOption.filter(_.partitions == stage.info.numTasks).map { first =>
      val n = first.partitions
      val loads = StageLoads(stage.info, its, new Array[String](n), new Array[Long](n),
        new Array[Long](n), new Array[Long](n), new Array[Long](n), new Array[Long](n))
      stage.tasks.foreach(loads.add)
      loads
    }
  }
}
