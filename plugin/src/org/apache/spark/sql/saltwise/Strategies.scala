package org.apache.spark.sql.saltwise

import java.util.Locale

import org.apache.spark.sql.saltwise.routing._

/**
 * What a strategy may be told. All values are checked.
 *
 * @param workers  n
 * @param theta    the share of rows from which a key is in the head
 * @param epsilon  the imbalance that D-Choices may leave, as a share of all rows
 * @param choices  d, where it is given and not solved
 * @param counters of a sketch, where they are given
 */
final case class Parameters(
    workers: Int,
    theta: Double,
    epsilon: Double,
    choices: Option[Int],
    counters: Option[Int]) {

  /** The counters of a source's sketch: see the bound in [[sketch.SpaceSaving]]. */
  def capacity: Int = counters.getOrElse(Parameters.defaultCapacity(theta))
}

object Parameters {

  /** Counters for each 1 / theta. */
  private val CountersPerHeadKey = 4

  val MaxCapacity: Int = 1 << 24

  def defaultTheta(workers: Int): Double = 1.0 / (5.0 * workers)

  def defaultCapacity(theta: Double): Int =
    math.min(MaxCapacity.toDouble, math.ceil(CountersPerHeadKey / theta)).toInt
}

/** A way to give rows to workers, with the parameters that it has. */
sealed abstract class Strategy(val name: String) extends Serializable {

  /** What EXPLAIN says of its parameters. */
  def described(hotKeysGiven: Boolean): String = ""
}

/** A strategy that leaves every group whole. */
sealed trait WholeGroups { self: Strategy => }

/** A strategy that chooses a worker for each row: what `skew_worker` takes. */
sealed abstract class Routing(name: String) extends Strategy(name) {

  /** The stream partitioning function of one source. A head that is `known` is what it begins with. */
  def router(workers: Int, source: Int, known: Seq[HeadKey]): KeyRouter

  /** Whether a row's worker depends on the rows before it, where no hot keys are given. */
  def dependsOnOrder: Boolean = true

  /** How many workers a key may use that is known to be hot beforehand: the papers' d. */
  def choicesOf(hot: Seq[HotKey], workers: Int): Int = workers
}

/** A routing strategy that finds the head with a sketch. */
sealed abstract class HeadRouting(name: String, theta: Double, capacity: Int) extends Routing(name) {
  protected def newRouter(workers: Int, source: Int): HeadRouter

  override def router(workers: Int, source: Int, known: Seq[HeadKey]): KeyRouter = {
    val router = newRouter(workers, source)
    if (known.nonEmpty) router.remember(known)
    router
  }

  override def described(hotKeysGiven: Boolean): String =
    if (hotKeysGiven) ", hot keys given" else s", theta=$theta, capacity=$capacity"
}

/** The plan that costs least: split, local, or Spark's own. */
case object Auto extends Strategy("auto")

/** Shuffles rows by key once, and reads what turns out to be oversize in slices. */
case object Split extends Strategy("split")

/** Combines the rows of head keys in the map task, and sends the others as they are. */
final case class Local(theta: Double, capacity: Int) extends Strategy("local") {
  override def described(hotKeysGiven: Boolean): String = s", capacity=$capacity"
}

object Local {

  /** Keys that are combined at a time, also those that are far too rare to fill a worker. */
  private val Capacity = 2048

  def apply(p: Parameters): Local = Local(p.theta, p.counters.getOrElse(Capacity))
}

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

  /** Solved where every share is known, and n where one is not. */
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

/** Largest first (Off-Greedy), from a sketch with so many counters. */
final case class OffGreedy(capacity: Int) extends Strategy("offgreedy") with WholeGroups

object OffGreedy {

  /** The most keys that are placed by hand. */
  private val Capacity = 10000

  def apply(p: Parameters): OffGreedy = OffGreedy(p.counters.getOrElse(Capacity))
}

/** A partition function by Gedik's algorithms. Python makes it, and gives it as `placement.function`. */
final case class FromFunction(algorithm: String) extends Strategy(algorithm) with WholeGroups

/** The one table of strategies. A new strategy is a class above and a row here. */
object Strategies {

  private val table: Seq[(String, Parameters => Strategy)] = Seq(
    "auto" -> (_ => Auto),
    "split" -> (_ => Split),
    "local" -> (p => Local(p)),
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
    "readj" -> (_ => FromFunction("readj")))

  /** What a hint and the conf take. */
  val names: Seq[String] = table.map(_._1)

  /** What `skew_worker` takes. */
  lazy val routing: Seq[String] = namesOf(_.isInstanceOf[Routing])

  /** What leaves every group whole. */
  lazy val placement: Seq[String] = namesOf(_.isInstanceOf[WholeGroups])

  private def namesOf(belongs: Strategy => Boolean): Seq[String] = {
    val any = Parameters(2, Parameters.defaultTheta(2), 0.5, None, None)
    table.collect { case (name, make) if belongs(make(any)) => name }
  }

  /** The name of a strategy as the table spells it. */
  def checkedName(name: String, allowed: Seq[String]): String = {
    val wanted = name.toLowerCase(Locale.ROOT)
    if (allowed.contains(wanted)) wanted else throw SkewOptions.unknown("strategy", name, allowed)
  }

  def apply(name: String, parameters: Parameters): Strategy =
    table.toMap.apply(checkedName(name, names))(parameters)
}
