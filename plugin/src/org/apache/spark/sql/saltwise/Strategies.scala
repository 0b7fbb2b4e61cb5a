package org.apache.spark.sql.saltwise

import java.util.Locale

import org.apache.spark.sql.saltwise.routing._

/**
 * The parameters of a strategy. All values are checked.
 *
 * @param workers  n
 * @param theta    a key with at least this share of the rows is in the head
 * @param epsilon  the imbalance that D-Choices may leave, as a share of all rows
 * @param choices  d, if the user gave it; otherwise D-Choices solves it
 * @param counters the number of counters of a sketch, if the user gave it
 */
final case class Parameters(
    workers: Int,
    theta: Double,
    epsilon: Double,
    choices: Option[Int],
    counters: Option[Int]) {

  /** The number of counters in a source's sketch. [[sketch.SpaceSaving]] has the error bound. */
  def capacity: Int = counters.getOrElse(Parameters.defaultCapacity(theta))
}

object Parameters {

  /** The default capacity is this many times 1 / theta. */
  private val CountersPerHeadKey = 4

  val MaxCapacity: Int = 1 << 24

  def defaultTheta(workers: Int): Double = 1.0 / (5.0 * workers)

  def defaultCapacity(theta: Double): Int =
    math.min(MaxCapacity.toDouble, math.ceil(CountersPerHeadKey / theta)).toInt
}

/** A way to send rows to workers, with its own parameters. */
sealed abstract class Strategy(val name: String) extends Serializable {

  /** The parameters as EXPLAIN shows them. */
  def described(hotKeysGiven: Boolean): String = ""
}

/** A strategy that sends all rows of a key to one worker. */
sealed trait WholeGroups { self: Strategy => }

/** A strategy that chooses a worker for each row. `skew_worker` takes these. */
sealed abstract class Routing(name: String) extends Strategy(name) {

  /** The stream partitioning function of one source. `known` is the head that it starts with. */
  def router(workers: Int, source: Int, known: Seq[HeadKey]): KeyRouter

  /** Whether a row's worker depends on the rows before it when no hot keys are given. */
  def dependsOnOrder: Boolean = true

  /** How many workers each of the given hot keys may use: the papers' d. */
  def choicesOf(hot: Seq[HotKey], workers: Int): Int = workers
}

/** A routing strategy that finds the head with a sketch. */
sealed abstract class HeadRouting(name: String, theta: Double, capacity: Int)
    extends Routing(name) {
  protected def newRouter(workers: Int, source: Int): HeadRouter

  override def router(workers: Int, source: Int, known: Seq[HeadKey]): KeyRouter = {
    val router = newRouter(workers, source)
    if (known.nonEmpty) router.remember(known)
    router
  }

  override def described(hotKeysGiven: Boolean): String =
    if (hotKeysGiven) ", hot keys given" else s", theta=$theta, capacity=$capacity"
}

/** Combines rows in the map task, and reads oversize partitions in slices. */
case object Auto extends Strategy("auto")

/** Shuffles rows by key once, and reads oversize partitions in slices. */
case object Split extends Strategy("split")

/** Combines rows in the map task where that pays, and sends the others as they are. */
case object Local extends Strategy("local")

/** Key grouping (KG). */
case object Hash extends Routing("hash") with WholeGroups {
  override def router(workers: Int, source: Int, known: Seq[HeadKey]): KeyRouter =
    new HashRouter(workers)

  override def dependsOnOrder: Boolean = false
  override def choicesOf(hot: Seq[HotKey], workers: Int): Int = 1
}

/** Shuffle grouping (SG). */
case object Shuffle extends Routing("shuffle") {
  override def router(workers: Int, source: Int, known: Seq[HeadKey]): KeyRouter =
    new ShuffleRouter(workers, source)
}

/** Partial key grouping (PKG). */
case object PartialKey extends Routing("pkg") {
  override def router(workers: Int, source: Int, known: Seq[HeadKey]): KeyRouter =
    new PartialKeyRouter(workers, source)

  override def choicesOf(hot: Seq[HotKey], workers: Int): Int = math.min(2, workers)
}

