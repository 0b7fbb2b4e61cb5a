"""FINDOPTIMALCHOICES: how many workers d a hot key needs (Nasir et al., "When Two Choices Are not Enough", IV-A)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..options import EPSILON

if TYPE_CHECKING:
    from ..arrays import Floats


def find_optimal_choices(head: Sequence[float] | Floats, workers: int, epsilon: float = EPSILON) -> int:
    """Return the smallest d that may keep the imbalance below `epsilon` (Proposition 4.1).

    For every prefix h of the head, with b_h = n - n ((n - 1) / n)^(h d) the workers it can expect to use::

        sum_{i<=h} p_i + (b_h/n)^d sum_{h<i<=|H|} p_i + (b_h/n)^2 sum_{i>|H|} p_i <= b_h (1/n + epsilon)

    Args:
        head: shares of the head keys among all rows, in descending order.
        workers: n.
        epsilon: imbalance to stay below, as a share of all rows.

    Returns:
        d between 2 and n. It starts at p_1 n, a lower bound; n means W-Choices: any worker.

    >>> find_optimal_choices([0.3, 0.1], workers=100)
    51
    """
    # Plain loops, because the simulator compiles this very function.
    if len(head) == 0:
        return min(2, workers)
    head_share = 0.0
    for share in head:
        head_share += share
    tail_share = max(0.0, 1 - head_share)
    d = max(2, math.ceil(head[0] * workers))
    while d < workers:
        balanced = True
        prefix = 0.0
        for i in range(len(head)):
            prefix += head[i]
            b = workers - workers * ((workers - 1) / workers) ** float((i + 1) * d)
            load = prefix + (b / workers) ** float(d) * (head_share - prefix) + (b / workers) ** 2.0 * tail_share
            if load > b * (1 / workers + epsilon):
                balanced = False
                break
        if balanced:
            return d
        d += 1
    return min(d, workers)
