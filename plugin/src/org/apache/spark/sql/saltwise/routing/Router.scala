package org.apache.spark.sql.saltwise.routing

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.saltwise.sketch.SpaceSaving

/**
 * A stream partitioning function P_t: which worker gets the next row of a source. Each source (map task) owns
 * one router and tells it the 64-bit hash of each row's key. The same keys in the same order give the same
 * workers, always: nothing here is random.
 */
abstract class Router {

  /** The worker in [0, n) for the next row, whose key has this hash. */
  def route(key: Long, row: InternalRow): Int

  /** Rows so far whose key was in the head. */
  def headRows: Long = 0

  /** Keys in the head now. */
  def headKeys: Int = 0

  /** Workers that a head key may use now: the papers' d. */
  def choices: Int
}

/** A router that looks at keys only, as all in the papers do. */
abstract class KeyRouter extends Router {
  def route(key: Long): Int

  override final def route(key: Long, row: InternalRow): Int = route(key)
}

/** Key grouping (KG): one choice, by hash. */
final class HashRouter(n: Int) extends KeyRouter {
  override def route(key: Long): Int = HashFamily.worker(key, 1, n)
  override def choices: Int = 1
}

/** Shuffle grouping (SG): all workers in turn, whatever the key. */
final class ShuffleRouter(n: Int, source: Int) extends KeyRouter {
  private var next = Math.floorMod(source, n)

  override def route(key: Long): Int = {
    val worker = next
    next = if (next + 1 == n) 0 else next + 1
    worker
  }

  override def choices: Int = n
}

/**
 * Partial key grouping (PKG): the less loaded of two choices, by the source's own count of the rows it sent
 * (Nasir et al., "The Power of Both Choices"). Ties go to the first choice on even sources, to the second on
 * odd ones.
 */
class PartialKeyRouter(n: Int, source: Int) extends KeyRouter {
  protected final val load = new Array[Long](n)
  private val firstOnTie = (source & 1) == 0

  override def route(key: Long): Int = send(lessLoaded(key))

  override def choices: Int = math.min(2, n)

  protected final def lessLoaded(key: Long): Int = {
    val first = HashFamily.worker(key, 1, n)
    val second = HashFamily.worker(key, 2, n)
    if (load(first) < load(second) || (firstOnTie && load(first) == load(second))) first else second
  }

  protected final def send(worker: Int): Int = {
    load(worker) += 1
    worker
  }
}

/**
 * Algorithm 1 of "When Two Choices Are not Enough": SpaceSaving tells the head from the tail; the tail is
 * routed by partial key grouping, the head as the subclass says.
 *
 * A key is in the head while its estimate is at least theta times the source's rows, and at least
 * [[HeadRouter.MinimumRows]]: of a few rows every key owns a large share.
 */
abstract class HeadRouter(n: Int, source: Int, theta: Double, capacity: Int)
    extends PartialKeyRouter(n, source) {
  protected final val sketch = new SpaceSaving(capacity)
  private var routedHead = 0L

  override final def route(key: Long): Int = {
    val counter = sketch.offer(key)
    observed()
    if (inHead(counter)) {
      routedHead += 1
      send(routeHead(key, counter))
    } else {
      send(lessLoaded(key))
    }
  }

  protected def routeHead(key: Long, counter: Int): Int

  /**
   * Begins with what is known of the head, as if the source had seen some rows before. These count as many as make a key
   * with a share of theta hot, so a head that is another one by now is soon forgotten.
   */
  final def remember(known: Seq[HeadKey]): Unit = {
    val rows = math.ceil(HeadRouter.MinimumRows / theta)
    known.foreach(key => sketch.offer(key.hash, math.ceil(key.share * rows).toLong))
    sketch.pass(math.max(0, rows.toLong - sketch.total))
  }

  /** Called once for each row, after the sketch has counted it. */
  protected def observed(): Unit = ()

  override def headRows: Long = routedHead

  override def headKeys: Int = head.length

  override def choices: Int = n

  /** The counters of the head keys, in no order. */
  protected final def head: Array[Int] = Array.range(0, sketch.size).filter(inHead)

  protected final def inHead(counter: Int): Boolean = {
    val count = sketch.count(counter)
    count >= HeadRouter.MinimumRows && count >= theta * sketch.total
  }
}

/** A key of the head: the hash of the key, and its share of rows. */
final case class HeadKey(hash: Long, share: Double)

object HeadRouter {
  /** Fewer rows than this never make a key hot. */
  final val MinimumRows = 16
}

/** W-Choices: a head key may use any worker, the least loaded one. */
final class WChoicesRouter(n: Int, source: Int, theta: Double, capacity: Int)
    extends HeadRouter(n, source, theta, capacity) {
  private val anywhere = new LeastLoaded(load, Array.range(0, n), source)

  override protected def routeHead(key: Long, counter: Int): Int = anywhere.next()
}

/** Round-robin head: a head key goes to all workers in turn, whatever their load. */
final class RoundRobinRouter(n: Int, source: Int, theta: Double, capacity: Int)
    extends HeadRouter(n, source, theta, capacity) {
  private val turn = new ShuffleRouter(n, source)

  override protected def routeHead(key: Long, counter: Int): Int = turn.route(key)
}

/**
 * D-Choices: a head key may use the d workers F_1(key) ... F_d(key), and takes the least loaded.
 *
 * d is solved from the source's own estimates after the first 1 / theta rows and again whenever the rows have
 * grown by a quarter. Estimates are shares of all rows so far, so between two solutions none can have changed
 * by more than that quarter; and m rows cost about 3 + 3.1 ln(m theta) solutions, 45 for ten million rows on
 * 200 workers. From d >= n on it is W-Choices. A given number of `choices` is used as it is.
 */
final class DChoicesRouter(
    n: Int, source: Int, theta: Double, epsilon: Double, fixed: Option[Int], capacity: Int)
    extends HeadRouter(n, source, theta, capacity) {
  private var d = math.min(n, fixed.getOrElse(2))
  private var solveAt = if (fixed.isDefined) Long.MaxValue else math.ceil(1 / theta).toLong
  private val anywhere = new LeastLoaded(load, Array.range(0, n), source)
  private var candidates = new Array[LeastLoaded](16) // by counter
  private var builtFor = new Array[Long](16) // the key of each, and the d that it was built with
  private var builtWith = new Array[Int](16)

  override protected def routeHead(key: Long, counter: Int): Int = {
    if (d >= n) return anywhere.next()
    if (counter >= candidates.length) makeRoom(counter)
    if (builtWith(counter) != d || builtFor(counter) != key) {
      candidates(counter) = new LeastLoaded(load, HashFamily.candidates(key, d, n), source)
      builtFor(counter) = key
      builtWith(counter) = d
    }
    candidates(counter).next()
  }

  override protected def observed(): Unit = if (sketch.total >= solveAt) {
    d = solve()
    solveAt = sketch.total + math.max(1, sketch.total / 4)
  }

  override def choices: Int = d

  private def solve(): Int = {
    val shares = head.map(sketch.count(_).toDouble / sketch.total).sorted(Ordering[Double].reverse)
    FindOptimalChoices(shares, n, epsilon)
  }

  private def makeRoom(counter: Int): Unit = {
    val room = math.max(counter + 1, candidates.length * 2)
    candidates = java.util.Arrays.copyOf(candidates, room)
    builtFor = java.util.Arrays.copyOf(builtFor, room)
    builtWith = java.util.Arrays.copyOf(builtWith, room)
  }
}
