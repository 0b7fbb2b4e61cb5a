package org.apache.spark.sql.saltwise.placement

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.saltwise.plan.ReportedPartitioning

/**
 * Partitions rows by a partition function of their key. All rows of a key are in one partition, so
 * this satisfies a clustering by these keys, and no exchange follows.
 *
 * Spark's exchange accepts only Spark's own partitionings, so this is a HashPartitioning whose
 * partition id is not Spark's hash. So a join must not match it with its other side, and
 * [[PlacementShuffleSpec]] prevents that.
 *
 * @param worker a [[PlaceKey]]
 */
final class PlacementPartitioning(keys: Seq[Expression], workers: Int, val worker: Expression)
  extends HashPartitioning(keys, workers) with ReportedPartitioning {

  override def sentBy: String = "placement"
  override def children: Seq[Expression] = keys :+ worker
  override def partitionIdExpression: Expression = worker

  override def satisfies0(required: Distribution): Boolean = required match {
    // The states that streaming keeps from batch to batch are partitioned by Spark's hash.
    case _: StatefulOpClusteredDistribution => false
    // A window asks for its float keys in the form in which Spark compares them. So does the hash
    // of the key, by which the function places it.
    case _ => super.satisfies0(required) ||
      HashPartitioning(keys.map(NormalizeFloatingNumbers.normalize), workers).satisfies(required)
  }

  override def createShuffleSpec(distribution: ClusteredDistribution): ShuffleSpec =
    PlacementShuffleSpec(workers)

  override protected def withNewChildrenInternal(
      children: IndexedSeq[Expression]): PlacementPartitioning =
    new PlacementPartitioning(children.init, workers, children.last)

  override def canEqual(other: Any): Boolean = other.isInstanceOf[PlacementPartitioning]
  override def equals(other: Any): Boolean = other match {
    case that: PlacementPartitioning =>
      that.numPartitions == workers && that.children == children
    case _ => false
  }
  override def hashCode(): Int = 31 * children.hashCode + workers
  override def toString: String = s"placement(${keys.mkString(", ")}, $workers)"
}

/** Matches no other side of a join, and Spark cannot make another side match it. */
final case class PlacementShuffleSpec(numPartitions: Int) extends ShuffleSpec {
  override def isCompatibleWith(other: ShuffleSpec): Boolean = false
  override def canCreatePartitioning: Boolean = false
}
