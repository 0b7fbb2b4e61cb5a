package org.apache.spark.sql.saltwise.window

import scala.util.control.NonFatal

import org.apache.spark.SparkContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeRow}
import org.apache.spark.sql.saltwise.window.SentSlice.MaxEdgeBytes
import org.apache.spark.util.AccumulatorV2

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
  val MaxEdgeBytes: Long = 1L << 20
}

/**
 * What each map task sent to each slice. A task that runs again sends the same rows, so it takes
 * its own place, and nothing counts twice.
 */
final class SlicesSent extends AccumulatorV2[(Int, Seq[SentSlice]), Map[Int, Seq[SentSlice]]] {
  private var tasks = Map.empty[Int, Seq[SentSlice]]

  /** The sums of all tasks. */
  private[window] def slices(
      n: Int, states: SliceStates, near: Option[NearRows]): Seq[SentSlice] = {
    val sent = tasks.values.toSeq
    (0 until n).map { i =>
      val parts = sent.map(_(i))
      val ofTasks = parts.map(_.state)
      SentSlice(
        parts.map(_.rows).sum,
        if (ofTasks.contains(null)) null else states.merged(ofTasks),
        near.fold(SentSlice.NoEdges)(_.merged(parts.map(_.edges))))
    }
  }

  /** The rows of all tasks. */
  private[window] def rows: Long = tasks.values.flatten.map(_.rows).sum

  override def isZero: Boolean = tasks.isEmpty
  override def copy(): SlicesSent = {
    val other = new SlicesSent
    other.tasks = tasks
    other
  }
  override def reset(): Unit = tasks = Map.empty
  override def add(task: (Int, Seq[SentSlice])): Unit = tasks += task
  override def merge(other: AccumulatorV2[(Int, Seq[SentSlice]), Map[Int, Seq[SentSlice]]]): Unit =
    tasks ++= other.value
  override def value: Map[Int, Seq[SentSlice]] = tasks
}

private[window] object SlicesSent {
  def apply(context: SparkContext): SlicesSent = {
    val sent = new SlicesSent
    context.register(sent)
    sent
  }
}

/** Counts what a map task sends. It is made where the task runs. */
private[window] final class SlicesOfTask(n: Int, carried: Carried, input: Seq[Attribute]) {
  private val states = new SliceStates(carried.aggregates, input)
  private val rows = new Array[Long](n)
  private val ofSlices = Array.fill(n)(states.empty())
  private val edges = carried.near.map(near => Array.fill(n)(near.edges()))
  private val countsOnly = carried.aggregates.isEmpty
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
    if (edgeBytes > MaxEdgeBytes) {
      failed = true
      edges.foreach(_.foreach(_.clear()))
    }
  }

  def all: Seq[SentSlice] = rows.indices.map { i =>
    SentSlice(
      rows(i),
      if (failed) null else states.bytes(ofSlices(i)),
      edges.fold(SentSlice.NoEdges)(_(i).all))
  }
}
