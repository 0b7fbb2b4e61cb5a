"""Constructs the hash pair <H_p, H_c> from hot keys, and from the function in use, by scan, redist, readj or level.

Gedik, "Partitioning functions for stateful data parallelism in stream processing", VLDB Journal 2014, sections 4.2 to
4.4. Each algorithm takes the mapping with the best utility at each of its steps. A constant resource is left out of the
balance penalty (section 4.4). Workers are counted from 0.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..errors import SaltwiseValueError
from ..splitting.compiled_hash import Longs
from .consistent_hash import REPLICAS, ConsistentHash
from .hash_pair import HashPair
from .partition_function import PartitionFunction
from .readj import level, readj
from .redist import redist
from .resources import ALPHA, SIGMA, Floats, allowed_deviation, check_frequencies, tracked, usage
from .scan import scan
from .utility import UTILITIES, Problem

ALGORITHMS = {"scan": scan, "redist": redist, "readj": readj, "level": level}
"""By the paper's names, and one of ours."""


def construct(
    keys: Longs,
    frequencies: Floats,
    workers: int,
    previous: PartitionFunction | None = None,
    algorithm: str = "level",
    resources: str = "LCL",
    alpha: float = ALPHA,
    sigma: float = SIGMA,
    utility: str = "APM",
    domain: int | None = None,
    key_type: str = "bigint",
    replicas: int = REPLICAS,
) -> HashPair:
    """Return the partition function to use next, p(t+1).

    Args:
        keys: hashes of keys that may be hot, shape (k,), each one once. Those of at least delta are tracked.
        frequencies: f(d), the share of each key among all rows, shape (k,).
        workers: N of the new function.
        previous: the function in use, p(t); None if there is no state that could move.
        algorithm: "scan" places the keys by descending frequency. "redist" places them in the order that is best for
            the utility. "readj" starts with the function in use and improves it by moves and swaps. "level" is readj
            that also levels workers that tie.
        resources: letters of the resource functions of state, computation and communication: C (constant), L (linear)
            or Q (quadratic).
        alpha: the max load by the min load that is tolerated, above 1.
        sigma: the part of the tolerated imbalance that one untracked key may use, above 0 and at most 1.
        utility: "A" is rho, "APM" rho + gamma, "APLM" rho + log(1 + gamma), "ATM" rho (1 + gamma), and "ATLM"
            rho (1 + log(1 + gamma)).
        domain: |D|, the number of different keys; needed if a resource is quadratic.
        key_type: the keys' type in SQL.
        replicas: of each worker in the consistent hash.

    Raises:
        SaltwiseValueError: an argument is not allowed.

    >>> keys, frequencies = np.array([7, 8, 9]), np.array([0.1, 0.2, 0.15])
    >>> two = construct(keys, frequencies, workers=2)
    >>> two.place(keys)
    array([0, 1, 0], dtype=int32)
    >>> construct(keys, frequencies, workers=3, previous=two).place(keys)
    array([2, 1, 0], dtype=int32)
    """
    for what, given, allowed in ("algorithm", algorithm, ALGORITHMS), ("utility", utility, UTILITIES):
        if given not in allowed:
            raise SaltwiseValueError.unknown(what, given, allowed)
    if previous is not None and previous.key_type != key_type:
        raise SaltwiseValueError(f"key_type is {key_type!r}; it must be {previous.key_type!r}, as in previous.")
    check_frequencies(keys, frequencies)
    consistent = ConsistentHash(workers, key_type, replicas)
    hot = np.flatnonzero(tracked(frequencies, resources, workers, alpha, sigma, domain))
    hot = hot[np.lexsort((keys[hot], -frequencies[hot]))]
    problem = _problem(keys, frequencies, hot, consistent, previous, resources, alpha, UTILITIES[utility])
    placed = ALGORITHMS[algorithm](problem) if len(hot) else np.empty(0, np.int32)
    return HashPair(workers, key_type, dict(zip(keys[hot].tolist(), placed.tolist(), strict=True)), replicas)


def _problem(
    keys: Longs,
    frequencies: Floats,
    hot: npt.NDArray[np.int64],
    consistent: ConsistentHash,
    previous: PartitionFunction | None,
    resources: str,
    alpha: float,
    utility: int,
) -> Problem:
    workers, share = consistent.workers, frequencies[hot]
    counting = [usage(share, resource) for resource in resources if resource != "C"]
    old = consistent.place(keys[hot])
    state, gone = np.zeros(len(hot)), np.zeros(len(hot), np.bool_)
    moved, ideal = 0.0, 1.0
    if previous is not None:
        state = usage(share, resources[0])
        before = previous.place(keys[hot])
        gone = before >= workers
        old = np.where(gone, old, before)
        dropped = np.setdiff1d(previous.tracked, keys[hot]) if isinstance(previous, HashPair) else keys[:0]
        known = dict(zip(keys.tolist(), frequencies.tolist(), strict=True))
        dropped_state = usage(np.array([known.get(key, 0.0) for key in dropped.tolist()]), resources[0])
        moved = float(dropped_state[previous.place(dropped) != consistent.place(dropped)].sum())
        ideal = float(state.sum() + dropped_state.sum()) / workers
    return Problem(
        workers,
        allowed_deviation(alpha, workers),
        utility,
        share,
        np.array(counting).reshape(len(counting), len(hot)),
        state,
        old,
        gone,
        moved,
        ideal,
    )
