"""Constructs the hash pair <H_p, H_c> from hot keys, and from the function in use, by scan, redist, readj or level.

Gedik, "Partitioning functions for stateful data parallelism in stream processing", VLDB Journal 2014, sections 4.2 to
4.4. Each algorithm takes the mapping with the best utility at each of its steps. A constant resource is left out of the
balance penalty (section 4.4). Workers are counted from 0.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Floats, Int64s
from ..errors import SaltwiseValueError
from .aims import Aims
from .consistent_hash import REPLICAS, ConsistentHash
from .hash_pair import HashPair
from .partition_function import PartitionFunction
from .readj import level, readj
from .redist import redist
from .resources import allowed_deviation, check_frequencies, tracked, usage
from .scan import scan
from .utility import UTILITIES, Problem

ALGORITHMS = {"scan": scan, "redist": redist, "readj": readj, "level": level}
"""By the paper's names, and one of ours."""


def construct(
    keys: Int64s,
    frequencies: Floats,
    workers: int,
    previous: PartitionFunction | None = None,
    algorithm: str = "level",
    resources: str = Aims.resources,
    alpha: float = Aims.alpha,
    sigma: float = Aims.sigma,
    utility: str = Aims.utility,
    domain: int | None = Aims.domain,
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
        resources: what is balanced, as :class:`Aims` says, like `alpha`, `sigma` and `domain`.
        alpha: the max load by the min load that is tolerated.
        sigma: the part of the tolerated imbalance that one untracked key may use.
        utility: "A" is rho, "APM" rho + gamma, "APLM" rho + log(1 + gamma), "ATM" rho (1 + gamma), and "ATLM"
            rho (1 + log(1 + gamma)).
        domain: |D|, the number of different keys.
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
    aims = Aims(resources=resources, alpha=alpha, sigma=sigma, utility=utility, domain=domain)
    hashed = ConsistentHash(workers, key_type, replicas)
    return next_function(keys, frequencies, hashed, aims, previous=previous, algorithm=algorithm)


def next_function(
    keys: Int64s,
    frequencies: Floats,
    hashed: ConsistentHash,
    aims: Aims,
    *,
    previous: PartitionFunction | None = None,
    algorithm: str = "level",
) -> HashPair:
    """Return what :func:`construct` does.

    Args:
        keys: as there, like the next argument.
        frequencies: f(d).
        hashed: H_c, which places the keys that are not tracked.
        aims: what the function balances, and how well.
        previous: as there, like the next argument.
        algorithm: a name in :data:`ALGORITHMS`.

    Raises:
        SaltwiseValueError: an argument is not allowed.
    """
    if algorithm not in ALGORITHMS:
        raise SaltwiseValueError.unknown("algorithm", algorithm, ALGORITHMS)
    if previous is not None and previous.key_type != hashed.key_type:
        raise SaltwiseValueError(f"key_type is {hashed.key_type!r}; it must be {previous.key_type!r}, as in previous.")
    check_frequencies(keys, frequencies)
    hot = np.flatnonzero(tracked(frequencies, hashed.workers, aims))
    hot = hot[np.lexsort((keys[hot], -frequencies[hot]))]
    explicit = {}
    if len(hot) and hashed.workers > 1:
        problem = _problem(hot, keys, frequencies, aims, hashed=hashed, previous=previous)
        explicit = dict(zip(keys[hot].tolist(), ALGORITHMS[algorithm](problem).tolist(), strict=True))
    return HashPair(hashed.workers, hashed.key_type, explicit, hashed.replicas)


def _problem(
    hot: Int64s,
    keys: Int64s,
    frequencies: Floats,
    aims: Aims,
    *,
    hashed: ConsistentHash,
    previous: PartitionFunction | None,
) -> Problem:
    workers, share = hashed.workers, frequencies[hot]
    usages = [usage(share, resource) for resource in aims.resources if resource != "C"]
    old = hashed.place(keys[hot])
    state, gone = np.zeros(len(hot)), np.zeros(len(hot), np.bool_)
    moved, ideal = 0.0, 1.0
    if previous is not None:
        state = usage(share, aims.state)
        before = previous.place(keys[hot])
        gone = before >= workers
        old = np.where(gone, old, before)
        dropped = np.setdiff1d(previous.tracked, keys[hot]) if isinstance(previous, HashPair) else keys[:0]
        known = dict(zip(keys.tolist(), frequencies.tolist(), strict=True))
        dropped_state = usage(np.array([known.get(key, 0.0) for key in dropped.tolist()]), aims.state)
        moved = float(dropped_state[previous.place(dropped) != hashed.place(dropped)].sum())
        ideal = float(state.sum() + dropped_state.sum()) / workers
    return Problem(
        workers=workers,
        theta=allowed_deviation(aims.alpha, workers),
        utility=UTILITIES[aims.utility],
        frequency=share,
        usage=np.array(usages).reshape(len(usages), len(hot)),
        state=state,
        old=old,
        gone=gone,
        moved=moved,
        ideal=ideal,
    )
