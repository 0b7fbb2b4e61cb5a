package org.apache.spark.sql.saltwise.routing

/**
 * FINDOPTIMALCHOICES: the smallest number of choices d that may keep the imbalance below epsilon
 * (Nasir et al., "When Two Choices Are not Enough", section IV-A, Proposition 4.1).
 *
 * The constraint of the first h keys of the head H, a prefix, is:
 *
 *   sum_{i <= h} p_i + (b_h / n)^d sum_{h < i <= |H|} p_i + (b_h / n)^2 sum_{i > |H|} p_i
 *     <= b_h (1 / n + epsilon)
 *
 * where b_h = n - n ((n - 1) / n)^(h d) is the expected number of workers that the prefix uses.
 *
 * d starts at p_1 n, a lower bound, and grows until it keeps the constraints of all prefixes. At
 * d >= n the head may use every worker, which is W-Choices.
 */
object FindOptimalChoices {

  /**
   * @param head    shares of the head keys among all rows, in descending order
   * @param workers n
   * @param epsilon the largest allowed imbalance, as a share of all rows
   * @return d between 2 and n; n means W-Choices
   */
  def apply(head: Array[Double], workers: Int, epsilon: Double): Int = {
    if (head.isEmpty) return math.min(2, workers)
    val prefixes = head.scanLeft(0.0)(_ + _)
    var d = math.max(2, math.ceil(head(0) * workers).toInt)
    // A prefix whose constraint d breaks mostly breaks at d + 1 too. Checking it first costs one
    // evaluation instead of |H|.
    var broken = 1
    while (d < workers && broken > 0) {
      if (!isBalanced(prefixes, broken, workers, epsilon, d)) d += 1
      else {
        broken = firstBroken(prefixes, workers, epsilon, d)
        if (broken > 0) d += 1
      }
    }
    math.min(d, workers)
  }

  /** The first prefix whose constraint d breaks; 0 if d keeps all of them. */
  private def firstBroken(prefixes: Array[Double], n: Int, epsilon: Double, d: Int): Int = {
    var h = 1
    while (h < prefixes.length && isBalanced(prefixes, h, n, epsilon, d)) h += 1
    if (h < prefixes.length) h else 0
  }

  /** Whether d keeps the constraint of the prefix h. */
  private def isBalanced(
      prefixes: Array[Double], h: Int, n: Int, epsilon: Double, d: Int): Boolean = {
    val headShare = prefixes.last
    val tailShare = math.max(0.0, 1 - headShare)
    val b = n - n * math.pow((n - 1.0) / n, h.toDouble * d)
    val load = prefixes(h) +
      math.pow(b / n, d) * (headShare - prefixes(h)) +
      math.pow(b / n, 2) * tailShare
    load <= b * (1.0 / n + epsilon)
  }
}
