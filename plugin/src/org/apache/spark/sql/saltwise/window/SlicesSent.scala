package org.apache.spark.sql.saltwise.window

import scala.util.control.NonFatal

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  Attribute, Expression, UnsafeProjection, UnsafeRow}

/**
 * Rows of a slice.
 *
 * @param state the states of its aggregates; null if an argument or a sum of some rows failed, or
 *              its edges are too large
 * @param edges the rows that the slices before it and behind it may read
 */
private[window] final case class SentSlice(rows: Long, state: Array[Byte], edges: Edges)

private[window] object SentSlice {
  val NoEdges: Edges = Edges(Nil, Nil)

  /** The bytes of edges of all tasks, and of one. */
  private val MaxBytes = 1L << 27
  private val MaxBytesOfTask = 1L << 20

  def maxEdgeBytes(tasks: Int): Long = math.min(MaxBytesOfTask, MaxBytes / tasks)

  /** The n slices of which each task sent a part. */
  def of(
      tasks: Seq[Seq[SentSlice]],
      n: Int,
      states: SliceStates,
      near: Option[NearRows]): Seq[SentSlice] =
    (0 until n).map { i =>
      val parts = tasks.map(_(i))
      SentSlice(
        parts.map(_.rows).sum,
        merged(parts.map(_.state), states),
        near.fold(NoEdges)(_.merged(parts.map(_.edges))))
    }

  /**
   * The state of all rows of some states; null if one is missing. A sum of two states may overflow
   * where stock Spark, which adds in order, does not.
   */
  def merged(ofTasks: Seq[Array[Byte]], states: SliceStates): Array[Byte] =
    if (ofTasks.contains(null)) null
    else try states.merged(ofTasks) catch { case NonFatal(_) => null }
}

/** An expression that finds the slice of a row, and counts what its task sends to each slice. */
private[window] trait CountsSlices extends Expression {

  /** The number of slices. */
  def n: Int
  def carried: Carried

  /** The columns that the aggregates read. If there are none, the row itself is what counts. */
  def read: Seq[Expression]
  def sent: OfTasks[Seq[SentSlice]]

  @transient private lazy val argumentsOf = UnsafeProjection.create(read)
  @transient private lazy val ofTask = {
    val slices = new SlicesOfTask(n, carried, carried.read)
    sent.whenTaskEnds(slices.all)
    slices
  }

  protected final def count(slice: Int, row: InternalRow): Unit =
    ofTask.add(slice, if (read.isEmpty) row else argumentsOf(row))
}

/** Counts what a map task sends. It is made where the task runs. */
private[window] final class SlicesOfTask(n: Int, carried: Carried, input: Seq[Attribute]) {
  private val states = new SliceStates(carried.aggregates, input)
  private val rows = new Array[Long](n)
  private val ofSlices = Array.fill(n)(states.empty())
  private val edges = carried.near.map(near => Array.fill(n)(near.edges()))
  private val countsOnly = carried.aggregates.isEmpty
  private val maxEdgeBytes = SentSlice.maxEdgeBytes(TaskContext.get().numPartitions())
  private var failed = false
  private var edgeBytes = 0L

  /** Adds a row. Stock Spark might never see one that fails, so this is not the place to say so. */
  def add(slice: Int, row: InternalRow): Unit = {
    rows(slice) += 1
    if (edges.isDefined && !failed) addEdge(edges.get(slice), row.asInstanceOf[UnsafeRow])
    if (!countsOnly && !failed) {
      try states.add(ofSlices(slice), row) catch { case NonFatal(_) => failed = true }
    }
  }

  /** The driver holds the edges of all tasks, so wide rows give one task all rows, as in stock. */
  private def addEdge(edge: EdgesOfSlice, row: UnsafeRow): Unit = {
    edgeBytes += edge.add(row)
    if (edgeBytes > maxEdgeBytes) {
      failed = true
      edges.foreach(_.foreach(_.clear()))
    }
  }

  def all: Seq[SentSlice] = rows.indices.map { i =>
    SentSlice(rows(i), state(i), edges.fold(SentSlice.NoEdges)(_(i).all))
  }

  private def state(slice: Int): Array[Byte] =
    if (failed) null
    else try states.bytes(ofSlices(slice)) catch { case NonFatal(_) => null }
}
