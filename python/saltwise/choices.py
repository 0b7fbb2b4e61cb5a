"""FINDOPTIMALCHOICES: how many workers a hot key needs.

Nasir et al., "When Two Choices Are not Enough: Balancing at Scale in Distributed Stream Processing", ICDE 2016,
section IV-A, Proposition 4.1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def find_optimal_choices(head: Sequence[float], workers: int, epsilon: float = 1e-4) -> int:
    """Return the smallest d that satisfies Proposition 4.1 for every prefix of the head.

    With b_h = n - n ((n - 1) / n)^(h d), the workers that the first h keys can expect to use::

        sum_{i <= h} p_i + (b_h / n)^d sum_{h < i <= |H|} p_i + (b_h / n)^2 sum_{i > |H|} p_i <= b_h (1/n + eps)

    Args:
        head: shares of the head keys among all rows, in descending order.
        workers: n.
        epsilon: imbalance to stay below, as a share of all rows.

    Returns:
        d between 2 and n. It starts at p_1 n, a lower bound; n means W-Choices: any worker.

    >>> find_optimal_choices([0.3, 0.1], workers=100)
    51
    """
    if not head:
        return min(2, workers)
    d = max(2, math.ceil(head[0] * workers))
    while d < workers and not _balanced(head, workers, epsilon, d):
        d += 1
    return min(d, workers)


def _balanced(head: Sequence[float], n: int, epsilon: float, d: int) -> bool:
    head_share = sum(head)
    tail_share = max(0.0, 1 - head_share)
    prefix = 0.0
    for h, share in enumerate(head, start=1):
        prefix += share
        b = n - n * ((n - 1) / n) ** (h * d)
        load = prefix + (b / n) ** d * (head_share - prefix) + (b / n) ** 2 * tail_share
        if load > b * (1 / n + epsilon):
            return False
    return True
