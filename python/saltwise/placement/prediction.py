"""Predicts how evenly a placement spreads rows, from the heavy keys alone; no key is split."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._jit import COMPILED
from .consistent_hash import ConsistentHash
from .construct import construct
from .largest_first import largest_first
from .partition_function import PartitionFunction, UniformHash
from .result import max_to_mean


def predict_placements(keys: Sequence[tuple[int, float]], workers: int, theta: float) -> dict[str, float]:
    """Return the predicted max/mean of rows per worker under each placement.

    Rows of all other keys are assumed to be spread evenly by the hash.

    Args:
        keys: 64-bit hash and share of all rows of the heavy keys, each one once.
        workers: n.
        theta: ``level`` considers keys of at least this share.

    Returns:
        By strategy: ``hash``; ``consistent``; ``offgreedy``, which places these keys largest first; and ``level``,
        which starts from the consistent hash, because no function is in use. Without numba, ``level`` is left out: it
        would take minutes.

    >>> {name: round(value, 1) for name, value in predict_placements([(7, 0.5)], workers=4, theta=0.05).items()}
    {'hash': 2.5, 'consistent': 2.5, 'offgreedy': 2.5, 'level': 2.5}
    """
    hashes = np.array([key for key, _ in keys], np.int64)
    shares = np.array([share for _, share in keys], np.float64)
    head = shares >= theta
    functions: dict[str, PartitionFunction] = {
        "hash": UniformHash(workers),
        "consistent": ConsistentHash(workers),
        "offgreedy": largest_first(hashes, shares, workers, replicas=0),
    }
    if COMPILED:
        functions["level"] = construct(hashes[head], shares[head], workers, algorithm="level")
    return {name: max_to_mean(function, hashes, shares) for name, function in functions.items()}
