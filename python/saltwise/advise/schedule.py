"""How long tasks take on some cores: as they were, and if the same work were spread evenly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heapify, heapreplace
from typing import NamedTuple


class Range(NamedTuple):
    """A range of seconds.

    >>> f"{Range(1.5, 3.04):.1f} s, {Range(1.5, 1.51):.1f} s"
    '1.5 to 3.0 s, 1.5 s'
    """

    low: float
    high: float

    def __format__(self, spec: str) -> str:
        low, high = format(self.low, spec), format(self.high, spec)
        return low if low == high else f"{low} to {high}"


def makespan(millis: Sequence[int], cores: int) -> float:
    """Return the seconds from the first task's start to the last one's end, by list scheduling.

    Each core takes the next task, in the order given, as soon as it is free. Spark's scheduler does the same where all
    cores are equal (Graham, "Bounds on Multiprocessing Timing Anomalies", 1969).

    >>> makespan([1000, 1000, 1000, 4000], cores=2)
    5.0
    """
    busy = [0] * max(1, min(cores, len(millis)))
    heapify(busy)
    for task in millis:
        heapreplace(busy, busy[0] + task)
    return max(busy) / 1000


def evened(millis: Sequence[int], cores: int) -> Range:
    """Return how long the same work takes if it is even: spread over all cores, or cut into as many equal tasks.

    >>> evened([1000, 1000, 1000, 4000], cores=3)
    Range(low=2.3333333333333335, high=3.5)
    """
    total, n = sum(millis) / 1000, len(millis)
    if not n:
        return Range(0.0, 0.0)
    cores = max(1, cores)
    return Range(total / cores, math.ceil(n / cores) * total / n)


def gain(millis: Sequence[int], cores: int) -> Range:
    """Return the seconds that even tasks would save.

    >>> gain([1000, 1000, 1000, 4000], cores=2)
    Range(low=1.5, high=1.5)
    """
    now, even = makespan(millis, cores), evened(millis, cores)
    low = max(0.0, now - even.high)
    return Range(low, max(low, now - even.low))
