package org.apache.spark.sql.saltwise.window

import java.util.PriorityQueue

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.LazilyGeneratedOrdering
import org.apache.spark.sql.saltwise.plan.StateFields
import org.apache.spark.sql.saltwise.routing.HashOfRow

/**
 * The rows of other slices that functions read: those near to a row, for lag, lead, and short
 * frames of rows, and the first ones and the last one of the partition, for first_value and its
 * like. A slice gets them before and behind its own rows, and they leave it again.
 *
 * Rows that the order takes as equal have an order here too, by a hash of their bytes. So it is the
 * same everywhere which rows are the last ones. Rows with the same hash are taken as the same.
 *
 * @param before the most rows before a row that are read
 * @param behind the most rows behind it
 * @param firsts how many of the first rows of the partition are read
 * @param last   whether its last row is read
 * @param order  the order of the window
 * @param input  the columns of a row
 */
final case class NearRows(
    before: Int,
    behind: Int,
    firsts: Int,
    last: Boolean,
    order: Seq[SortOrder],
    input: Seq[Attribute]) {
  import NearRows._

  /** How many rows of each end of a slice others may read. */
  private val (atFront, atBack) = (math.max(behind, firsts), math.max(before, if (last) 1 else 0))

  /** The order of the window, and one in which no rows are equal that differ. */
  @transient private lazy val ofWindow = new LazilyGeneratedOrdering(order, input)
  @transient private lazy val ordering =
    new LazilyGeneratedOrdering(HashOfRow.repeatable(order, input), input)

  /** Collects the rows of a slice that its neighbours may read. */
  def edges(): EdgesOfSlice = new EdgesOfSlice(atBack, atFront, ordering)

  /** The first and the last rows of a slice, if these are those of some of its parts. */
  def merged(parts: Seq[Edges]): Edges = Edges(
    sorted(parts.flatMap(_.first)).take(atFront), sorted(parts.flatMap(_.last)).takeRight(atBack))

  /** For each slice of a partition, the rows of other slices that it gets. */
  def around(slices: Seq[Edges]): Seq[Neighbours] = {
    val earlier = slices.scanLeft(Seq.empty: Rows) { (rows, slice) =>
      (rows ++ slice.last).takeRight(atBack)
    }
    val later = slices.scanRight(Seq.empty: Rows) { (slice, rows) =>
      (slice.first ++ rows).take(atFront)
    }
    val filled = slices.indices.filter(i => slices(i).first.nonEmpty || slices(i).last.nonEmpty)
    earlier.zip(later.tail).zipWithIndex.map { case ((rowsBefore, rowsBehind), i) =>
      Neighbours(
        if (filled.headOption.forall(_ >= i)) Nil else later.head.take(firsts),
        rowsBefore.takeRight(before),
        rowsBehind.take(behind),
        if (filled.lastOption.forall(_ <= i) || !last) Nil else earlier.last.takeRight(1))
    }
  }

  /**
   * Whether each slice has as many rows before it and behind it as may be read. If not, a function
   * would read past them, and find the rows that were put there for other functions.
   *
   * @param rows    the rows of each slice
   * @param carries whether slices begin with a row that carries states
   */
  def areEnough(rows: Seq[Long], carries: Boolean): Boolean = {
    val needed = math.max(firsts, if (carries || firsts > 0) before else 0)
    val (earlier, later) = (rows.scanLeft(0L)(_ + _), rows.scanRight(0L)(_ + _).tail)
    rows.indices.forall { i =>
      rows(i) == 0 || (earlier(i) == 0 || earlier(i) >= needed) &&
        (!last || later(i) == 0 || later(i) >= behind)
    }
  }

  /** How many values of the order some rows have that follow one another. */
  def valuesOf(rows: Rows): Int = if (rows.isEmpty) 0 else {
    val ofRows = toRows(rows)
    1 + ofRows.zip(ofRows.tail).count { case (one, next) => ofWindow.compare(one, next) != 0 }
  }

  /**
   * The rows of a slice so that its first and last ones are those that its neighbours have. The
   * order of the window may take some rows of its edges as equal to others.
   *
   * @param rows  the rows in the order of the window
   * @param count how many there are
   */
  def inOrder(rows: Iterator[InternalRow], count: Long, edges: Edges): Iterator[InternalRow] =
    if (count <= atFront + atBack) rows.map(_.copy()).toArray.sorted(ordering).iterator
    else {
      val (first, last) = (toRows(edges.first), toRows(edges.last))
      val waiting = mutable.Map.empty[InternalRow, Int]
      (first ++ last).foreach(row => waiting(row) = waiting.getOrElse(row, 0) + 1)
      def mayWait(row: InternalRow): Boolean =
        first.lastOption.exists(ofWindow.compare(row, _) <= 0) ||
          last.headOption.exists(ofWindow.compare(row, _) >= 0)
      def waits(row: InternalRow): Boolean = mayWait(row) && {
        val left = waiting.getOrElse(row, 0)
        if (left > 0) waiting(row) = left - 1
        left > 0
      }
      first.iterator ++ rows.filterNot(waits) ++ last.iterator
    }

  def toRows(rows: Rows): Seq[UnsafeRow] = rows.map(StateFields.row(_, input.length))

  private def sorted(rows: Rows): Rows = toRows(rows).sorted(ordering).map(_.getBytes)
}

private[window] object NearRows {
  type Rows = Seq[Array[Byte]]

  /**
   * The rows of other slices that a slice gets.
   *
   * @param firsts the first rows of the partition, if they are in other slices
   * @param before the rows right before the slice
   * @param behind the rows right behind it
   * @param last   the last row of the partition, if it is in another slice
   */
  final case class Neighbours(firsts: Rows, before: Rows, behind: Rows, last: Rows)

  val NoNeighbours: Neighbours = Neighbours(Nil, Nil, Nil, Nil)
}

/** The first and the last rows of a slice, in their order. */
final case class Edges(first: Seq[Array[Byte]], last: Seq[Array[Byte]])

/** Keeps the first and the last of the rows that a task sends to a slice. */
private[window] final class EdgesOfSlice(
    before: Int, behind: Int, ordering: Ordering[InternalRow]) {
  private val last = new PriorityQueue[UnsafeRow](ordering)
  private val first = new PriorityQueue[UnsafeRow](ordering.reverse)

  /** Returns by how many bytes it has grown. */
  def add(row: UnsafeRow): Int = keep(last, before, row) + keep(first, behind, row)

  /** Keeps a row in place of the one that is on top, if it is further from it than the others. */
  private def keep(rows: PriorityQueue[UnsafeRow], n: Int, row: UnsafeRow): Int =
    if (rows.size < n) {
      rows.add(row.copy())
      row.getSizeInBytes
    } else if (n > 0 && rows.comparator.compare(row, rows.peek) > 0) {
      val gone = rows.poll()
      rows.add(row.copy())
      row.getSizeInBytes - gone.getSizeInBytes
    } else 0

  def clear(): Unit = {
    last.clear()
    first.clear()
  }

  def all: Edges = Edges(bytes(first), bytes(last))

  private def bytes(rows: PriorityQueue[UnsafeRow]): Seq[Array[Byte]] =
    rows.toArray(Array.empty[UnsafeRow]).toSeq.map(_.getBytes)
}
