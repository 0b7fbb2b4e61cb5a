package org.apache.spark.sql.saltwise.compat

import org.apache.spark.sql.internal.SQLConf

/**
 * Engines that run Spark's plans outside of the JVM. If an operator of the JVM stood between their
 * operators, all rows would be converted twice.
 */
object NativeEngine {

  /** Names, classes among `spark.plugins`, and the confs that switch them off. */
  private val engines = Seq(
    ("Gluten", "GlutenPlugin", "spark.gluten.enabled"),
    ("Comet", "CometPlugin", "spark.comet.enabled"),
    ("RAPIDS", "com.nvidia.spark.SQLPlugin", "spark.rapids.sql.enabled"))

  /** The name of the engine that runs this session's plans. */
  def running(conf: SQLConf): Option[String] = {
    val plugins = conf.getConfString("spark.plugins", "")
    val photon = conf.getConfString("spark.databricks.photon.enabled", "false").toBoolean
    if (photon) Some("Photon") else engines.collectFirst {
      case (name, plugin, enabled)
          if plugins.contains(plugin) && conf.getConfString(enabled, "true").toBoolean => name
    }
  }
}
