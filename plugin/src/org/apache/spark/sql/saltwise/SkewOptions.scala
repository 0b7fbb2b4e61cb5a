package org.apache.spark.sql.saltwise

import java.util.Locale

import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.saltwise.routing.{DChoicesRouter, HashRouter, HeadKey, KeyRouter, PartialKeyRouter, RoundRobinRouter, ShuffleRouter, WChoicesRouter}
import org.apache.spark.unsafe.types.UTF8String

/** The names of the strategies. */
object SkewStrategy {
  val Auto = "auto"
  val Split = "split"
  val Local = "local"
  val Hash = "hash"
  val Shuffle = "shuffle"
  val PartialKey = "pkg"
  val DChoices = "dchoices"
  val WChoices = "wchoices"
  val RoundRobin = "roundrobin"
  val Consistent = "consistent"
  val OffGreedy = "offgreedy"
  val Scan = "scan"
  val Redist = "redist"
  val ReadJ = "readj"

  /** What `skew_worker` takes. */
  val routing: Seq[String] = Seq(Hash, Shuffle, PartialKey, DChoices, WChoices, RoundRobin)

  /** What leaves every group whole. */
  val placement: Seq[String] = Seq(Hash, Consistent, OffGreedy, Scan, Redist, ReadJ)

  /** What a hint and the conf take. */
  val names: Seq[String] = (Auto +: Split +: Local +: routing) ++ placement.diff(routing)

  /** The strategy of this name, whatever its case. */
  def named(name: String, allowed: Seq[String]): String = {
    val wanted = name.toLowerCase(Locale.ROOT)
    if (allowed.contains(wanted)) wanted else throw SkewOptions.unknown("strategy", name, allowed)
  }
}

/**
 * What a rewritten aggregate is to do: the strategy, and the papers' parameters, all checked.
 *
 * @param workers  n
 * @param workersGiven whether n was asked for, and is not only Spark's default
 * @param theta    share of rows from which a key is in the head
 * @param epsilon  imbalance that D-Choices may leave, as a share of all rows
 * @param choices  d, where it is given and not solved
 * @param capacity counters of each source's sketch
 * @param localCapacity the same, for the strategy local
 * @param placementCapacity the same, to find the keys that are placed by hand
 * @param hot      hot keys that are known beforehand, as JSON
 * @param function a partition function, as JSON
 * @param cost     what a key costs its worker, where it is placed: rows, bytes, rows^2 or a column
 * @param why      what made auto choose the strategy
 */
final case class SkewOptions(
    strategy: String,
    workers: Int,
    workersGiven: Boolean,
    theta: Double,
    epsilon: Double,
    choices: Option[Int],
    capacity: Int,
    localCapacity: Int,
    placementCapacity: Int,
    hot: Option[String],
    function: Option[String],
    cost: String,
    why: Option[String] = None) {

  /** A router of one source for every strategy but auto; `split` shuffles by key. A head it begins with is `known`. */
  def router(source: Int, known: Seq[HeadKey] = Nil): KeyRouter = strategy match {
    case SkewStrategy.Hash | SkewStrategy.Split => new HashRouter(workers)
    case SkewStrategy.Shuffle => new ShuffleRouter(workers, source)
    case SkewStrategy.PartialKey => new PartialKeyRouter(workers, source)
    case _ =>
      val router = strategy match {
        case SkewStrategy.DChoices => new DChoicesRouter(workers, source, theta, epsilon, choices, capacity)
        case SkewStrategy.WChoices => new WChoicesRouter(workers, source, theta, capacity)
        case SkewStrategy.RoundRobin => new RoundRobinRouter(workers, source, theta, capacity)
        case other => throw new IllegalStateException(s"$other routes nothing")
      }
      if (known.nonEmpty) router.remember(known)
      router
  }

  /** Whether a row's worker depends on the rows before it. */
  def dependsOnOrder: Boolean = hot.isEmpty && !Seq(SkewStrategy.Hash, SkewStrategy.Split, SkewStrategy.Local).contains(strategy)

  override def toString: String = {
    val head = strategy match {
      case SkewStrategy.Split | SkewStrategy.Hash | SkewStrategy.Shuffle | SkewStrategy.PartialKey => ""
      case SkewStrategy.Local => s", capacity=$localCapacity"
      case _ if hot.isDefined => ", hot keys given"
      case _ => s", theta=$theta, capacity=$capacity"
    }
    val d = if (strategy != SkewStrategy.DChoices) "" else choices match {
      case Some(number) => s", choices=$number"
      case None => s", epsilon=$epsilon"
    }
    s"$strategy, n=$workers$head$d${why.map("; " + _).getOrElse("")}"
  }
}

object SkewOptions {

  /** Counters for each 1 / theta: see the bound in [[SpaceSaving]]. */
  private val CountersPerHeadKey = 4

  /** What `local` may combine at a time: also keys that are far too rare to fill a worker. */
  private val LocalCapacity = 2048

