"""ELB, eager load balancing: after each statistics window, every instance's load is brought into [v, u].

Guo and Zhou, "Stateful Load Balancing for Parallel Stream Processing", section 3, Algorithm 1; its symbols stand beside
the names here.
"""

from __future__ import annotations

import heapq
import math
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Bools, Floats, Int64s, checked_numbers
from ..errors import SaltwiseValueError, check_whole
from .cluster import checked_allocation, loads_of


class Eager(NamedTuple):
    """What ELB decides."""

    instance: Int64s
    """F_2: the instance of each substream, shape (p,)."""
    instances: Int64s
    """I: the pi instances in use. Numbers of at least n are new instances."""


def elb(load: Any, instance: Any, n: int, lower: float, upper: float) -> Eager:
    """Return an assignment in which no instance has more than u, moving as little as it can.

    pi = ceil(2 w / (u + v)) instances share the whole load w: new instances are added, or the least loaded ones give
    away all they have. An instance above the average w / pi is overloaded. It gives away its largest substreams, as
    long as it stays above the average. These go, largest first, to the least loaded instance, until that is overloaded
    too.

    Args:
        load: Y_t, the rows of each substream in the latest window, shape (p,).
        instance: F_1, the instance of each substream, 0 ... n - 1.
        n: the number of instances.
        lower: v.
        upper: u; no substream may have more than (u - v) / 2.

    Raises:
        SaltwiseValueError: a load is negative or NaN, n or an instance is not allowed, the bounds are not a range, or a
            substream has more than (u - v) / 2.

    >>> elb([4, 3, 2, 1], [0, 0, 0, 1], n=2, lower=1, upper=9)
    Eager(instance=array([1, 0, 0, 1]), instances=array([0, 1]))
    >>> elb([4, 4, 2, 1], [0, 0, 0, 1], n=2, lower=2, upper=10)
    Eager(instance=array([1, 0, 0, 1]), instances=array([0, 1]))
    >>> elb([4, 4, 2, 1], [0, 0, 0, 1], n=2, lower=0, upper=8).instances
    array([0, 1, 2])
    """
    check_whole("n", n)
    load = checked_numbers("load", load)
    instance = checked_allocation("instance", instance, groups=len(load), nodes=n).copy()
    if not 0 <= lower < upper < math.inf:
        raise SaltwiseValueError(f"lower and upper are {lower:g} and {upper:g}; they must be 0 <= lower < upper.")
    largest = int(np.argmax(load))
    # Rounding may bring bounds around w / n a little too close.
    if load[largest] > (upper - lower) / 2 * (1 + 1e-9):
        raise SaltwiseValueError(
            f"substream {largest} has a load of {load[largest]:g}; it must be (upper - lower) / 2 = "
            f"{(upper - lower) / 2:g} at most: widen the bounds, or use more substreams."
        )
    total = load.sum()
    # Rounded, so that bounds around w / n give n whatever the last bits are.
    pi = max(1, math.ceil(round(2 * total / (lower + upper), 9)))
    loads = loads_of(load, instance, max(n, pi))
    removed = np.argsort(loads[:n], kind="stable")[: max(0, n - pi)]
    used = np.setdiff1d(np.arange(max(n, pi)), removed)
    # The last bits of a sum depend on its order. The least loaded instance is never above the average.
    average = max(total / pi, loads[used].min())
    queue = np.isin(instance, removed)
    for overloaded in used[loads[used] > average]:
        queue |= _given_away(load, instance == overloaded, loads[overloaded] - average)
    underloaded = [(loads[j], j) for j in used if loads[j] <= average]
    heapq.heapify(underloaded)
    for i in sorted(np.flatnonzero(queue), key=lambda i: (-load[i], i)):
        least, j = heapq.heappop(underloaded)
        instance[i] = j
        # One instance always stays: apart from rounding, what is left to place fits below the average.
        if least + load[i] <= average or not underloaded:
            heapq.heappush(underloaded, (least + load[i], j))
    return Eager(instance, used)


def _given_away(load: Floats, own: Bools, threshold: float) -> Bools:
    """Return which substreams an overloaded instance gives away: the largest ones, as far as the threshold allows.

    Args:
        load: of each substream.
        own: whether each substream is the instance's.
        threshold: how much load it may give away.
    """
    is_given_away = np.zeros(len(load), dtype=bool)
    for i in sorted(np.flatnonzero(own), key=lambda i: (-load[i], i)):
        if 0 < load[i] <= threshold:
            is_given_away[i] = True
            threshold -= load[i]
    return is_given_away
