package org.apache.spark.sql.saltwise.join

import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.internal.SQLConf

/**
 * Whether Spark sends the rows of both sides of a join by its keys, as far as it is known. As in
 * Spark's own choice, a hint to broadcast comes first, then other hints of either side, then sizes.
 */
private[join] object ShuffledJoin {
  def apply(join: Join, conf: SQLConf): Boolean =
    ExtractEquiJoinKeys.unapply(join).isDefined && broadcastSide(join, conf).isEmpty &&
      !isReplicated(join)

  /** The side that Spark sends to all tasks. */
  def broadcastSide(join: Join, conf: SQLConf): Option[LogicalPlan] = {
    val left = join.left -> join.hint.leftHint.flatMap(_.strategy)
    val right = join.right -> join.hint.rightHint.flatMap(_.strategy)
    val possible = join.joinType match {
      case Inner => Seq(left, right)
      case RightOuter => Seq(left)
      case _ => Seq(right)
    }
    val asked = possible.filter { case (_, hint) => hint.contains(BROADCAST) }
    val chosen =
      if (asked.nonEmpty) asked
      else if (isAskedToShuffle(join) || isReplicated(join)) Nil
      else possible.filter { case (side, hint) =>
        val isSmall = side.stats.sizeInBytes <= conf.autoBroadcastJoinThreshold
        isSmall && !hint.contains(NO_BROADCAST_HASH)
      }
    chosen.map(_._1).sortBy(_.stats.sizeInBytes).headOption
  }

  private def isAskedToShuffle(join: Join): Boolean =
    strategies(join).exists(Seq(SHUFFLE_MERGE, SHUFFLE_HASH).contains(_))

  private def isReplicated(join: Join): Boolean =
    !isAskedToShuffle(join) && strategies(join).contains(SHUFFLE_REPLICATE_NL)

  private def strategies(join: Join): Seq[JoinStrategyHint] =
    Seq(join.hint.leftHint, join.hint.rightHint).flatten.flatMap(_.strategy)
}
