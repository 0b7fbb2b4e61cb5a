package org.apache.spark.sql.saltwise

import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.exchange.{REPARTITION_BY_NUM, ShuffleExchangeExec, ShuffleOrigin}

/** Makes exchanges on every supported Spark: the constructor has one more parameter from 4.3 on. */
object ShuffleExchanges {

  /** An exchange with a number of partitions that AQE keeps. */
  def byNumber(partitioning: Partitioning, child: SparkPlan): ShuffleExchangeExec = {
    val constructor = classOf[ShuffleExchangeExec].getConstructors.maxBy(_.getParameterCount)
    val noAdvisorySize: Option[Long] = None
    val first = Seq[AnyRef](partitioning, child, REPARTITION_BY_NUM: ShuffleOrigin, noAdvisorySize)
    val notPipelined = Seq.fill(constructor.getParameterCount - first.length)(java.lang.Boolean.FALSE)
    constructor.newInstance(first ++ notPipelined: _*).asInstanceOf[ShuffleExchangeExec]
  }
}
