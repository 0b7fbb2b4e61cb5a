"""Largest first: the hottest key goes to the least loaded worker, then the next key. It ignores migration.

Graham, "Bounds on Multiprocessing Timing Anomalies", SIAM J. Appl. Math. 1969: longest processing time first. It is
the papers' baseline Off-Greedy, applied to the hot keys alone.
"""

from __future__ import annotations

import heapq

import numpy as np

from ..arrays import Floats, Int64s
from ..errors import check_whole
from .consistent_hash import REPLICAS
from .hash_pair import HashPair
from .resources import check_frequencies


def largest_first(
    keys: Int64s, frequencies: Floats, workers: int, key_type: str = "bigint", replicas: int = REPLICAS
) -> HashPair:
    """Return a partition function that places each of these keys and leaves all others to a hash.

    The fullest worker gets at most 4/3 of what the best placement of these keys would give it.

    Args:
        keys: hashes of the hot keys, shape (k,), each one once.
        frequencies: share of each key among all rows, shape (k,).
        workers: N.
        key_type: the keys' type in SQL.
        replicas: of each worker in the consistent hash; 0 means the uniform hash in its place.

    Raises:
        SaltwiseValueError: an argument is not allowed.

    >>> largest_first(np.array([7, 8, 9]), np.array([0.1, 0.2, 0.15]), workers=2).explicit
    {8: 0, 9: 1, 7: 1}
    """
    check_whole("workers", workers)
    check_frequencies(keys, frequencies)
    heap = [(0.0, worker) for worker in range(workers)]
    explicit = {}
    for key in np.lexsort((keys, -frequencies)):
        load, worker = heap[0]
        explicit[int(keys[key])] = worker
        heapq.heapreplace(heap, (load + float(frequencies[key]), worker))
    return HashPair(workers, key_type, explicit, replicas)
