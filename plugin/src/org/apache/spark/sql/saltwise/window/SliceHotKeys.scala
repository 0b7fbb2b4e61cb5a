package org.apache.spark.sql.saltwise.window

import org.apache.spark.sql.catalyst.expressions.{Ascending, Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.logical.Window
import org.apache.spark.sql.catalyst.plans.physical.{HashPartitioning, UnknownPartitioning}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.{AQEShuffleReadExec, ShuffleQueryStageExec}
import org.apache.spark.sql.execution.exchange.ValidateRequirements
import org.apache.spark.sql.execution.window.WindowExec
import org.apache.spark.sql.saltwise.{OrStock, SaltwiseConf}
import org.apache.spark.sql.saltwise.plan.StateFields
import org.apache.spark.sql.saltwise.routing.HashOfRow
import org.apache.spark.sql.saltwise.split._

/**
 * Runs the hot keys of a window in slices, once its exchange has run and the sample of
 * [[SampleWindowKeys]] shows that one task would have too many rows of a key.
 *
 * {{{
 *   SELECT k, x, sum(v) OVER (PARTITION BY k ORDER BY x) AS s FROM t
 *
 *   before:  Window(sum(v), k, x) - Sort(k, x) - ShuffleQueryStage
 *
 *   after:   Union
 *            |- Window(sum(v), k, x) - Sort(k, x) - WholePartitions - ShuffleQueryStage
 *            |- Window(sum(v), k, x) - Sort(k, x) - SlicedRows(other keys) - ShuffleQueryStage
 *            +- Project(k, x, s) - Filter(isRow) - Window(sum(v or state), slice, x)
 *                 - SkewWindow(x) - SlicedRows(hot keys) - ShuffleQueryStage
 * }}}
 *
 * The rows of oversize partitions are shuffled once more: those of hot keys to slices, and those of
 * other keys by their keys. Adaptive execution accepts no plan with more exchanges than before, so
 * both nodes make this one themselves ([[HiddenExchange]]). Without an order, the rows of hot keys
 * stay where they are, and [[SkewTotalsExec]] adds the totals to them. Windows above over the same
 * keys and order go on in the slices ([[SharedSlices]]). If another operator above needs the rows
 * in their partitions, the plan stays as it is.
 */
object SliceHotKeys extends Rule[SparkPlan] {
  private val Million = 1000000L

  override def apply(plan: SparkPlan): SparkPlan =
    plan.collect { case window @ Sampled(_, _) => window }.foldLeft(plan) { (before, window) =>
      OrStock("SliceHotKeys", before) {
        val Sampled(stage, sampled) = window
        val above = sharing(before, window)
        val top = above.lastOption.getOrElse(window)
        val after = sliced(window, stage, sampled, above).map { union =>
          before.transformDown { case node if node eq top => union }
        }
        after.filter(plan => ValidateRequirements.validate(plan) && !BarrierOverUnion.isIn(plan))
          .getOrElse(before)
      }
    }

  /** A window over an exchange that has run, and a sample of its rows. */
  private object Sampled {
    def unapply(window: WindowExec): Option[(ShuffleQueryStageExec, SampledPartitioning)] =
      window.child match {
        case SortExec(_, false, stage: ShuffleQueryStageExec, _) if stage.isMaterialized =>
          stage.shuffle.outputPartitioning match {
            // An exchange that is used twice may have the sample of another order.
            case sampled: SampledPartitioning if sampled.keys == window.partitionSpec &&
                sampled.order == window.orderSpec => Some((stage, sampled))
            case _ => None
          }
        case _ => None
      }
  }

  /** The operators above a window that go on in its slices, upwards. The last one is a window. */
  private def sharing(plan: SparkPlan, window: WindowExec): Seq[SparkPlan] = {
    def shares(above: SparkPlan): Boolean = above match {
      case _: ProjectExec | _: FilterExec => true
      case window: WindowExec => window.logicalLink.exists {
        case logical: Window => WindowReasons.shares(logical)
        case _ => false
      }
      case _ => false
    }
    def above(node: SparkPlan): Option[SparkPlan] = plan.find(_.children.exists(_ eq node))
    val all = Iterator.iterate(above(window))(_.flatMap(above)).takeWhile(_.exists(shares)).flatten
      .toSeq
    all.take(all.lastIndexWhere(_.isInstanceOf[WindowExec]) + 1)
  }

  /** @param above the operators that go on in its slices */
  private def sliced(
      window: WindowExec,
      stage: ShuffleQueryStageExec,
      sampled: SampledPartitioning,
      above: Seq[SparkPlan]): Option[SparkPlan] = {
    val bytes = stage.mapStats.fold(Array.empty[Long])(_.bytesByPartitionId)
    if (bytes.sum <= conf.getConf(SaltwiseConf.SmallInput)) None else {
      val tasks = Received(bytes, new Array[Long](bytes.length), allRows = 0)
        .tasks(conf, stage.session.sparkContext)
      val keys = window.partitionSpec
      val hot =
        SlicedKeys.of(sampled.samples.all.flatten, keys.map(_.dataType), window.orderSpec, tasks)
        .filter(hasRanges(window, _))
      if (hot.isEmpty) None else {
        val rows = new Array[Long](bytes.length)
        hot.foreach { key =>
          val partition = sampled.partitionOf(StateFields.row(key.key, keys.length))
          rows(partition) += math.round(key.share * Million)
        }
        Some(inBranches(window, stage, Received(bytes, rows, Million), tasks, hot, above))
      }
    }
  }

  /** @param received rows in millionths of all, for the partitions of hot keys */
  private def inBranches(
      window: WindowExec,
      stage: ShuffleQueryStageExec,
      received: Received,
      tasks: Int,
      hot: Seq[SlicedKey],
      above: Seq[SparkPlan]): SparkPlan = {
    val partitions = received.bytes.indices
    val oversize = partitions.filter(received.rows(_) > 0)
    val read = AQEShuffleReadExec(stage, oversize.flatMap { partition =>
      val pieces = math.ceil(received.load(partition) * tasks).toLong
      Received.ranges(stage, partition, math.max(1L, received.bytes(partition) / pieces))
    })
    // Without its hot keys, an oversize partition is about as large as others are.
    val others = oversize.length
    val (otherRows, hotRows) =
      if (window.orderSpec.isEmpty) {
        val (otherRows, hotRows) = totals(window, hot, others, read)
        // What is above may rely on it that a window leaves its rows sorted by key.
        val byKey = window.requiredChildOrdering.head
        (otherRows, if (hot.length == others) hotRows else SortExec(byKey, global = false, hotRows))
      }
      else CarriedFunctions(window.windowExpression, window.orderSpec, read.output)
        .fold(inRanges(window, hot, others, read))(inSlices(window, _, hot, others, read, above))
    def asPlanned(rows: SparkPlan): SparkPlan =
      (window.child +: window +: above).foldLeft(rows) { (child, node) =>
        node.withNewChildren(Seq(child))
      }
    val keys = window.partitionSpec
    val whole =
      if (oversize.length == partitions.length) Nil
      else Seq(WholePartitionsExec(stage, received, tasks, oversize.toSet, keys))
    val union = UnionExec((whole :+ otherRows).map(asPlanned(_)) :+ hotRows)
    above.lastOption.getOrElse(window).logicalLink.foreach(union.setLogicalLink)
    union
  }

  /** The rows of other keys; and the window of the hot keys, whose rows stay where they are. */
  private def totals(
      window: WindowExec,
      hot: Seq[SlicedKey],
      others: Int,
      read: SparkPlan): (SparkPlan, SparkPlan) = {
    val keys = window.partitionSpec
    val functions = TotalFunctions(window.windowExpression).get
    val exchange = new HiddenExchange(HashPartitioning(keys, others))
    val rows = SkewTotalsExec(
      functions.aggregates, functions.values, keys, hot,
      RowsOfKeysExec(keys, hot, areHot = true, read))
    (SlicedRowsExec(
      0 until others, WholeKeys(keys, others), exchange,
      RowsOfKeysExec(keys, hot, areHot = false, read)),
      ProjectExec(read.output ++ functions.results, rows))
  }

  /** The rows of other keys; and the windows of the hot keys, over their slices. */
  private def inSlices(
      window: WindowExec,
      functions: SlicedFunctions,
      hot: Seq[SlicedKey],
      others: Int,
      read: SparkPlan,
      above: Seq[SparkPlan]): (SparkPlan, SparkPlan) = {
    val (keys, order, n) = (window.partitionSpec, window.orderSpec, hot.map(_.slices).sum)
    val sent = OfTasks[Seq[SentSlice]](window.session.sparkContext)
    val slice = SliceOfKey(keys, order, hot, others, functions.carried, sent)
    val exchange = new HiddenExchange(new SlicePartitioning(slice, n + others))
    val sort = if (above.isEmpty) order else HashOfRow.repeatable(order, read.output)
    val rows = SlicedRowsExec(0 until n, UnknownPartitioning(n), exchange, read)
    val first = overSlices(window, functions, sort, hot, sent, rows)
    val slices = above.foldLeft((first, functions.columns.slice)) { case ((rows, slice), node) =>
      goingOn(node, hot, rows, slice)
    }._1
    val output = above.lastOption.getOrElse(window).output
    (SlicedRowsExec(n until n + others, WholeKeys(keys, others), exchange, read),
      ProjectExec(output, slices))
  }

  /** A window over slices, and the column of the slice. */
  private def overSlices(
      window: WindowExec,
      functions: SlicedFunctions,
      sort: Seq[SortOrder],
      hot: Seq[SlicedKey],
      sent: OfTasks[Seq[SentSlice]],
      rows: SparkPlan): SparkPlan = {
    import functions._
    val (keys, order) = (window.partitionSpec, window.orderSpec)
    val slices = SkewWindowExec(
      order, sort, carried, columns, added, Slices(keys, hot.map(_.slices)), sent, rows)
    ProjectExec(
      window.child.output ++ results :+ columns.slice,
      FilterExec(columns.isRow, WindowExec(windows, Seq(columns.slice), order, slices)))
  }

  /** An operator above the window over slices, and the column of the slice in its output. */
  private def goingOn(
      node: SparkPlan,
      hot: Seq[SlicedKey],
      rows: SparkPlan,
      slice: Attribute): (SparkPlan, Attribute) = node match {
    case project: ProjectExec => (ProjectExec(project.projectList :+ slice, rows), slice)
    case filter: FilterExec => (FilterExec(filter.condition, rows), slice)
    case window: WindowExec =>
      val functions =
        CarriedFunctions(window.windowExpression, window.orderSpec, rows.output).get
      val (n, sent) =
        (hot.map(_.slices).sum, OfTasks[Seq[SentSlice]](window.session.sparkContext))
      val again = SliceAgain(slice, n, functions.carried, functions.carried.read, sent)
      val exchange = new HiddenExchange(new SlicePartitioning(again, n))
      val sliced = SlicedRowsExec(0 until n, UnknownPartitioning(n), exchange, rows)
      (overSlices(window, functions, sort = Nil, hot, sent, sliced), functions.columns.slice)
  }

  /** Whether a key has more than one range, if the frames of a window are distances. */
  private def hasRanges(window: WindowExec, key: SlicedKey): Boolean =
    RangeFunctions(window.windowExpression, window.orderSpec).forall { functions =>
      new ReachingRanges(window.orderSpec.head, functions.distance, key.begins).count > 1
    }

  /** The rows of other keys; and the window of the hot keys, whose slices share some rows. */
  private def inRanges(
      window: WindowExec,
      hot: Seq[SlicedKey],
      others: Int,
      read: SparkPlan): (SparkPlan, SparkPlan) = {
    val (keys, order, n) = (window.partitionSpec, window.orderSpec, hot.map(_.slices).sum)
    val functions = RangeFunctions(window.windowExpression, order).get
    import functions._
    val rows = RowsInRangeExec(
      order.head, distance, Seq(slice, isRow), keys, hot, others, cuts = None, read)
    val exchange = new HiddenExchange(new SlicePartitioning(slice, n + others))
    val slices = SkewRangesExec(
      order.head, slice, keys, SlicedRowsExec(0 until n, UnknownPartitioning(n), exchange, rows))
    val sorted = SortExec(SortOrder(slice, Ascending) +: order, global = false, slices)
    val overSlices = WindowExec(windows, Seq(slice), order, sorted)
    (ProjectExec(
      read.output,
      SlicedRowsExec(n until n + others, WholeKeys(keys, others), exchange, rows)),
      ProjectExec(read.output ++ results, FilterExec(isRow, overSlices)))
  }
}
