package org.apache.spark.sql.saltwise.routing

/**
 * FINDOPTIMALCHOICES: the smallest number of choices d that may keep the imbalance below epsilon
 * (Nasir et al., "When Two Choices Are not Enough", section IV-A, Proposition 4.1).
 *
 * For every prefix h of the head, with b_h = n - n ((n - 1) / n)^(h d) the workers that it can expect to use:
 *
 *   sum_{i <= h} p_i + (b_h / n)^d sum_{h < i <= |H|} p_i + (b_h / n)^2 sum_{i > |H|} p_i <= b_h (1 / n + epsilon)
 *
 * d starts at p_1 n, a lower bound, and grows until all prefixes agree. At d >= n the head may use every
 * worker: W-Choices.
 */
object FindOptimalChoices {

  /**
   * @param head    shares of the head keys among all rows, in descending order
   * @param workers n
   * @param epsilon imbalance to stay below, as a share of all rows
   * @return d between 2 and n; n stands for W-Choices
   */
  def apply(head: Array[Double], workers: Int, epsilon: Double): Int = {
    if (head.isEmpty) return math.min(2, workers)
    val prefixes = head.scanLeft(0.0)(_ + _)
    var d = math.max(2, math.ceil(head(0) * workers).toInt)
    // The prefix that refuses d mostly refuses d + 1 too, so it is asked first: one look instead of |H|.
    var refusing = 1
    while (d < workers && refusing > 0) {
      if (!balanced(prefixes, refusing, workers, epsilon, d)) d += 1
      else {
        refusing = firstRefusing(prefixes, workers, epsilon, d)
        if (refusing > 0) d += 1
      }
    }
    math.min(d, workers)
  }

  /** The first prefix whose constraint d breaks; 0 where d keeps all. */
  private def firstRefusing(prefixes: Array[Double], n: Int, epsilon: Double, d: Int): Int = {
    var h = 1
    while (h < prefixes.length && balanced(prefixes, h, n, epsilon, d)) h += 1
    if (h < prefixes.length) h else 0
  }

  /** The constraint of the prefix h. */
  private def balanced(prefixes: Array[Double], h: Int, n: Int, epsilon: Double, d: Int): Boolean = {
    val headShare = prefixes.last
    val tailShare = math.max(0.0, 1 - headShare)
    val b = n - n * math.pow((n - 1.0) / n, h.toDouble * d)
    val load = prefixes(h) + math.pow(b / n, d) * (headShare - prefixes(h)) + math.pow(b / n, 2) * tailShare
    load <= b * (1.0 / n + epsilon)
  }
}
