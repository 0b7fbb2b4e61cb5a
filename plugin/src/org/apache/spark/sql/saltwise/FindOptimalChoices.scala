package org.apache.spark.sql.saltwise

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
    val headShare = head.sum
    var d = math.max(2, math.ceil(head(0) * workers).toInt)
    while (d < workers && !balanced(head, headShare, workers, epsilon, d)) d += 1
    math.min(d, workers)
  }

  private def balanced(
      head: Array[Double], headShare: Double, n: Int, epsilon: Double, d: Int): Boolean = {
    val tailShare = math.max(0.0, 1 - headShare)
    var prefix = 0.0
    var h = 1
    while (h <= head.length) {
      prefix += head(h - 1)
      val b = n - n * math.pow((n - 1.0) / n, h.toDouble * d)
      val load = prefix + math.pow(b / n, d) * (headShare - prefix) + math.pow(b / n, 2) * tailShare
      if (load > b * (1.0 / n + epsilon)) return false
      h += 1
    }
    true
  }
}
