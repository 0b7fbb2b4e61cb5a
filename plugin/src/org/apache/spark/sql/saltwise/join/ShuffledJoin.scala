package org.apache.spark.sql.saltwise.join

import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.internal.SQLConf

/** Whether Spark sends the rows of both sides of a join by its keys, as far as it is known. */
private[join] object ShuffledJoin {
  def apply(join: Join, conf: SQLConf): Boolean = {
    def isBroadcast(side: LogicalPlan, hint: Option[HintInfo]): Boolean =
      hint.flatMap(_.strategy) match {
        case Some(strategy) => strategy == BROADCAST
        case None => side.stats.sizeInBytes <= conf.autoBroadcastJoinThreshold
      }
    val right = join.joinType match {
      case RightOuter => false
      case _ => isBroadcast(join.right, join.hint.rightHint)
    }
    val left = join.joinType match {
      case Inner | RightOuter => isBroadcast(join.left, join.hint.leftHint)
      case _ => false
    }
    !left && !right && ExtractEquiJoinKeys.unapply(join).isDefined
  }
}
