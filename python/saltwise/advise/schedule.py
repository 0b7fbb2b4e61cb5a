"""How long tasks take on some cores: as they were, and if the same work were spread evenly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heapify, heapreplace
from typing import NamedTuple


class Range(NamedTuple):
    """Seconds, from least to most.

    >>> f"{Range(1.5, 3.04):.1f} s, {Range(1.5, 1.51):.1f} s"
    '1.5 to 3.0 s, 1.5 s'
    """

    least: float
    most: float

    def __format__(self, spec: str) -> str:
        least, most = format(self.least, spec), format(self.most, spec)
        return least if least == most else f"{least} to {most}"


def makespan(millis: Sequence[int], cores: int) -> float:
    """Return the seconds from the first task's start to the last one's end, by list scheduling.

    Each core takes the next task as soon as it is free, in the order given, as Spark's scheduler does where all cores
    are as good (Graham, "Bounds on Multiprocessing Timing Anomalies", 1969).

    >>> makespan([1000, 1000, 1000, 4000], cores=2)
    5.0
    """
    busy = [0] * max(1, min(cores, len(millis)))
    heapify(busy)
    for task in millis:
        heapreplace(busy, busy[0] + task)
    return max(busy) / 1000


def evened(millis: Sequence[int], cores: int) -> Range:
    """Return how long the same work takes if it is even: spread over all cores, or over as many equal tasks.

    >>> evened([1000, 1000, 1000, 4000], cores=3)
    Range(least=2.3333333333333335, most=3.5)
    """
    total, n = sum(millis) / 1000, len(millis)
    if not n:
        return Range(0.0, 0.0)
    cores = max(1, cores)
    return Range(total / cores, math.ceil(n / cores) * total / n)


def gain(millis: Sequence[int], cores: int) -> Range:
    """Return the seconds that even tasks would take less.

    >>> gain([1000, 1000, 1000, 4000], cores=2)
    Range(least=1.5, most=1.5)
    """
    now, even = makespan(millis, cores), evened(millis, cores)
    least = max(0.0, now - even.most)
    return Range(least, max(least, now - even.least))
