package org.apache.spark.sql.saltwise.compat

import org.apache.spark.sql.internal.SQLConf

/**
 * Engines that run Spark's plans outside of the JVM. An operator of the JVM between theirs would
 * add two conversions of all rows.
 */
object NativeEngine {

  /** A name, a class among `spark.plugins`, and the conf that switches it off. */
  private final case class Engine(name: String, plugin: String, enabled: String)

  private val engines = Seq(
    Engine("Gluten", "GlutenPlugin", "spark.gluten.enabled"),
    Engine("Comet", "CometPlugin", "spark.comet.enabled"),
    Engine("RAPIDS", "com.nvidia.spark.SQLPlugin", "spark.rapids.sql.enabled"))

  /** The name of the engine that runs this session's plans. */
  def running(conf: SQLConf): Option[String] = {
    val plugins = conf.getConfString("spark.plugins", "")
    val photon = conf.getConfString("spark.databricks.photon.enabled", "false").toBoolean
    if (photon) Some("Photon") else engines.collectFirst {
      case engine if plugins.contains(engine.plugin) &&
          conf.getConfString(engine.enabled, "true").toBoolean => engine.name
    }
  }
}