  /** Keys that are placed by hand, at most. */
  private val PlacementCapacity = 10000

  private val MaxCapacity = 1 << 24

  /**
   * The options of one aggregate: those of its hint, then those of the session, then the defaults.
   *
   * @throws SaltwiseException naming the option, the value, and what is allowed
   */
  def resolve(hint: Map[String, String], conf: SQLConf): SkewOptions = {
    val settings = SaltwiseConf.settings(conf) ++ hint
    val workers = settings.get("partitions").map(number("partitions", _))
      .getOrElse(BigDecimal(conf.numShufflePartitions))
    require("partitions", workers, workers.isWhole && workers >= 1 && workers <= Int.MaxValue,
      "a whole number of at least 1")
    val n = workers.toInt
    val theta = settings.get("theta").map(number("theta", _)).getOrElse(BigDecimal(1.0 / (5.0 * n)))
    require("theta", theta, theta > 0 && theta <= 1, "a share above 0 and at most 1")
    val epsilon = settings.get("epsilon").map(number("epsilon", _))
      .getOrElse(BigDecimal(SaltwiseConf.Epsilon.defaultValue.get))
    require("epsilon", epsilon, epsilon > 0 && epsilon < 1, "a share between 0 and 1")
    // What the session says of all aggregates is fitted to the partitions and to theta of this one.
    val mostChoices = if (hint.contains("choices")) s"to the $n partitions" else "on"
    val choices = settings.get("choices").map(number("choices", _))
    choices.foreach(d => require("choices", d, d.isWhole && d >= 2 && (d <= n || !hint.contains("choices")),
      s"a whole number from 2 $mostChoices"))
    val needed = math.ceil(1 / theta.toDouble)
    val least = if (hint.contains("sketch.capacity")) needed else 1.0
    val capacity = settings.get("sketch.capacity").map(number("sketch.capacity", _))
    capacity.foreach(c => require("sketch.capacity", c, c.isWhole && c >= least && c <= MaxCapacity,
      s"a whole number from ${if (least > 1) "1/theta = " else ""}${least.toLong} to $MaxCapacity"))
    SkewOptions(
      SkewStrategy.named(settings.getOrElse("strategy", SkewStrategy.Auto), SkewStrategy.names),
      n, settings.contains("partitions"), theta.toDouble, epsilon.toDouble, choices.map(_.min(n).toInt),
      capacity.map(_.max(needed).toInt).getOrElse(
        defaultCapacity(theta.toDouble)),
      capacity.map(_.max(needed).toInt).getOrElse(LocalCapacity),
      capacity.map(_.max(needed).toInt).getOrElse(PlacementCapacity),
      settings.get("hot"),
      settings.get("placement.function"),
      settings.getOrElse("placement.cost", SaltwiseConf.PlacementCost.defaultValue.get))
  }

  def defaultCapacity(theta: Double): Int =
    math.min(MaxCapacity.toDouble, math.ceil(CountersPerHeadKey / theta)).toInt

  /**
   * Reads what stands in a hint: first the strategy, then 'option=value' strings; both may be left out.
   *
   * @throws SaltwiseException for an option or a strategy that does not exist
   */
  def parse(parameters: Seq[String]): Map[String, String] = {
    val (options, names) = parameters.partition(_.contains("="))
    if (names.length > 1 || (names.nonEmpty && parameters.head != names.head)) {
      throw new SaltwiseException(
        s"SKEW_GROUPBY got (${parameters.mkString(", ")}); it takes a strategy first and then " +
          "'option=value' strings, such as SKEW_GROUPBY(dchoices, 'partitions=200').")
    }
    val strategy = names.map(name => "strategy" -> SkewStrategy.named(name, SkewStrategy.names))
    val allowed = SaltwiseConf.options.keys.toSeq.sorted
    (strategy ++ options.map { option =>
      val (name, value) = option.span(_ != '=')
      if (!allowed.contains(name.trim)) throw unknown("option", name.trim, allowed)
      name.trim -> value.drop(1).trim
    }).toMap
  }

  /** "strategy is 'dchoise'; it must be one of auto, ...; did you mean 'dchoices'?" */
  def unknown(what: String, value: String, allowed: Seq[String]): SaltwiseException = {
    val nearest = allowed.minBy { name =>
      UTF8String.fromString(name).levenshteinDistance(UTF8String.fromString(value.toLowerCase(Locale.ROOT)))
    }
    new SaltwiseException(
      s"$what is '$value'; it must be one of ${allowed.mkString(", ")}; did you mean '$nearest'?")
  }

  private def number(name: String, text: String): BigDecimal =
    try BigDecimal(text.trim) catch {
      case _: NumberFormatException =>
        throw new SaltwiseException(s"$name is '$text'; it must be a number.")
    }

  private def require(name: String, value: BigDecimal, ok: Boolean, allowed: String): Unit =
    if (!ok) throw new SaltwiseException(s"$name is $value; it must be $allowed.")
}
