package saltwise.benchmarks

import java.util.concurrent.{ConcurrentLinkedQueue, TimeUnit}
import java.util.concurrent.locks.LockSupport

import scala.jdk.CollectionConverters._

import org.apache.spark.TaskContext
import org.apache.spark.sql.{Encoder, Encoders, SparkSession}
import org.apache.spark.sql.expressions.Aggregator
import org.apache.spark.sql.functions.udaf

/** Aggregates such as users write, which Spark knows nothing of but how to update and to merge them. */
object UserAggregates {
  def register(spark: SparkSession): Unit = {
    spark.udf.register("root_mean_square", udaf(RootMeanSquare))
    spark.udf.register("waiting_count", udaf(WaitingCount))
  }
}

final case class Squares(sum: Double, count: Long)

object RootMeanSquare extends Aggregator[Double, Squares, Double] {
  override def zero: Squares = Squares(0, 0)
  override def reduce(squares: Squares, v: Double): Squares = Squares(squares.sum + v * v, squares.count + 1)
  override def merge(a: Squares, b: Squares): Squares = Squares(a.sum + b.sum, a.count + b.count)
  override def finish(squares: Squares): Double = math.sqrt(squares.sum / squares.count)
  override def bufferEncoder: Encoder[Squares] = Encoders.product[Squares]
  override def outputEncoder: Encoder[Double] = Encoders.scalaDouble
}

/** Counts rows, and waits 1 ms for each; merging costs nothing. */
object WaitingCount extends Aggregator[Long, Long, Long] {
  override def zero: Long = 0
  override def reduce(count: Long, row: Long): Long = {
    Wait.row()
    count + 1
  }
  override def merge(a: Long, b: Long): Long = a + b
  override def finish(count: Long): Long = count
  override def bufferEncoder: Encoder[Long] = Encoders.scalaLong
  override def outputEncoder: Encoder[Long] = Encoders.scalaLong
}

/**
 * A fixed wait for each row of a task. Rows move the moment until which the task has to wait, and its thread sleeps
 * when that is some milliseconds away: one that woke up late waits less the next time, so the waits add up to 1 ms a
 * row however busy the cores are.
 */
object Wait {
  private val OfRow = TimeUnit.MILLISECONDS.toNanos(1)
  private val Step = TimeUnit.MILLISECONDS.toNanos(5)

  private final class Worker(val task: Long) {
    val began: Long = System.nanoTime()
    private var due = began
    @volatile var ended: Long = began

    def row(): Unit = {
      due += OfRow
      if (due - System.nanoTime() > Step) while (due - System.nanoTime() > 0) LockSupport.parkNanos(due - System.nanoTime())
      ended = System.nanoTime()
    }
  }

  private val ofThread = new ThreadLocal[Worker]
  private val workers = new ConcurrentLinkedQueue[Worker]

  def row(): Unit = {
    val task = TaskContext.get().taskAttemptId()
    if (ofThread.get == null || ofThread.get.task != task) {
      ofThread.set(new Worker(task))
      workers.add(ofThread.get)
    }
    ofThread.get.row()
  }

  /** The most seconds that a task waited, from its first row to its last, since this was asked before. */
  def slowest(): Double = {
    val seconds = workers.asScala.map(worker => (worker.ended - worker.began) / 1e9).max
    workers.clear()
    seconds
  }
}
