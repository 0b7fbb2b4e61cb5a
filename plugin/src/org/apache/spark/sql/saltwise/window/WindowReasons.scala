package org.apache.spark.sql.saltwise.window

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.SQLConfHelper
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.execution.datasources.v2.{DataSourceV2ScanRelation, FileScan}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.saltwise.SaltwiseConf
import org.apache.spark.sql.saltwise.compat.NativeEngine
import org.apache.spark.sql.saltwise.plan.{CheapRows, GroupingKeys, LeftAlone}
import org.apache.spark.sql.saltwise.routing.StableColumns

/** Why a window has to stay as it is. */
private[window] object WindowReasons extends SQLConfHelper {

  /** Whether windows of this session may run in slices. */
  def isOn: Boolean = SaltwiseConf.isOn(conf) && conf.getConf(SaltwiseConf.WindowSlices) &&
    NativeEngine.running(conf).isEmpty

  /** Why a window has to stay as it is; None if it may run in slices. */
  def of(window: Window): Option[String] =
    if (shares(window)) None else ofOwnSlices(window).filter(_ => OneKey(window).isEmpty)

  /** Why a window cannot have slices of its own. */
  def ofOwnSlices(window: Window): Option[String] = {
    val (order, rows) = (window.orderSpec, window.child)
    val values = window.partitionSpec ++ order.map(_.child)
    // What its slices read of the rows.
    val read =
      if (order.isEmpty) TotalFunctions(window.windowExpressions).map(values ++ _.aggregates)
      else carried(window).map { carried =>
        values ++ carried.aggregates ++ carried.near.toSeq.flatMap(_.input)
      }.orElse(RangeFunctions(window.windowExpressions, order).map(values ++ _.aggregates))
    if (order.nonEmpty && order.forall(_.child.foldable)) Some(ConstantOrder)
    else if (isDecided(rows)) Some(OtherFunctions)
    else if (read.isEmpty) Some(ofFunctions(window))
    else if (sortsTwice(window)) Some(SecondSort)
    else if (window.partitionSpec.isEmpty) ofSecondPass(window)
    else if (values.exists(value => GroupingKeys.isCollated(value.dataType))) Some(Collated)
    else if (!repeats(read.get, rows)) Some(OtherRows)
    else None
  }

  /**
   * Whether a window can go on in the slices of the one below ([[SharedSlices]]). That takes a
   * second shuffle, which two cores do not win back.
   */
  def shares(window: Window): Boolean =
    window.orderSpec.nonEmpty && carried(window).isDefined && !hasTwoCores &&
      SharedSlices.keepsOrder && SharedSlices.below(window).exists { below =>
        SharedSlices.haveSameSlices(window, below) && carried(below).isDefined &&
          (shares(below) || ofOwnSlices(below).isEmpty && repeats(below.child.output, below.child))
      }

  /** Whether somebody has decided what becomes of a window over these rows. */
  def isDecided(rows: LogicalPlan): Boolean = rows match {
    // Spark keeps the first rows only.
    case _: WindowGroupLimit => true
    // A rule has been here.
    case _: LeftAlone | _: WindowSlices | _: WindowRanges => true
    case _ => false
  }

  def cores: Int = conf.getConf(SQLConf.LEAF_NODE_DEFAULT_PARALLELISM)
    .getOrElse(SparkSession.active.sparkContext.defaultParallelism)

  /** Two cores or one: they win back neither a second sort nor a second shuffle. */
  def hasTwoCores: Boolean = cores < 3

  private def carried(window: Window): Option[Carried] =
    CarriedFunctions(window.windowExpressions, window.orderSpec, window.child.output)
      .map(_.carried)

  private def ofFunctions(window: Window): String =
    if (window.windowExpressions.exists(_.exists(CarriedFunctions.addsFloats))) Floats
    else OtherFunctions

  private def sortsTwice(window: Window): Boolean = window.orderSpec.nonEmpty && hasTwoCores &&
    window.windowExpressions.exists(_.exists(_.isInstanceOf[DenseRank]))

  /** Why the rows of a window without PARTITION BY should not be read twice. */
  private def ofSecondPass(window: Window): Option[String] = {
    val rows = window.child
    // With an order, the values make one pass.
    val mayDiffer = !StableColumns.staysInPlace(rows) || window.orderSpec.isEmpty &&
      (rows.exists(!_.expressions.forall(_.deterministic)) || rows.collectLeaves().exists(isLive))
    if (!CheapRows(rows)) Some(SecondPass) else if (mayDiffer) Some(MayDiffer) else None
  }

  /** Whether a source may have other rows by the second pass. One of files keeps its list. */
  private def isLive(source: LogicalPlan): Boolean = source match {
    case table: LogicalRelation => !table.relation.isInstanceOf[HadoopFsRelation]
    case table: DataSourceV2ScanRelation => !table.scan.isInstanceOf[FileScan]
    case _ => false
  }

  /** Whether these are the same when the tasks of the rows run again. */
  private def repeats(values: Seq[Expression], rows: LogicalPlan): Boolean =
    values.forall(_.deterministic) && StableColumns.sameStableRows(rows) &&
      AttributeSet(values).subsetOf(StableColumns(rows))

  /** Why a window stays that is below another one. */
  val TaskAbove = "a window above it needs all rows in one task"

  /** Why a window stays of which each slice would be a task of a barrier stage. */
  val BarrierAbove = "the barrier stage above it would have more tasks than in stock Spark"

  /** Why a window stays that a query has twice. */
  val Twice = "the query has it twice, and Spark computes its rows once"

  private val OtherFunctions =
    "a function of this window cannot go on where the rows of another task ended"
  private val Floats =
    s"the last bits of its sums of floating-point numbers may differ; if they may, set " +
      s"${SaltwiseConf.WindowFloats.key}"
  private val ConstantOrder = "its order is a constant, so all rows are equal"
  private val Collated = "equal strings of its keys may have different bytes"
  private val SecondPass =
    "a pass over its order would compute its rows a second time; cache them first"
  private val SecondSort =
    "to count the values of its order takes a second sort, and two cores win nothing by that"
  private val OtherRows =
    "its keys, its order or its arguments may differ when a task runs again"
  private val MayDiffer = "a second pass may find its rows in another order, or other values"
}
