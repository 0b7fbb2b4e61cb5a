package org.apache.spark.sql.saltwise.auto

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.aggregate._
import org.apache.spark.sql.saltwise.{Local, SkewOptions}
import org.apache.spark.sql.saltwise.local.{GrowingStates, LocalIterator}

/**
 * What the plans of an aggregate cost, in microseconds of a core for each row that it reads, a core counting as long as
 * the plan holds it, busy or not.
 *
 * All plans read the rows and update states from them, here or there. What differs is how many rows and how many
 * states travel, and how often Spark's operator has to bring rows together in groups: an object aggregate sorts what
 * comes after its first 128 keys, a sort aggregate sorts everything, and a hash aggregate looks each row up.
 *
 *           in the map tasks                                    in the n reduce tasks
 *   stock:  update + group + states * state / 2                 states * (state / 2 + group)
 *   split:  row / 2                                             row / 2 + update + group
 *   local:  combined * update + raw * (lookup + row / 2)        raw * (row / 2 + update + group)
 *             + states * state / 2                                + states * state / 2
 *
 * for each row, where a task of `taskRows` rows has `keysAmong(taskRows)` states, and `local` combines the keys that have
 * about twice the rows in a task which a key needs to get a state, and sends the others raw. A key that has a state is
 * found at once; `lookup` is what the sketch takes for one that has none.
 *
 * Work in fewer tasks than there are cores takes as long as its largest task does, so it counts cores / tasks times. A hot
 * key makes no task larger than the others in any of these plans: it is combined before it travels, or split. What is left
 * of it for one task, its few states, is the same in all of them.
 */
final case class PlanCosts(stock: Double, split: Double, local: Double) {
  override def toString: String = f"stock $stock%.2f, split $split%.2f, local $local%.2f microseconds a row"
}

object PlanCosts {
  /** What benchmarks/calibrate.py fitted on two cores; single cells are off by up to 52, 44, 31 and 45 %. */
  final case class Constants(update: Double, group: Double, row: Double, state: Double, lookup: Double)

  private val Growing = Constants(update = 0.26, group = 0.19, row = 0.17, state = 1.40, lookup = 0.24)
  private val Objects = Constants(update = 0.13, group = 0.16, row = 0.27, state = 0.88, lookup = 0.23)
  private val Sorted = Constants(update = 0.17, group = 0.11, row = 0.29, state = 0.77, lookup = 0.34)
  private val Imperative = Constants(update = 0.12, group = 0.01, row = 0.28, state = 2.03, lookup = 0.40)

  /** Keys that an object aggregate holds before it sorts: spark.sql.objectHashAggregate.sortBased.fallbackThreshold. */
  private val KeysWithoutSort = 128

  /** None where Spark generates code for both phases, which nothing beats once rows are combined where they are. */
  def constants(stock: SparkPlan): Option[Constants] = stock match {
    case node: ObjectHashAggregateExec => Some(if (grows(node)) Growing else Objects)
    case _: SortAggregateExec => Some(Sorted)
    case node: HashAggregateExec if !node.supportCodegen => Some(Imperative)
    case _ => None
  }

  private def grows(stock: SparkPlan): Boolean = stock match {
    case node: BaseAggregateExec => GrowingStates.among(node.aggregateExpressions.map(_.aggregateFunction))
    case _ => false
  }

  def apply(
      stock: SparkPlan, c: Constants, keys: KeyStatistics, options: SkewOptions, cluster: Cluster): PlanCosts = {
    val rows = keys.taskRows
    val states = math.min(1.0, keys.keysAmong(rows) / rows)
    val fewKeys = stock.isInstanceOf[ObjectHashAggregateExec] && keys.keysAmong(rows) <= KeysWithoutSort
    val group = if (fewKeys) 0.0 else c.group
    val share = 2.0 * LocalIterator.RowsBeforeState / rows
    val local = Local(options.parameters)
    val (combinedKeys, combined) = keys.above(if (grows(stock)) share.max(local.theta) else share) match {
      case (many, _) if many > local.capacity => keys.above(1.0 / local.capacity)
      case few => few
    }
    val (raw, sent) = (1 - combined, math.min(1.0, combinedKeys / rows))
    def cost(map: Double, reduce: Double) =
      map * cluster.waiting(keys.tasks) + reduce * cluster.waiting(cluster.workers)
    PlanCosts(
      stock = cost(c.update + group + states * c.state / 2, states * (c.state / 2 + group)),
      split = cost(c.row / 2, c.row / 2 + c.update + group),
      local = cost(
        combined * c.update + raw * (c.lookup + c.row / 2) + sent * c.state / 2,
        raw * (c.row / 2 + c.update + group) + sent * c.state / 2))
  }
}

/**
 * What an aggregate runs on.
 *
 * @param workers n, its reduce tasks
 */
final case class Cluster(cores: Int, workers: Int) {

  /** How many cores work in so many tasks holds, for each that it keeps busy. */
  def waiting(tasks: Int): Double = math.max(1.0, cores.toDouble / math.max(1, tasks))
}
