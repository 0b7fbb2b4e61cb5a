"""Which keys of a stream are split, over which workers, and in which shares.

The head is the keys of at least theta in the recent past, d comes from Proposition 4.1 (Nasir et al., "When Two Choices
Are not Enough", sections III-A and IV-A), and the candidates of a key are F_1 ... F_d of its hash. In the paper a
source sends each message of a hot key to the least loaded candidate. Here a batch is split at once, and its shares
leave the candidates as even as that would.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Floats, Int32s
from ..options import EPSILON, default_theta
from ..sketches.sliding_counts import SlidingCounts
from .choices import find_optimal_choices
from .compiled_hash import worker_of


class HeadSplit(NamedTuple):
    """How the rows of one hot key are shared among its workers."""

    workers: Int32s
    """Its candidates, each one once."""
    until: Floats
    """The cumulative shares of the candidates; the last one is 1."""

    def place(self, parts: Floats) -> Int32s:
        """Return the worker of each row, given a number from 0 to 1 that depends on its content alone.

        >>> HeadSplit(np.array([4, 2], np.int32), np.array([0.75, 1.0])).place(np.array([0.1, 0.8]))
        array([4, 2], dtype=int32)
        """
        return np.asarray(self.workers[np.minimum(np.searchsorted(self.until, parts, "right"), len(self.workers) - 1)])


def head_splits(counts: SlidingCounts[int | None], workers: int) -> dict[int, HeadSplit]:
    """Return how each key of the head is split.

    Args:
        counts: rows by the hash of a key; None stands for all keys that are not known.
        workers: n.

    >>> counts = SlidingCounts(window=1000, epsilon=0.001)
    >>> counts.offer_together({7: 600, 8: 10, None: 390})
    >>> {key: split.workers.tolist() for key, split in head_splits(counts, workers=4).items()}
    {7: [0, 1, 2, 3]}
    """
    if workers < 2 or not counts.total:
        return {}
    frequent = counts.frequent(default_theta(workers))
    head = [(key, counted.estimate / counts.total) for key, counted in frequent if key is not None]
    d = find_optimal_choices([share for _, share in head], workers, EPSILON)
    load = np.full(workers, max(0.0, 1 - sum(share for _, share in head)) / workers)
    splits = {}
    for key, share in head:
        hashed = (worker_of(key, i, workers) for i in range(1, d + 1))
        candidates = np.array([*dict.fromkeys(range(workers) if d == workers else hashed)], np.int32)
        shares = _poured(load[candidates], share)
        load[candidates] += shares
        splits[key] = HeadSplit(candidates, np.cumsum(shares) / share)
    return splits


def _poured(load: Floats, share: float) -> Floats:
    """Return which part of a share each candidate gets, so that the least loaded are even afterwards.

    >>> _poured(np.array([0.2, 0.1, 0.5]), 0.3).round(3).tolist()
    [0.1, 0.2, 0.0]
    """
    order = np.argsort(load, kind="stable")
    filled = (np.cumsum(load[order]) + share) / np.arange(1, len(load) + 1)
    level = filled[np.flatnonzero(filled > load[order])[-1]]
    return np.asarray(np.maximum(0.0, level - load))
