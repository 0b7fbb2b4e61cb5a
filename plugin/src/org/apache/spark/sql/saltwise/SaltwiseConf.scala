package org.apache.spark.sql.saltwise

import java.util.Locale

import org.apache.spark.internal.config.{ConfigEntry, OptionalConfigEntry}
import org.apache.spark.network.util.ByteUnit
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.internal.SQLConf.buildConf

/** The confs of Saltwise. Every option of a hint has a conf of the same name; the option wins. */
object SaltwiseConf {
  val Prefix = "spark.saltwise."

  val Enabled: ConfigEntry[Boolean] = buildConf(Prefix + "enabled")
    .doc("Rewrite all GROUP BYs of this session with spark.saltwise.strategy. Their code does " +
      "not change. DataFrames and queries with the skew_groupby hint are rewritten in any case.")
    .version("0.1.0")
    .booleanConf
    .createWithDefault(false)

  val Off = "off"
  val Observe = "observe"
  val On = "on"

  val Mode: OptionalConfigEntry[String] = buildConf(Prefix + "mode")
    .doc("off: only queries that ask for it are rewritten. observe: every plan stays as it is, " +
      "and the UI and the event log show what was skewed and what would have run. on: the same " +
      "as spark.saltwise.enabled. Default: on if spark.saltwise.enabled is true, else off.")
    .version("0.1.0")
    .stringConf
    .transform(_.toLowerCase(Locale.ROOT))
    .checkValues(Set(Off, Observe, On))
    .createOptional

  val Ui: ConfigEntry[Boolean] = buildConf(Prefix + "ui.enabled")
    .doc("Report each GROUP BY in the tab Saltwise of Spark's UI, and in the event log. Saltwise " +
      "reads this conf when it plans the first query of an application.")
    .version("0.1.0")
    .booleanConf
    .createWithDefault(true)

  val ReportKeys: ConfigEntry[Boolean] = buildConf(Prefix + "report.keys")
    .doc("Show the values of hot keys in the tab Saltwise, in its events in the event log, and " +
      "in the progress of streams. Otherwise their hashes are shown. A hash does not hide a key " +
      "that can be guessed.")
    .version("0.1.0")
    .booleanConf
    .createWithDefault(false)

  val Strategy: ConfigEntry[String] = buildConf(Prefix + "strategy")
    .doc("How rows are sent to workers: " + Strategies.names.mkString(", ") + ". auto combines " +
      "rows in the map tasks where that pays, and reads what is still oversize in slices.")
    .version("0.1.0")
    .stringConf
    .createWithDefault(Auto.name)

  val Partitions: OptionalConfigEntry[Int] = buildConf(Prefix + "partitions")
    .doc("n, the number of workers that share the rows. Default: spark.sql.shuffle.partitions.")
    .version("0.1.0")
    .intConf
    .createOptional

  val Theta: OptionalConfigEntry[Double] = buildConf(Prefix + "theta")
    .doc("A key is hot (in the head) when its share of a source's rows is at least theta. " +
      "Default: 1/(5n).")
    .version("0.1.0")
    .doubleConf
    .createOptional

  val Epsilon: ConfigEntry[Double] = buildConf(Prefix + "epsilon")
    .doc("The imbalance that dchoices may leave, as a share of all rows.")
    .version("0.1.0")
    .doubleConf
    .createWithDefault(1e-4)

  val Choices: OptionalConfigEntry[Int] = buildConf(Prefix + "choices")
    .doc("d, the number of workers that a hot key may use with dchoices. Default: solved from " +
      "the data (Proposition 4.1 of \"When Two Choices Are not Enough\").")
    .version("0.1.0")
    .intConf
    .createOptional

  val SketchCapacity: OptionalConfigEntry[Int] = buildConf(Prefix + "sketch.capacity")
    .doc("The number of counters in a SpaceSaving sketch, at least 1/theta. Default: 4/theta, " +
      "and for placement 10000, or 10/delta if that is more.")
    .version("0.1.0")
    .intConf
    .createOptional

  val SmallInput: ConfigEntry[Long] = buildConf(Prefix + "auto.smallInput")
    .doc("auto leaves an input alone if Spark estimates it at no more than this many bytes. Such " +
      "an input is done before another plan could help. Below a generator or a function of Scala " +
      "or Python, an estimate tells nothing.")
    .version("0.1.0")
    .bytesConf(ByteUnit.BYTE)
    .createWithDefaultString("1m")

  val LocalMemory: ConfigEntry[Long] = buildConf(Prefix + "local.memory")
    .doc("The most bytes of waiting rows and states in a map task of local or auto. A task sends " +
      "them on when it has more.")
    .version("0.1.0")
    .bytesConf(ByteUnit.BYTE)
    .createWithDefaultString("256m")

