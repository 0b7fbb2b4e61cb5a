package org.apache.spark.sql.saltwise.window

import org.apache.spark.{SparkContext, TaskContext}
import org.apache.spark.util.AccumulatorV2

/**
 * What each task of a stage tells the driver when it ends. A task that runs again takes its own
 * place, so nothing counts twice.
 */
final class OfTasks[A] extends AccumulatorV2[(Int, A), Map[Int, A]] {
  private var tasks = Map.empty[Int, A]

  /** What the tasks told, in no order. */
  def all: Seq[A] = tasks.values.toSeq

  /** Tells the driver `value` when the task ends that calls this. */
  def whenTaskEnds(value: => A): Unit = {
    val context = TaskContext.get()
    context.addTaskCompletionListener[Unit](_ => add((context.partitionId(), value)))
  }

  override def isZero: Boolean = tasks.isEmpty
  override def copy(): OfTasks[A] = {
    val other = new OfTasks[A]
    other.tasks = tasks
    other
  }
  override def reset(): Unit = tasks = Map.empty
  override def add(task: (Int, A)): Unit = tasks += task
  override def merge(other: AccumulatorV2[(Int, A), Map[Int, A]]): Unit = tasks ++= other.value
  override def value: Map[Int, A] = tasks
}

private[window] object OfTasks {
  def apply[A](context: SparkContext): OfTasks[A] = {
    val tasks = new OfTasks[A]
    context.register(tasks)
    tasks
  }
}
