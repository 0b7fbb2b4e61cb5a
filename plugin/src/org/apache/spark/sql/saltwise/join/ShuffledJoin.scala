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
  def apply(join: Join, conf: SQLConf): Boolean = {
    val hints = Seq(join.hint.leftHint, join.hint.rightHint).flatten.flatMap(_.strategy)
    val broadcastable = join.joinType match {
      case Inner => Seq(join.left -> join.hint.leftHint, join.right -> join.hint.rightHint)
      case RightOuter => Seq(join.left -> join.hint.leftHint)
      case _ => Seq(join.right -> join.hint.rightHint)
    }
    def isAsked(side: (LogicalPlan, Option[HintInfo])): Boolean =
      side._2.flatMap(_.strategy).contains(BROADCAST)
    def isSmall(side: (LogicalPlan, Option[HintInfo])): Boolean =
      !side._2.flatMap(_.strategy).contains(NO_BROADCAST_HASH) &&
        side._1.stats.sizeInBytes <= conf.autoBroadcastJoinThreshold
    val isShuffled =
      if (broadcastable.exists(isAsked)) false
      else if (hints.exists(Seq(SHUFFLE_MERGE, SHUFFLE_HASH).contains(_))) true
      else if (hints.contains(SHUFFLE_REPLICATE_NL)) false
      else !broadcastable.exists(isSmall)
    isShuffled && ExtractEquiJoinKeys.unapply(join).isDefined
  }
}
