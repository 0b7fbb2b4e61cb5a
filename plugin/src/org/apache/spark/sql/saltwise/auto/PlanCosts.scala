package org.apache.spark.sql.saltwise.auto

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.aggregate._
import org.apache.spark.sql.saltwise.{Local, SkewOptions}
import org.apache.spark.sql.saltwise.local.{GrowingStates, LocalIterator}

/**
 * The costs of the plans of an aggregate, in microseconds of a core for each row that it reads. A
 * core counts as long as the plan holds it, busy or idle.
 *
 * All plans read the rows and update states from them, in the map tasks or in the reduce tasks.
 * They differ in how many rows and how many states travel, and in how often Spark's operator groups
 * rows. An object aggregate sorts the rows after its first 128 keys, a sort aggregate sorts all
 * rows, and a hash aggregate looks up each row. The costs for each row are:
 *
 * {{{
 *           in the map tasks                                    in the n reduce tasks
 *   stock:  update + group + states * state / 2                 states * (state / 2 + group)
 *   split:  row / 2                                             row / 2 + update + group
 *   local:  combined * update + raw * (lookup + row / 2)        raw * (row / 2 + update + group)
 *             + sent * state / 2                                  + sent * state / 2
 * }}}
 *
 * A task of `taskRows` rows has `keysAmong(taskRows)` states; `states` is this number for each row.
 * A key needs some rows in a task to get a state of `local`. `combined` is the share of the keys
 * that have about twice as many, `sent` is the number of their states for each row, and `raw` is
 * the share of all other keys. A key with a state is found at once. `lookup` is the cost of the
 * sketch for a key without one.
 *
 * If there are fewer tasks than cores, the work takes as long as its largest task, so it counts
 * cores / tasks times. In none of these plans does a hot key make one task larger than the others:
 * it is combined before it travels, or split. The few states of it that are left for one task are
 * the same in all plans.
 */
final case class PlanCosts(stock: Double, split: Double, local: Double) {
  override def toString: String =
    f"stock $stock%.2f, split $split%.2f, local $local%.2f microseconds a row"
}

object PlanCosts {
  /**
   * Fitted on two cores by benchmarks/calibrate.py. For the four kinds below, single measurements
   * differ from the fit by up to 52, 44, 31 and 45 %.
   */
  final case class Constants(
      update: Double, group: Double, row: Double, state: Double, lookup: Double)

  private val Growing =
    Constants(update = 0.26, group = 0.19, row = 0.17, state = 1.40, lookup = 0.24)
  private val Objects =
    Constants(update = 0.13, group = 0.16, row = 0.27, state = 0.88, lookup = 0.23)
  private val Sorted =
    Constants(update = 0.17, group = 0.11, row = 0.29, state = 0.77, lookup = 0.34)
  private val Imperative =
    Constants(update = 0.12, group = 0.01, row = 0.28, state = 2.03, lookup = 0.40)

  /**
   * The number of keys that an object aggregate holds before it sorts:
   * spark.sql.objectHashAggregate.sortBased.fallbackThreshold.
   */
  private val KeysWithoutSort = 128

  /**
   * None if Spark generates code for both phases. Then no other plan is faster, once the map side
   * combines rows.
   */
  def constants(stock: SparkPlan): Option[Constants] = stock match {
    case node: ObjectHashAggregateExec => Some(if (grows(node)) Growing else Objects)
    case _: SortAggregateExec => Some(Sorted)
    case node: HashAggregateExec if !node.supportCodegen => Some(Imperative)
    case _ => None
  }

  private def grows(stock: SparkPlan): Boolean = stock match {
    case node: BaseAggregateExec =>
      GrowingStates.among(node.aggregateExpressions.map(_.aggregateFunction))
    case _ => false
  }

  def apply(
      stock: SparkPlan,
      constants: Constants,
      keys: KeyStatistics,
      options: SkewOptions,
      cluster: Cluster): PlanCosts = {
    import constants.{lookup, row, state, update}
    val distinctKeys = keys.keysAmong(keys.taskRows)
    val states = math.min(1.0, distinctKeys / keys.taskRows)
    val sorts = !stock.isInstanceOf[ObjectHashAggregateExec] || distinctKeys > KeysWithoutSort
    val group = if (sorts) constants.group else 0.0
    val (combinedKeys, combined) = keysToCombine(keys, Local(options.parameters), grows(stock))
    val (raw, sent) = (1 - combined, math.min(1.0, combinedKeys / keys.taskRows))
    def cost(map: Double, reduce: Double) =
      map * cluster.coresHeld(keys.tasks) + reduce * cluster.coresHeld(cluster.workers)
    PlanCosts(
      stock = cost(update + group + states * state / 2, states * (state / 2 + group)),
      split = cost(row / 2, row / 2 + update + group),
      local = cost(
        combined * update + raw * (lookup + row / 2) + sent * state / 2,
        raw * (row / 2 + update + group) + sent * state / 2))
  }

  /** The keys that a task of `local` combines: their number, and the sum of their shares. */
  private def keysToCombine(
      keys: KeyStatistics, local: Local, growing: Boolean): (Double, Double) = {
    val shareForState = 2.0 * LocalIterator.RowsBeforeState / keys.taskRows
    val minShare = if (growing) shareForState.max(local.theta) else shareForState
    val (number, share) = keys.above(minShare)
    if (number > local.capacity) keys.above(1.0 / local.capacity) else (number, share)
  }
}

/**
 * The cluster that an aggregate runs on.
 *
 * @param workers n, the number of reduce tasks
 */
final case class Cluster(cores: Int, workers: Int) {

  /** The number of cores that work in this many tasks holds for each core that it keeps busy. */
  def coresHeld(tasks: Int): Double = math.max(1.0, cores.toDouble / math.max(1, tasks))
}
