package org.apache.spark.sql.saltwise.placement

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression, Literal}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.saltwise._

/** A partition function as JSON, which may be a subquery, and its n. */
private[placement] final case class ChosenFunction(json: Expression, workers: Int)

/**
 * Chooses the partition function of groups: the one that the strategy names, or the one that the
 * user gives, or else largest first.
 */
private[placement] final class FunctionChoice(session: SparkSession, conf: SQLConf) {
  import FunctionChoice._

  def of(keys: Seq[Attribute], rows: LogicalPlan, groups: Groups): ChosenFunction = {
    val options = groups.options
    val keyType = PartitionFunctionJson.keyType(keys)
    def constant(function: PartitionFunction) =
      ChosenFunction(Literal(PartitionFunctionJson.write(function, keyType)), function.workers)
    def largestFirst = ChosenFunction(
      new LargestFirstSubquery(session, conf).of(keys, rows, options), options.workers)
    strategyOf(groups) match {
      case Hash => constant(UniformHash(options.workers))
      case Consistent => constant(ConsistentHash(options.workers, Replicas))
      case _: OffGreedy => largestFirst
      case Auto => givenFunction(keyType, groups).fold(largestFirst)(constant)
      case other => constant(givenFunction(keyType, groups).getOrElse(throw new SaltwiseException(
        s"strategy is '${other.name}', and there is no partition function for keys of type " +
          s"$keyType; give placement.function, or use df.skew_groupby in Python, which makes " +
          "one.")))
    }
  }

  private def strategyOf(groups: Groups): Strategy = groups.options.strategy match {
    case Auto => Auto
    case whole: WholeGroups => whole
    // The session's strategy is for groups of all kinds. If it splits groups, auto replaces it
    // here.
    case _ if !groups.hint.exists(_.contains("strategy")) => Auto
    case other =>
      throw new SaltwiseException(s"strategy is '${other.name}', and these groups may not be " +
        s"split; it must be one of ${(Auto.name +: Strategies.placement).mkString(", ")}.")
  }

  /**
   * The function in placement.function. One in the conf belongs to some of the session's groups,
   * and groups with keys of another type ignore it.
   */
  private def givenFunction(keyType: String, groups: Groups): Option[PartitionFunction] = {
    val n = groups.options.workers
    groups.options.placement.function.map(PartitionFunctionJson.read).flatMap {
      case SavedFunction(function, `keyType`) =>
        if (groups.options.workersGiven && n != function.workers) {
          throw new SaltwiseException(s"partitions is $n, and placement.function has " +
            s"${function.workers} workers; leave partitions out, or construct a function for $n " +
            "workers.")
        }
        Some(function)
      case SavedFunction(_, otherType) if groups.hint.exists(_.contains("placement.function")) =>
        throw new SaltwiseException(s"placement.function is for keys of type $otherType, and the " +
          s"keys here are of type $keyType; give one that was constructed for these keys.")
      case _ => None
    }
  }
}

private object FunctionChoice {
  private val Replicas = 1000
}