  val JoinCombine: ConfigEntry[Boolean] = buildConf(Prefix + "join.combine")
    .doc("With auto, rows are also combined below a join, where all arguments of the aggregate " +
      "above it come from one side. The join then reads states in place of a hot key's rows.")
    .version("0.1.0")
    .booleanConf
    .createWithDefault(true)

  val JoinSplit: ConfigEntry[Boolean] = buildConf(Prefix + "join.split")
    .doc("With auto, Spark may split the skewed partitions of a join below an aggregate by its " +
      "keys. Only the states of what was split are shuffled once more.")
    .version("0.1.0")
    .booleanConf
    .createWithDefault(true)

  val WindowSlices: ConfigEntry[Boolean] = buildConf(Prefix + "window.slices")
    .doc("A window without PARTITION BY, and the hot keys of one with PARTITION BY, run in " +
      "slices of the order, and not in one task, if the functions can go on where the slice " +
      "before ended.")
    .version("0.1.0")
    .booleanConf
    .createWithDefault(true)

  val WindowFloats: ConfigEntry[Boolean] = buildConf(Prefix + "window.floats")
    .doc("Windows with sums and averages of floating-point numbers run in slices, too. Numbers " +
      "are added in another order then, so the last bits may differ.")
    .version("0.1.0")
    .booleanConf
    .createWithDefault(false)

  val Hot: OptionalConfigEntry[String] = buildConf(Prefix + "hot")
    .doc("Hot keys that are known before the query runs, as JSON: " +
      "[{\"key\": [\"UA\"], \"share\": 0.17}, ...]. share is optional. Routing then depends only " +
      "on the content of each row.")
    .version("0.1.0")
    .stringConf
    .createOptional

  val PlacementEnabled: ConfigEntry[Boolean] = buildConf(Prefix + "placement.enabled")
    .doc("Place the keys of this session's groups that may not be split: applyInPandas, " +
      "applyInArrow, Python aggregates, and windows. Their code does not change. Each key goes " +
      "to one worker, chosen so that all workers get about the same load.")
    .version("0.1.0")
    .booleanConf
    .createWithDefault(false)

  val PlacementFunction: OptionalConfigEntry[String] = buildConf(Prefix + "placement.function")
    .doc("The partition function that places keys, as JSON. Default: largest first, from a " +
      "sketch of the keys.")
    .version("0.1.0")
    .stringConf
    .createOptional

  val PlacementCost: ConfigEntry[String] = buildConf(Prefix + "placement.cost")
    .doc("What a key costs its worker: rows, bytes, rows^2, or the name of a column to add up.")
    .version("0.1.0")
    .stringConf
    .createWithDefault("rows")

  val StatePlanner: OptionalConfigEntry[String] = buildConf(Prefix + "state.planner")
    .doc("The planner that moves the state partitions of this application's streams to executors " +
      "with less load: flux, milp, albic, cola, elb, clb or uhlb. It runs in a Python process " +
      "beside the driver, and saltwise must be installed there.")
    .version("0.1.0")
    .stringConf
    .createOptional

  val StateMaxMigration: ConfigEntry[String] = buildConf(Prefix + "state.maxMigration")
    .doc("The most bytes of state that move in one round.")
    .version("0.1.0")
    .stringConf
    .createWithDefault("256m")

  val StateEvery: ConfigEntry[Int] = buildConf(Prefix + "state.every")
    .doc("The number of batches between two rounds of moves.")
    .version("0.1.0")
    .intConf
    .createWithDefault(5)

  /** What the Python package sets while it measures a query. It is no conf for users. */
  val Measured: String = Prefix + "measured"

  /** The entries that are also options of the hint, by option name. */
  val options: Map[String, ConfigEntry[_]] =
    Seq[ConfigEntry[_]](
      Strategy, Partitions, Theta, Epsilon, Choices, SketchCapacity, Hot, PlacementFunction,
      PlacementCost).map(entry => entry.key.stripPrefix(Prefix) -> entry).toMap

  /** off, observe or on, from the texts of the confs. */
  def mode(conf: String => Option[String]): String = conf(Mode.key).map(
    _.trim.toLowerCase(Locale.ROOT)).getOrElse(
    if (conf(Enabled.key).exists(_.trim.equalsIgnoreCase("true"))) On else Off)

  def mode(conf: SQLConf): String = conf.getConf(Mode).getOrElse(
    if (conf.getConf(Enabled)) On else Off)

  /** Whether GROUP BYs without a hint are rewritten. */
  def isOn(conf: SQLConf): Boolean = mode(conf) == On

  def observes(conf: SQLConf): Boolean = mode(conf) == Observe

  /** The options that the session sets, as text. */
  def settings(conf: SQLConf): Map[String, String] = {
    val confs = conf.getAllConfs
    options.flatMap { case (name, entry) => confs.get(entry.key).map(name -> _) }
  }
}
