package org.apache.spark.sql.saltwise.state

import java.util.UUID

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.state.{StateStoreId, StateStoreProviderId}

/**
 * An operator of a stream that keeps state, in one batch.
 *
 * @param root    the folder of all states of the query
 * @param run     the run of the query
 * @param metrics by the id of its accumulator: the name of each metric
 */
final case class StateOperator(
    id: Long, root: String, run: UUID, partitions: Int, metrics: Map[Long, String]) {

  /** The stores that partition `partition` of the operator may have. A join has several. */
  def stores(partition: Int): Seq[StateStoreProviderId] = StateOperator.Stores.map { name =>
    StateStoreProviderId(StateStoreId(root, id, partition, name), run)
  }
}

object StateOperator {

  /** The operator's metrics of the rows and the bytes of its states. */
  val Rows = "numTotalStateRows"
  val Memory = "stateMemory"

  /** The metric of the bytes in the files of a RocksDB store. */
  val Files = "rocksdbSstFileSize"

  /** The names by which tasks report these metrics. */
  val Shown = Set(
    "number of total state rows", "memory used by state", "RocksDB: size of all SST files")

  private val Stores = Seq(
    StateStoreId.DEFAULT_STORE_NAME,
    "left-keyToNumValues", "left-keyWithIndexToValue",
    "right-keyToNumValues", "right-keyWithIndexToValue")

  /** The operators of a plan that has run. */
  def of(plan: SparkPlan): Seq[StateOperator] = plan.collect {
    case node if node.metrics.contains(Rows) => operator(node)
  }

  /** By reflection, because these operators and their state info have other packages since 4.1. */
  private def operator(node: SparkPlan): StateOperator = {
    val info = node.getClass.getMethod("getStateInfo").invoke(node).asInstanceOf[Product]
    val Seq(root: String, run: UUID, id: Long, _, partitions: Int) =
      info.productIterator.take(5).toSeq
    val metrics = node.metrics.collect {
      case (name, metric) if Seq(Rows, Memory, Files).contains(name) => metric.id -> name
    }
    StateOperator(id, root, run, partitions, metrics)
  }
}
