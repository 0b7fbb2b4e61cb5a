package org.apache.spark.sql.saltwise.window

import org.apache.spark.SparkEnv
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan, Project, Window}
import org.apache.spark.sql.saltwise.routing.HashOfRow
import org.apache.spark.sql.types.{DataType, IntegerType}

/**
 * Lets a window go on in the slices of a window below it, over the same keys and the same order.
 *
 * {{{
 *   SELECT x, sum(starts) OVER (ORDER BY x) AS session
 *   FROM (SELECT x, int(x - lag(x) OVER (ORDER BY x) > 30) AS starts FROM t)
 *
 *   before:  Window(sum(starts), x) - Project(x, starts) - Window(lag(x), x) - t
 *   after:   Window(sum(starts), slice, x) - SkewWindow(x) - Exchange(slice)
 *              - Project(x, starts, slice) - Window(lag(x), slice, x) - SkewWindow(x)
 *              - Exchange(slices of x) - t
 * }}}
 *
 * The second exchange sends all rows of a task to one other, which gets them in their order. It is
 * there to count them before any slice goes on. A task that runs again must come to the same rows
 * in the same order, so the first sort leaves nothing open: a hash of their bytes orders rows that
 * tie.
 */
private[window] object SharedSlices {

  /** The window that the rows of a window come from, through projections and filters. */
  def below(window: Window): Option[Window] = windowIn(window.child)

  private def windowIn(plan: LogicalPlan): Option[Window] = plan match {
    case window: Window => Some(window)
    case Project(columns, child) if columns.forall(_.deterministic) => windowIn(child)
    case Filter(condition, child) if condition.deterministic => windowIn(child)
    case _ => None
  }

  def haveSameSlices(one: Window, other: Window): Boolean =
    one.orderSpec.nonEmpty && areEqual(one.orderSpec, other.orderSpec) && haveSameKeys(one, other)

  def haveSameKeys(one: Window, other: Window): Boolean =
    areEqual(one.partitionSpec, other.partitionSpec)

  private def areEqual(some: Seq[Expression], others: Seq[Expression]): Boolean =
    some.map(_.canonicalized) == others.map(_.canonicalized)

  /** Whether a task gets the rows of another one in their order, as with Spark's own shuffle. */
  def keepsOrder: Boolean =
    Seq("sort", "tungsten-sort").contains(SparkEnv.get.conf.get("spark.shuffle.manager", "sort"))

  /** Rows that lie in slices: the column of their slice, the number of slices, and the rows. */
  object InSlices {
    def unapply(plan: LogicalPlan): Option[(Attribute, Int, LogicalPlan)] = plan match {
      case filter @ Filter(_, window: Window) if window.child.isInstanceOf[WindowSlices] =>
        val slices = window.child.asInstanceOf[WindowSlices]
        val repeats = if (slices.sort.isEmpty) slices else {
          slices.copy(sort = HashOfRow.repeatable(slices.order, slices.child.output))
        }
        val over = window.withNewChildren(Seq(repeats))
        Some((slices.columns.slice, slices.n, filter.withNewChildren(Seq(over))))
      case Project(columns, InSlices(slice, n, rows)) =>
        Some((slice, n, Project(columns :+ slice, rows)))
      case Filter(condition, InSlices(slice, n, rows)) =>
        Some((slice, n, Filter(condition, rows)))
      case _ => None
    }
  }
}

/**
 * The slice that a row has been in before.
 *
 * @param slice its column
 */
final case class SliceAgain(
    slice: Expression,
    n: Int,
    carried: Carried,
    read: Seq[Expression],
    sent: OfTasks[Seq[SentSlice]])
  extends CountsSlices with CodegenFallback {

  override def children: Seq[Expression] = slice +: read
  override def nullable: Boolean = false
  override def dataType: DataType = IntegerType

  override def eval(row: InternalRow): Any = {
    val number = slice.eval(row).asInstanceOf[Int]
    count(number, row)
    number
  }

  override def toString: String = slice.toString

  override protected def withNewChildrenInternal(c: IndexedSeq[Expression]): SliceAgain =
    copy(slice = c.head, read = c.tail)
}