final case class DChoices(theta: Double, epsilon: Double, choices: Option[Int], capacity: Int)
    extends HeadRouting("dchoices", theta, capacity) {
  override protected def newRouter(workers: Int, source: Int): HeadRouter =
    new DChoicesRouter(workers, source, theta, epsilon, choices, capacity)

  /** Solved if every share is known, else n. */
  override def choicesOf(hot: Seq[HotKey], workers: Int): Int = choices.getOrElse {
    val shares = hot.flatMap(_.share).sorted(Ordering[Double].reverse).toArray
    if (shares.length < hot.length) workers else FindOptimalChoices(shares, workers, epsilon)
  }

  override def described(hotKeysGiven: Boolean): String =
    super.described(hotKeysGiven) + choices.fold(s", epsilon=$epsilon")(d => s", choices=$d")
}

object DChoices {
  def apply(p: Parameters): DChoices = DChoices(p.theta, p.epsilon, p.choices, p.capacity)
}

final case class WChoices(theta: Double, capacity: Int)
    extends HeadRouting("wchoices", theta, capacity) {
  override protected def newRouter(workers: Int, source: Int): HeadRouter =
    new WChoicesRouter(workers, source, theta, capacity)
}

final case class RoundRobin(theta: Double, capacity: Int)
    extends HeadRouting("roundrobin", theta, capacity) {
  override protected def newRouter(workers: Int, source: Int): HeadRouter =
    new RoundRobinRouter(workers, source, theta, capacity)
}

/** Consistent hashing. */
case object Consistent extends Strategy("consistent") with WholeGroups

/** Largest first (Off-Greedy). A sketch with `capacity` counters finds the heavy keys. */
final case class OffGreedy(capacity: Int) extends Strategy("offgreedy") with WholeGroups

object OffGreedy {

  /** At most this many keys are placed by load. A hash places the others. */
  private val Capacity = 10000

  def apply(p: Parameters): OffGreedy = OffGreedy(p.counters.getOrElse(Capacity))
}

/** A partition function by one of Gedik's algorithms. Python passes it as `placement.function`. */
final case class FromFunction(algorithm: String) extends Strategy(algorithm) with WholeGroups

/** The one table of strategies. A new strategy is a class above and a row here. */
object Strategies {

  private val table: Seq[(String, Parameters => Strategy)] = Seq(
    "auto" -> (_ => Auto),
    "split" -> (_ => Split),
    "local" -> (_ => Local),
    "hash" -> (_ => Hash),
    "shuffle" -> (_ => Shuffle),
    "pkg" -> (_ => PartialKey),
    "dchoices" -> (p => DChoices(p)),
    "wchoices" -> (p => WChoices(p.theta, p.capacity)),
    "roundrobin" -> (p => RoundRobin(p.theta, p.capacity)),
    "consistent" -> (_ => Consistent),
    "offgreedy" -> (p => OffGreedy(p)),
    "scan" -> (_ => FromFunction("scan")),
    "redist" -> (_ => FromFunction("redist")),
    "readj" -> (_ => FromFunction("readj")),
    "level" -> (_ => FromFunction("level")))

  /** The strategies that a hint and the conf take. */
  val names: Seq[String] = table.map(_._1)

  /** The strategies that `skew_worker` takes. */
  lazy val routing: Seq[String] = namesOf(_.isInstanceOf[Routing])

  /** The strategies that send all rows of a key to one worker. */
  lazy val placement: Seq[String] = namesOf(_.isInstanceOf[WholeGroups])

  /** Whether a strategy always means placement. `hash` may also be a plan in two phases. */
  def onlyPlaces(strategy: Strategy): Boolean =
    strategy.isInstanceOf[WholeGroups] && strategy != Hash

  private def namesOf(belongs: Strategy => Boolean): Seq[String] = {
    // The class of a strategy does not depend on its parameters, so any parameters will do.
    val anyParameters = Parameters(2, Parameters.defaultTheta(2), 0.5, None, None)
    table.collect { case (name, construct) if belongs(construct(anyParameters)) => name }
  }

  /** The name of a strategy as the table spells it. */
  def checkedName(name: String, allowed: Seq[String]): String = {
    val lowerCase = name.toLowerCase(Locale.ROOT)
    if (allowed.contains(lowerCase)) lowerCase
    else throw SkewOptions.unknown("strategy", name, allowed)
  }

  def apply(name: String, parameters: Parameters): Strategy =
    table.toMap.apply(checkedName(name, names))(parameters)
}
