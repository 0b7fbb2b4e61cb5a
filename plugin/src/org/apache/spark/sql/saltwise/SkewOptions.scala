package org.apache.spark.sql.saltwise

import java.util.Locale

import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.saltwise.routing.{HeadKey, KeyRouter}
import org.apache.spark.unsafe.types.UTF8String

/**
 * How an aggregate is rewritten.
 *
 * @param parameters   the parameters of the strategy
 * @param workersGiven whether the user gave n; otherwise n is Spark's default
 * @param hot          hot keys that are known before the query runs, as JSON
 * @param placement    how keys are placed
 */
final case class SkewOptions(
    strategy: Strategy,
    parameters: Parameters,
    workersGiven: Boolean,
    hot: Option[String],
    placement: PlacementOptions) {

  /** n */
  def workers: Int = parameters.workers

  /** A router for one source. `known` is the head that it starts with. */
  def router(source: Int, known: Seq[HeadKey] = Nil): KeyRouter = strategy match {
    case routing: Routing => routing.router(workers, source, known)
    case other => throw new IllegalStateException(s"strategy ${other.name} has no router")
  }

  /** Whether a row's worker depends on the rows before it. */
  def dependsOnOrder: Boolean = strategy match {
    case routing: Routing => hot.isEmpty && routing.dependsOnOrder
    case _ => false
  }

  /** The same options with `n` workers, as if the user had given no number and Spark chose it. */
  def withWorkersOfSpark(n: Int): SkewOptions =
    copy(parameters = parameters.copy(workers = n), workersGiven = false)

  /** Without adaptive execution nothing can decide a split, so dchoices replaces it. */
  def withoutAdaptiveExecution: SkewOptions =
    if (strategy == Split) copy(strategy = DChoices(parameters)) else this

  override def toString: String =
    s"${strategy.name}, n=$workers${strategy.described(hot.isDefined)}"
}

/**
 * How the keys of groups that may not be split are placed.
 *
 * @param function a partition function, as JSON
 * @param cost     what a key costs its worker: rows, bytes, rows^2 or a column
 */
final case class PlacementOptions(function: Option[String], cost: String)

object SkewOptions {

  /**
   * The options of one aggregate. An option comes from its hint, or else from the session, or else
   * is the default.
   *
   * @throws SaltwiseException with the option, its value, and the values that are allowed
   */
  def resolve(hint: Map[String, String], conf: SQLConf): SkewOptions = {
    val settings = SaltwiseConf.settings(conf) ++ hint
    val parameters = checkedParameters(settings, hint, conf.numShufflePartitions)
    SkewOptions(
      strategyFor(settings, hint, parameters),
      parameters,
      settings.contains("partitions"),
      settings.get("hot"),
      PlacementOptions(
        settings.get("placement.function"),
        settings.getOrElse("placement.cost", SaltwiseConf.PlacementCost.defaultValue.get)))
  }

  /** Hot keys of a hint need a strategy that routes rows. The default is then D-Choices. */
  private def strategyFor(
      settings: Map[String, String], hint: Map[String, String], parameters: Parameters): Strategy =
    Strategies(settings.getOrElse("strategy", Auto.name), parameters) match {
      case routing: Routing => routing
      case other if !hint.contains("hot") => other
      case other if other != Auto && hint.contains("strategy") =>
        throw new SaltwiseException(
          s"hot is given, and strategy '${other.name}' does not route rows; name one of " +
            s"${Strategies.routing.mkString(", ")}, or leave hot out.")
      case _ => DChoices(parameters)
    }

  /**
   * The numbers among the options. A number in the hint must fit this aggregate. A number in the
   * session is for all aggregates, so it is adjusted to the n and theta of this one.
   */
  private def checkedParameters(
      settings: Map[String, String],
      hint: Map[String, String],
      defaultWorkers: Int): Parameters = {
    def numberOf(name: String): Option[BigDecimal] = settings.get(name).map(number(name, _))

    val workers = numberOf("partitions").getOrElse(BigDecimal(defaultWorkers))
    require("partitions", workers, workers.isWhole && workers >= 1 && workers <= Int.MaxValue,
      "a whole number of at least 1")
    val n = workers.toInt
    val theta = numberOf("theta").getOrElse(BigDecimal(Parameters.defaultTheta(n)))
    require("theta", theta, theta > 0 && theta <= 1, "a share above 0 and at most 1")
    val epsilon = numberOf("epsilon").getOrElse(BigDecimal(SaltwiseConf.Epsilon.defaultValue.get))
    require("epsilon", epsilon, epsilon > 0 && epsilon < 1, "a share between 0 and 1")

    val choices = numberOf("choices")
    choices.foreach(checkChoices(_, n, inHint = hint.contains("choices")))
    val minCounters = math.ceil(1 / theta.toDouble)
    val counters = numberOf("sketch.capacity")
    counters.foreach(checkCounters(_, minCounters, inHint = hint.contains("sketch.capacity")))
    Parameters(n, theta.toDouble, epsilon.toDouble,
      choices.map(_.min(n).toInt), counters.map(_.max(minCounters).toInt))
  }

  private def checkChoices(choices: BigDecimal, n: Int, inHint: Boolean): Unit =
    if (inHint) {
      require("choices", choices, choices.isWhole && choices >= 2 && choices <= n,
        s"a whole number from 2 to the $n partitions")
    } else {
      require("choices", choices, choices.isWhole && choices >= 2 && choices <= Int.MaxValue,
        "a whole number of at least 2")
    }

  private def checkCounters(counters: BigDecimal, minCounters: Double, inHint: Boolean): Unit = {
    val lowest = if (inHint) minCounters else 1.0
    val shown = if (lowest > 1) s"1/theta = ${lowest.toLong}" else "1"
    require("sketch.capacity", counters,
      counters.isWhole && counters >= lowest && counters <= Parameters.MaxCapacity,
      s"a whole number from $shown to ${Parameters.MaxCapacity}")
  }

  /**
   * Reads the parameters of a hint: first the strategy, then 'option=value' strings. Both are
   * optional.
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
    val strategy = names.map("strategy" -> Strategies.checkedName(_, Strategies.names))
    val allowed = SaltwiseConf.options.keys.toSeq.sorted
    (strategy ++ options.map { option =>
      val (name, value) = option.span(_ != '=')
      if (!allowed.contains(name.trim)) throw unknown("option", name.trim, allowed)
      name.trim -> value.drop(1).trim
    }).toMap
  }

  /** "strategy is 'dchoise'; it must be one of auto, ...; did you mean 'dchoices'?" */
  def unknown(what: String, value: String, allowed: Seq[String]): SaltwiseException = {
    val typed = UTF8String.fromString(value.toLowerCase(Locale.ROOT))
    val nearest = allowed.minBy(UTF8String.fromString(_).levenshteinDistance(typed))
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
