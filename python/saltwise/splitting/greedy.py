"""The greedy baselines of the papers: Greedy-d splits keys; PoTC, On-Greedy and Off-Greedy give each key one worker.

Nasir et al., "Partial Key Grouping: Load-Balanced Partitioning of Distributed Streams".
"""

from __future__ import annotations

import heapq

import numpy as np

from .._jit import inlined
from ..arrays import Int32s, Int64s
from ..sketches.stream_summary import Records
from .compiled_hash import worker_of
from .pkg import less_loaded
from .source import POTC


@inlined
def greedy_d(key: Records, d: int, load: Int64s) -> int:
    """Greedy-d: the least loaded of F_1(key) ... F_d(key). Of equal ones the first wins."""
    best = int(key["first"])
    for j in range(2, d + 1):
        other = worker_of(key["hash"], j, len(load))
        if load[other] < load[best]:
            best = other
    return best


@inlined
def placed_once(key: Records, scheme: int, load: Int64s, index: int) -> int:
    """The worker of a key that is never split. A new key is placed by PoTC or On-Greedy; Off-Greedy has no new keys."""
    if key["placed"] < 0:
        key["placed"] = less_loaded(key, load, index) if scheme == POTC else np.argmin(load)
    return int(key["placed"])


def off_greedy(ids: Int32s, keys: int, workers: int) -> Int32s:
    """Off-Greedy: place keys by descending frequency on the least loaded worker. Of equal keys the first seen is first.

    Args:
        ids: the key of each message, shape (m,).
        keys: how many keys there are.
        workers: n.

    Returns:
        The worker of each key, shape (keys,).

    >>> off_greedy(np.array([0, 1, 2, 1]), keys=3, workers=2)
    array([1, 0, 1], dtype=int32)
    """
    counts = np.bincount(ids, minlength=keys)
    first_seen = np.empty(keys, np.int64)
    first_seen[ids[::-1]] = np.arange(len(ids) - 1, -1, -1)
    heap = [(0, worker) for worker in range(workers)]
    placed = np.empty(keys, np.int32)
    for key in np.lexsort((first_seen, -counts)):
        load, worker = heap[0]
        placed[key] = worker
        heapq.heapreplace(heap, (load + int(counts[key]), worker))
    return placed
