package org.apache.spark.sql.saltwise.routing

import java.util.Arrays

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.saltwise.sketch.SpaceSaving

/**
 * A stream partitioning function P_t: it chooses the worker for the next row of a source. Each
 * source (map task) owns one router and gives it the 64-bit hash of each row's key. Nothing here is
 * random: the same keys in the same order always get the same workers.
 */
abstract class Router {

  /** The worker in [0, n) for the next row, whose key has this hash. */
  def route(key: Long, row: InternalRow): Int

  /** The number of rows so far whose key was in the head. */
  def headRows: Long = 0

  /** The number of keys in the head now. */
  def headKeys: Int = 0

  /** The keys in the head now. */
  def hotKeys: Seq[HeadKey] = Nil

  /** The number of workers that a head key may use now: the papers' d. */
  def choices: Int
}

/** A router that looks only at keys, like all routers in the papers. */
abstract class KeyRouter extends Router {
  def route(key: Long): Int

  override final def route(key: Long, row: InternalRow): Int = route(key)
}

/** Key grouping (KG): a hash of the key gives its one worker. */
final class HashRouter(n: Int) extends KeyRouter {
  override def route(key: Long): Int = HashFamily.worker(key, 1, n)
  override def choices: Int = 1
}

/** Shuffle grouping (SG): the workers take turns, whatever the key is. */
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
 * Partial key grouping (PKG): the less loaded of two choices (Nasir et al., "The Power of Both
 * Choices"). The load is the source's own count of the rows it sent. Even sources give ties to the
 * first choice, odd sources to the second.
 */
class PartialKeyRouter(n: Int, source: Int) extends KeyRouter {
  protected final val load = new Array[Long](n)
  private val firstOnTie = (source & 1) == 0

  override def route(key: Long): Int = send(lessLoaded(key))

  override def choices: Int = math.min(2, n)

  protected final def lessLoaded(key: Long): Int = {
    val first = HashFamily.worker(key, 1, n)
    val second = HashFamily.worker(key, 2, n)
    val takeFirst = load(first) < load(second) || (firstOnTie && load(first) == load(second))
    if (takeFirst) first else second
  }

  protected final def send(worker: Int): Int = {
    load(worker) += 1
    worker
  }
}

/**
 * Algorithm 1 of "When Two Choices Are not Enough". SpaceSaving tells the head from the tail.
 * Partial key grouping routes the tail, and the subclass routes the head.
 *
 * A key is in the head while its estimate is at least theta times the source's rows. The estimate
 * must also be at least [[HeadRouter.MinimumRows]], because every key has a large share of the
 * first few rows.
 */
abstract class HeadRouter(n: Int, source: Int, theta: Double, capacity: Int)
    extends PartialKeyRouter(n, source) {
  protected final val sketch = new SpaceSaving(capacity)
  private var routedHeadRows = 0L

  override final def route(key: Long): Int = {
    val counter = sketch.offer(key)
    observed()
    if (inHead(counter)) {
      routedHeadRows += 1
      send(routeHead(key, counter))
    } else {
      send(lessLoaded(key))
    }
  }

  protected def routeHead(key: Long, counter: Int): Int

  /**
   * Starts with the known head keys, as if the source had seen rows of them before. The number of
   * these rows is just enough to make a key with a share of theta hot. So a head that has changed
   * since is soon forgotten.
   */
  final def remember(known: Seq[HeadKey]): Unit = {
    val rows = math.ceil(HeadRouter.MinimumRows / theta)
    known.foreach(key => sketch.offer(key.hash, math.ceil(key.share * rows).toLong))
    sketch.pass(math.max(0, rows.toLong - sketch.total))
  }

  /** Called for each row, after the sketch has counted it. */
  protected def observed(): Unit = ()

  override def headRows: Long = routedHeadRows

  override def headKeys: Int = head.length

  override def hotKeys: Seq[HeadKey] = head.toSeq.map { counter =>
    HeadKey(sketch.hash(counter), sketch.count(counter).toDouble / sketch.total)
  }

  override def choices: Int = n

  /** The counters of the head keys, in no order. */
  protected final def head: Array[Int] = Array.range(0, sketch.size).filter(inHead)

  protected final def inHead(counter: Int): Boolean = {
    val count = sketch.count(counter)
    count >= HeadRouter.MinimumRows && count >= theta * sketch.total
  }
}

/** A key of the head: its hash, and its share of the rows. */
final case class HeadKey(hash: Long, share: Double)

object HeadRouter {
  /** A key with fewer rows is never hot. */
  final val MinimumRows = 16
}

/** W-Choices: a row of a head key goes to the least loaded of all workers. */
final class WChoicesRouter(n: Int, source: Int, theta: Double, capacity: Int)
    extends HeadRouter(n, source, theta, capacity) {
  private val anywhere = new LeastLoaded(load, Array.range(0, n), source)

  override protected def routeHead(key: Long, counter: Int): Int = anywhere.next()
}

/** Round-robin head: the workers take turns with the rows of head keys, whatever their load is. */
final class RoundRobinRouter(n: Int, source: Int, theta: Double, capacity: Int)
    extends HeadRouter(n, source, theta, capacity) {
  private val turn = new ShuffleRouter(n, source)

  override protected def routeHead(key: Long, counter: Int): Int = turn.route(key)
}

/**
 * D-Choices: a head key may use the d workers F_1(key) ... F_d(key). Each of its rows goes to the
 * least loaded of them. If d >= n, this is W-Choices.
 *
 * A `fixedChoices` is used as it is. Otherwise d is solved from the source's own estimates, first
 * after 1 / theta rows, and again each time the number of rows has grown by a quarter. An estimate
 * is a share of all rows so far, so between two solutions it changes by at most that quarter. m
 * rows cost about 3 + 3.1 ln(m theta) solutions, which is 45 for ten million rows on 200 workers.
 */
final class DChoicesRouter(
    n: Int, source: Int, theta: Double, epsilon: Double, fixedChoices: Option[Int], capacity: Int)
    extends HeadRouter(n, source, theta, capacity) {
  private var d = math.min(n, fixedChoices.getOrElse(2))
  private var solveAt = if (fixedChoices.isDefined) Long.MaxValue else math.ceil(1 / theta).toLong
  private val anywhere = new LeastLoaded(load, Array.range(0, n), source)
  // By counter: the candidates of its key, and the key and the d that they were computed from.
  private var candidates = new Array[LeastLoaded](16)
  private var candidatesKey = new Array[Long](16)
  private var candidatesD = new Array[Int](16)

  override protected def routeHead(key: Long, counter: Int): Int = {
    if (d >= n) return anywhere.next()
    if (counter >= candidates.length) growTo(counter + 1)
    if (candidatesD(counter) != d || candidatesKey(counter) != key) {
      candidates(counter) = new LeastLoaded(load, HashFamily.candidates(key, d, n), source)
      candidatesKey(counter) = key
      candidatesD(counter) = d
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

  private def growTo(counters: Int): Unit = {
    val length = math.max(counters, candidates.length * 2)
    candidates = Arrays.copyOf(candidates, length)
    candidatesKey = Arrays.copyOf(candidatesKey, length)
    candidatesD = Arrays.copyOf(candidatesD, length)
  }
}
