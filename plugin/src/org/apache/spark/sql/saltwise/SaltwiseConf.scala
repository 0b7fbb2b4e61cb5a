package org.apache.spark.sql.saltwise

import java.util.concurrent.TimeUnit

import org.apache.spark.internal.config.{ConfigEntry, OptionalConfigEntry}
import org.apache.spark.network.util.ByteUnit
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.internal.SQLConf.buildConf
import org.apache.spark.sql.saltwise.sketch.SpaceSaving

/** The confs of Saltwise. Every option of a hint has a conf of the same name, and the option wins. */
object SaltwiseConf {
  val Prefix = "spark.saltwise."

  val Enabled: ConfigEntry[Boolean] = buildConf(Prefix + "enabled")
    .doc("Rewrite the GROUP BYs of this session, as spark.saltwise.strategy says, without any change to " +
      "their code. DataFrames and queries that carry the skew_groupby hint are rewritten either way.")
    .version("0.1.0")
    .booleanConf
    .createWithDefault(false)

  val Strategy: ConfigEntry[String] = buildConf(Prefix + "strategy")
    .doc("How rows are sent to workers: " + Strategies.names.mkString(", ") + ". auto samples " +
      "the keys, predicts what each plan costs, and takes the cheapest.")
    .version("0.1.0")
    .stringConf
    .createWithDefault(Auto.name)

  val Partitions: OptionalConfigEntry[Int] = buildConf(Prefix + "partitions")
    .doc("n, the number of workers among which rows are balanced. Default: spark.sql.shuffle.partitions.")
    .version("0.1.0")
    .intConf
    .createOptional

  val Theta: OptionalConfigEntry[Double] = buildConf(Prefix + "theta")
    .doc("A key is hot (in the head) when its share of a source's rows is at least theta. Default: 1/(5n).")
    .version("0.1.0")
    .doubleConf
    .createOptional

  val Epsilon: ConfigEntry[Double] = buildConf(Prefix + "epsilon")
    .doc("The imbalance that dchoices may leave, as a share of all rows.")
    .version("0.1.0")
    .doubleConf
    .createWithDefault(1e-4)

  val Choices: OptionalConfigEntry[Int] = buildConf(Prefix + "choices")
    .doc("d, the number of workers that a hot key may use with dchoices. Default: solved from the data " +
      "(Proposition 4.1 of \"When Two Choices Are not Enough\").")
    .version("0.1.0")
    .intConf
    .createOptional

  val SketchCapacity: OptionalConfigEntry[Int] = buildConf(Prefix + "sketch.capacity")
    .doc("Counters of a SpaceSaving sketch, at least 1/theta. Default: 4/theta, 2048 for local, and 10000 for placement.")
    .version("0.1.0")
    .intConf
    .createOptional

  val SampleTimeout: ConfigEntry[Long] = buildConf(Prefix + "auto.sampleTimeout")
    .doc("How long auto may sample the scan that a key comes from, while it plans; 0 means not at all.")
    .version("0.1.0")
    .timeConf(TimeUnit.MILLISECONDS)
    .createWithDefaultString("2s")

  val SmallInput: ConfigEntry[Long] = buildConf(Prefix + "auto.smallInput")
    .doc("Inputs of at most so many bytes, as Spark estimates them, are left alone by auto: they are done before any " +
      "other plan could help.")
    .version("0.1.0")
    .bytesConf(ByteUnit.BYTE)
    .createWithDefaultString("1m")

  val LocalMemory: ConfigEntry[Long] = buildConf(Prefix + "local.memory")
    .doc("Rows, in bytes, that a map task of local may hold in states of hot keys before it sends these states.")
    .version("0.1.0")
    .bytesConf(ByteUnit.BYTE)
    .createWithDefaultString("32m")

  val Hot: OptionalConfigEntry[String] = buildConf(Prefix + "hot")
    .doc("Hot keys that are known beforehand, as JSON: [{\"key\": [\"UA\"], \"share\": 0.17}, ...]; share " +
      "may be left out. Routing then looks at nothing but row content.")
    .version("0.1.0")
    .stringConf
    .createOptional

  val PlacementEnabled: ConfigEntry[Boolean] = buildConf(Prefix + "placement.enabled")
    .doc("Place the keys of this session's groups that may not be split, without any change to code: applyInPandas and " +
      "applyInArrow, Python aggregates, and windows. Each key goes to one worker, chosen so that workers are even.")
    .version("0.1.0")
    .booleanConf
    .createWithDefault(false)

  val PlacementFunction: OptionalConfigEntry[String] = buildConf(Prefix + "placement.function")
    .doc("The partition function that places keys, as JSON. Default: largest first, from a sketch of the keys.")
    .version("0.1.0")
    .stringConf
    .createOptional

  val PlacementCost: ConfigEntry[String] = buildConf(Prefix + "placement.cost")
    .doc("What a key costs its worker: rows, bytes, rows^2, or the name of a column to add up.")
    .version("0.1.0")
    .stringConf
    .createWithDefault("rows")

  /** The entries that are options of the hint too, by option name. */
  val options: Map[String, ConfigEntry[_]] =
    Seq[ConfigEntry[_]](
      Strategy, Partitions, Theta, Epsilon, Choices, SketchCapacity, Hot, PlacementFunction, PlacementCost)
      .map(entry => entry.key.stripPrefix(Prefix) -> entry).toMap

  /** The session's value of every option that has one, as text. */
  def settings(conf: SQLConf): Map[String, String] = options.flatMap { case (name, entry) =>
    conf.getAllConfs.get(entry.key).map(name -> _)
  }
}
