package org.apache.spark.sql.saltwise

import java.util.concurrent.ConcurrentHashMap

import org.apache.commons.text.similarity.LevenshteinDistance
import org.apache.spark.sql.internal.SQLConf

/**
 * Confs that begin as those of Saltwise and are none of them. Spark takes any name, so somebody who
 * mistypes one waits for an effect that never comes. The log says it once for each name.
 */
object UnknownConfs {
  private val told = ConcurrentHashMap.newKeySet[String]()

  private lazy val known: Seq[String] = SQLConf.get.getAllDefinedConfs.map(_._1)
    .filter(_.startsWith(SaltwiseConf.Prefix)) :+ SaltwiseConf.Measured

  def warn(conf: SQLConf): Unit = conf.getAllConfs.keysIterator
    .filter(name => name.startsWith(SaltwiseConf.Prefix) && !known.contains(name))
    .filter(told.add)
    .foreach(name => org.slf4j.LoggerFactory.getLogger(getClass).warn(
      s"$name is no conf of Saltwise, and has no effect; did you mean ${nearest(name)}?"))

  private def nearest(name: String): String =
    known.minBy(other => LevenshteinDistance.getDefaultInstance.apply(name, other).intValue)
}
