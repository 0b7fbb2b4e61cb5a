package org.apache.spark.sql.saltwise

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.aggregate._

/**
 * What the plans of an aggregate cost, in microseconds of a core for each row that it reads, a core counting as long as
 * the plan holds it, busy or not.
 *
 * All plans read the rows and update states from them, here or there. What differs is how many rows and how many
 * states travel, and how often Spark's operator has to sort: an object aggregate sorts what comes after its first 128
 * keys, a sort aggregate everything.
 *
 *           in the map tasks                                    in the n reduce tasks
 *   stock:  update + sort + states * state / 2                  states * (state / 2 + sort)
 *   split:  row / 2                                             row / 2 + update + sort
 *   local:  lookup + combined * update + raw * row / 2          raw * (row / 2 + update + sort)
 *             + states * state / 2                                + states * state / 2
 *
 * for each row, where a task of `taskRows` rows has `keysAmong(taskRows)` states, and `local` combines the keys that have
 * about twice the rows in a task which a key needs to get a state, and sends the others raw.
 *
 * Work in fewer tasks than there are cores takes as long as its largest task does, so it counts cores / tasks times. A hot
 * key makes no task larger than the others in any of these plans: it is combined before it travels, or split. What is left
 * of it for one task, its few states, is the same in all of them.
 */
final case class PlanCosts(stock: Double, split: Double, local: Double) {
  override def toString: String = f"stock $stock%.2f, split $split%.2f, local $local%.2f microseconds a row"
}

object PlanCosts {
  /** What benchmarks/calibrate.py fitted on two cores; single cells of it are off by up to 77 %, 60 % and 49 %. */
  final case class Constants(update: Double, sort: Double, row: Double, state: Double, lookup: Double)

  private val Objects = Constants(update = 0.53, sort = 0.37, row = 0.34, state = 1.12, lookup = 0.12)
  private val Sorted = Constants(update = 0.00, sort = 0.34, row = 0.31, state = 0.64, lookup = 0.33)
  private val Imperative = Constants(update = 0.30, sort = 0.00, row = 0.47, state = 1.96, lookup = 0.03)

  /** Keys that an object aggregate holds before it sorts: spark.sql.objectHashAggregate.sortBased.fallbackThreshold. */
  private val KeysWithoutSort = 128

  /** None where Spark generates code for both phases, which nothing beats once rows are combined where they are. */
  def constants(stock: SparkPlan): Option[Constants] = stock match {
    case _: ObjectHashAggregateExec => Some(Objects)
    case _: SortAggregateExec => Some(Sorted)
    case node: HashAggregateExec if !node.supportCodegen => Some(Imperative)
    case _ => None
  }

  def apply(
      stock: SparkPlan, c: Constants, keys: KeyStatistics, capacity: Int, cluster: Cluster): PlanCosts = {
    val rows = keys.taskRows
    val states = math.min(1.0, keys.keysAmong(rows) / rows)
    val sorts = stock match {
      case _: ObjectHashAggregateExec => keys.keysAmong(rows) > KeysWithoutSort
      case _ => c.sort > 0
    }
    val (combinedKeys, combined) = keys.above(2.0 * LocalIterator.RowsBeforeState / rows) match {
      case (many, _) if many > capacity => keys.above(1.0 / capacity)
      case few => few
    }
    val sort = if (sorts) c.sort else 0.0
    val (raw, sent) = (1 - combined, math.min(1.0, combinedKeys / rows))
    def cost(map: Double, reduce: Double) =
      map * cluster.waiting(keys.tasks) + reduce * cluster.waiting(cluster.workers)
    PlanCosts(
      stock = cost(c.update + sort + states * c.state / 2, states * (c.state / 2 + sort)),
      split = cost(c.row / 2, c.row / 2 + c.update + sort),
      local = cost(
        c.lookup + combined * c.update + raw * c.row / 2 + sent * c.state / 2,
        raw * (c.row / 2 + c.update + sort) + sent * c.state / 2))
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
