"""Predicts how evenly a strategy spreads rows, from the heavy keys alone."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

from ..hashing import candidates
from ..options import EPSILON
from ..strategies import ROUTING, STRATEGIES
from .choices import find_optimal_choices

PREDICTED = ("hash", "split", *(name for name in ROUTING if name not in ("hash", "shuffle")), "shuffle")
"""Strategies whose balance is predicted."""

OVERSIZE = 1.5
"""``split`` splits a partition that has more than this multiple of a task's even share."""


def predict(
    keys: Sequence[tuple[int, float]], strategy: str, workers: int, theta: float, epsilon: float = EPSILON
) -> float:
    """Return the predicted max/mean of rows per worker.

    The heavy keys flow at the same rate until their shares are used up. Each fills the least loaded of its candidates:
    the Greedy-d process of the papers, applied to a fluid. Keys that may go anywhere, and unknown keys, then fill the
    least loaded workers. With ``hash`` and ``split``, unknown keys fill all workers evenly. With ``split`` the workers
    are partitions, which about n tasks read: oversize ones are cut into even slices, and the others are packed, the
    largest first.

    Args:
        keys: 64-bit hash and share of all rows of the heavy keys.
        strategy: one of PREDICTED.
        workers: n.
        theta: share from which a key is in the head.
        epsilon: imbalance that D-Choices may leave.

    >>> round(predict([(42, 0.5)], "hash", workers=10, theta=0.02), 3)
    5.5
    >>> round(predict([(42, 0.5)], "split", workers=100, theta=0.002), 3)
    1.01
    >>> round(predict([(42, 0.5)], "wchoices", workers=10, theta=0.02), 3)
    1.0
    """
    if strategy == "shuffle":
        return 1.0
    ranked = sorted(keys, key=lambda key: -key[1])
    head = [share for _, share in ranked if share >= theta]
    hot_choices = STRATEGIES[strategy].choices
    if isinstance(hot_choices, int):
        d = min(hot_choices, workers)
    else:
        d = find_optimal_choices(head, workers, epsilon) if hot_choices == "d" else workers

    def choices(share: float) -> int:
        return d if share >= theta else min(d, 2)

    load = [0.0] * workers
    portion = 1 / (200 * workers)
    pending = [
        (share, 0.0, candidates(key, choices(share), workers)) for key, share in ranked if choices(share) < workers
    ]
    anywhere = math.fsum(share for _, share in ranked if choices(share) >= workers)
    turn = 0
    while pending:
        turn += 1
        rest = []
        for share, poured, allowed in pending:
            due = min(share, turn * portion)
            # A pour takes time for each candidate, so it waits until there is half a portion for each.
            if due == share or turn % math.ceil(len(allowed) / 2) == 0:
                level = _level([load[worker] for worker in allowed], due - poured)
                for worker in allowed:
                    load[worker] = max(load[worker], level)
                poured = due
            if poured < share:
                rest.append((share, poured, allowed))
        pending = rest
    tail = max(0.0, 1 - math.fsum(share for _, share in ranked))
    if strategy == "hash":
        return (max(load) + tail / workers) * workers
    if strategy == "split":
        return _split([key + tail / workers for key in load])
    return max(max(load), _level(load, anywhere + tail)) * workers


def _split(load: Sequence[float]) -> float:
    """Return max/mean of the tasks that read partitions of these shares."""
    tasks = len(load)
    oversize = [share for share in load if share * tasks > OVERSIZE]
    whole = sorted((share for share in load if share * tasks <= OVERSIZE), reverse=True)
    slices = [(share / pieces, pieces) for share in oversize for pieces in [math.ceil(share * tasks)]]
    packed = [0.0] * max(1, round(math.fsum(whole) * tasks))
    for share in whole:
        heapq.heapreplace(packed, packed[0] + share)
    number = sum(pieces for _, pieces in slices) + len(packed)
    return max([*packed, *(size for size, _ in slices)]) * number


def _level(load: Sequence[float], amount: float) -> float:
    """Return how high `amount` stands when it is poured over `load`, lowest first."""
    lowest = sorted(load)
    below = 0.0
    for count, height in enumerate(lowest, start=1):
        below += height
        level = (below + amount) / count
        if count == len(lowest) or level <= lowest[count]:
            return level
    return 0.0
