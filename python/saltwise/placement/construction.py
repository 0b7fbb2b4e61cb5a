"""Constructs the hash pair <H_p, H_c> from hot keys, and from the function in use: scan, redist and readj, compiled.

Gedik, "Partitioning functions for stateful data parallelism in stream processing", VLDB Journal 2014, sections 4.2 to
4.4, Algorithms 2 to 4. Each step takes the mapping with the best utility U(rho, gamma), the lowest; rho is the balance
penalty of the keys placed so far (equations 19 and 20), gamma their migration penalty (equation 18). A constant
resource is left out of rho (section 4.4). Workers are counted from 0.

With R tracked keys and N workers, scan takes O(R N), redist O(R^2 N), and a step of readj O(R^2 + R N): where the paper
keeps loads in balanced trees, at log N a candidate, the two lowest and the highest load are enough here.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .._jit import inlined, jit
from ..errors import SaltwiseValueError
from ..splitting.schemes import Ints, Longs
from .consistent_hash import REPLICAS, ConsistentHash
from .hash_pair import HashPair
from .partition_function import PartitionFunction
from .resources import ALPHA, SIGMA, Floats, allowed_deviation, check_frequencies, tracked, usage

A, APM, APLM, ATM, ATLM = range(5)
UTILITIES = {"A": A, "APM": APM, "APLM": APLM, "ATM": ATM, "ATLM": ATLM}
"""How balance and migration penalty make one number (section 4.3), by the paper's names."""

MOVES = 5
"""How often readj moves one key at most, the c of section 4.2.4. It bounds the time, and may end the search early."""

EXACT = 1e-12
"""Part of a load by which two sums of the same numbers may differ."""

SAME = 1e-9
"""Part of a gain by which two equal ones may differ."""


def construct(
    keys: Longs,
    frequencies: Floats,
    workers: int,
    previous: PartitionFunction | None = None,
    algorithm: str = "readj",
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
        keys: hashes of keys that may be hot, shape (k,), each one once; those from the threshold delta on are tracked.
        frequencies: f(d), the share of each key among all rows, shape (k,).
        workers: N of the new function.
        previous: the function in use, p(t); None where no state is there that could move.
        algorithm: "scan" places the keys by descending frequency, "redist" in the order that serves the utility best,
            and "readj" begins with what is in use and improves it by moves and swaps.
        resources: letters of the resource functions of state, computation and communication: C (constant), L (linear)
            or Q (quadratic).
        alpha: max load by min load that is tolerated, above 1.
        sigma: which part of the tolerated imbalance an untracked key may use up, above 0 and at most 1.
        utility: "A" is rho, "APM" rho + gamma, "APLM" rho + log(1 + gamma), "ATM" rho (1 + gamma), and "ATLM"
            rho (1 + log(1 + gamma)).
        domain: |D|, how many different keys there are; needed where a resource is quadratic.
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
    start = _start(keys, frequencies, hot, consistent, previous, resources, alpha, UTILITIES[utility])
    placed = ALGORITHMS[algorithm](start) if len(hot) else np.empty(0, np.int32)
    return HashPair(workers, key_type, dict(zip(keys[hot].tolist(), placed.tolist(), strict=True)), replicas)


class Start(NamedTuple):
    """With what all three algorithms begin. Tracked keys come by descending frequency."""

    workers: int
    theta: float
    utility: int
    frequency: Floats
    """f(d) of each tracked key, shape (R,)."""
    usage: Floats
    """beta_k(f(d)) of the resources that count, shape (K, R)."""
    state: Floats
    """beta_s(f(d)), what it costs to move a key; 0 where nothing is in use yet."""
    old: Ints
    """p(t)(d), or H_c(d) where that worker is no more, or where nothing is in use yet."""
    gone: npt.NDArray[np.bool_]
    """Whether the worker p(t)(d) is no more, so that the key has to move."""
    moved: float
    """m: what moves because keys are tracked no more."""
    ideal: float
    """m-bar: the ideal migration cost of all keys that are or were tracked."""


def _start(
    keys: Longs,
    frequencies: Floats,
    hot: npt.NDArray[np.int64],
    consistent: ConsistentHash,
    previous: PartitionFunction | None,
    resources: str,
    alpha: float,
    utility: int,
) -> Start:
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
    return Start(
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


@inlined
def _utility_of(utility: int, rho: float, gamma: float) -> float:
    if utility == APM:
        return rho + gamma
    if utility == APLM:
        return rho + math.log(1 + gamma)
    if utility == ATM:
        return rho * (1 + gamma)
    if utility == ATLM:
        return rho * (1 + math.log(1 + gamma))
    return rho


class Loads(NamedTuple):
    """The loads of the keys placed so far, and what of them a further key can change."""

    of: Floats
    """L_k(i), shape (K, N)."""
    total: Floats
    """Of each resource, shape (K,), as the next three."""
    highest: Floats
    lowest: Floats
    second: Floats
    """The lowest load of all workers but `emptiest`."""
    emptiest: Ints


@jit
def _no_loads(resources: int, workers: int) -> Loads:
    zeros = np.zeros(resources)
    return Loads(
        np.zeros((resources, workers)), zeros, zeros.copy(), zeros.copy(), zeros.copy(), np.zeros(resources, np.int32)
    )


@jit
def _add(loads: Loads, s: Start, key: int, worker: int) -> None:
    for k in range(len(loads.total)):
        load = loads.of[k]
        load[worker] += s.usage[k, key]
        loads.total[k] += s.usage[k, key]
        loads.highest[k] = max(loads.highest[k], load[worker])
        emptiest = 0 if load[0] <= load[1] else 1
        second = 1 - emptiest
        for i in range(2, len(load)):
            if load[i] < load[emptiest]:
                second = emptiest
                emptiest = i
            elif load[i] < load[second]:
                second = i
        loads.emptiest[k] = emptiest
        loads.lowest[k] = load[emptiest]
        loads.second[k] = load[second]


@inlined
def _mean_of(product: float, resources: int) -> float:
    """Return the geometric mean of so many numbers; roots cost less than a power, and there are three at most."""
    return float(np.cbrt(product)) if resources == 3 else math.sqrt(product) if resources == 2 else product


@inlined
def _migration(s: Start, key: int, worker: int) -> float:
    """What moving the key costs, if it goes to this worker."""
    return s.state[key] if s.gone[key] or worker != s.old[key] else 0.0


@jit
def _best_placement(s: Start, loads: Loads, m: float, key: int) -> tuple[int, float]:
    """Return the worker on which the key has the best utility, the emptier one of equals, and that utility."""
    of, usage, old, resources = loads.of, s.usage, s.old[key], len(s.usage)
    highest, lowest, second, emptiest = loads.highest, loads.lowest, loads.second, loads.emptiest
    state, gone = s.state[key], s.gone[key]
    scale = 1.0
    for k in range(resources):
        scale *= s.workers / (s.theta * (loads.total[k] + usage[k, key]))
    best, u = -1, np.inf
    for worker in range(s.workers):
        product = scale
        for k in range(resources):
            load = of[k, worker] + usage[k, key]
            product *= max(highest[k], load) - (min(second[k], load) if worker == emptiest[k] else lowest[k])
        gamma = (m + (state if gone or worker != old else 0.0)) / s.ideal
        u2 = _utility_of(s.utility, _mean_of(product, resources), gamma)
        if u2 < u or (u2 == u and resources > 0 and of[-1, worker] < of[-1, best]):
            best, u = worker, u2
    return best, u


@jit
def _scan(s: Start) -> Ints:
    """Algorithm 2: place each key, by descending frequency, where the utility is best."""
    placed = np.empty(len(s.frequency), np.int32)
    loads = _no_loads(len(s.usage), s.workers)
    m = s.moved
    for d in range(len(placed)):
        j, _ = _best_placement(s, loads, m, d)
        m += _migration(s, d, j)
        _add(loads, s, d, j)
        placed[d] = j
    return placed


@jit
def _redist(s: Start) -> Ints:
    """Algorithm 3: at each step, place the key that brings the best utility by its frequency."""
    placed = np.full(len(s.frequency), -1, np.int32)
    loads = _no_loads(len(s.usage), s.workers)
    m = s.moved
    for _ in range(len(placed)):
        d, j, u = -1, -1, np.inf
        for c in range(len(placed)):
            if placed[c] < 0:
                worker, u2 = _best_placement(s, loads, m, c)
                if u2 / s.frequency[c] < u:
                    d, j, u = c, worker, u2 / s.frequency[c]
        m += _migration(s, d, j)
        _add(loads, s, d, j)
        placed[d] = j
    return placed


@jit
def _readj(s: Start) -> Ints:
    """Algorithm 4: keys stay where they are, and the move or swap of the best gain is made until none helps balance.

    The gain is by how much the utility falls, by frequency moved. The utility is that of the mapping at hand; the
    paper's listing overwrites it while it still compares candidates. What is made need not have a gain, but has to
    lessen the balance penalty. Or, beyond the paper, to leave it, and to narrow the gap between a fullest or an
    emptiest worker and another: counts tie, and where two workers are the emptiest, no single move lessens the penalty.
    """
    placed = s.old.copy()
    keys, workers, resources = len(placed), s.workers, len(s.usage)
    left = np.full(keys, MOVES, np.int32)
    m = s.moved + (s.state * s.gone).sum()
    high, low = np.empty(resources), np.empty(resources)
    while True:
        loads = np.zeros((resources, workers))
        for k in range(resources):
            for d in range(keys):
                loads[k, placed[d]] += s.usage[k, d]
        scale = 1.0
        product = 1.0
        for k in range(resources):
            scale *= workers / (s.theta * loads[k].sum())
            product *= loads[k].max() - loads[k].min()
        product *= scale
        u = _utility_of(s.utility, _mean_of(product, resources), m / s.ideal)
        ranked = np.empty((resources, workers), np.int64)  # workers by load
        for k in range(resources):
            ranked[k] = np.argsort(loads[k])
        members = np.argsort(placed)
        edges = np.searchsorted(placed[members], np.arange(workers + 1))
        best_gain, best_distance, best_m = -np.inf, 0.0, 0.0
        best_1, best_2, best_j = -1, -1, -1
        for i in range(workers):
            for j in range(workers):
                if i == j:
                    continue
                _extremes_of_others(loads, ranked, i, j, high, low)
                at_an_end, old_gap = False, 0.0
                if resources > 0:
                    old_gap = abs(loads[-1, i] - loads[-1, j])
                    at_an_end = max(loads[-1, i], loads[-1, j]) >= loads[-1].max() * (1 - EXACT) or min(
                        loads[-1, i], loads[-1, j]
                    ) <= loads[-1].min() * (1 + EXACT)
                for at_1 in range(edges[i], edges[i + 1]):
                    d1 = members[at_1]
                    if left[d1] == 0:
                        continue
                    # Each swap is met once, a move (d2 = -1) from either side.
                    for at_2 in range(edges[j] - 1, edges[j + 1] if i < j else edges[j]):
                        d2 = -1 if at_2 < edges[j] else members[at_2]
                        if d2 >= 0 and left[d2] == 0:
                            continue
                        product_2 = scale
                        gap = 0.0
                        for k in range(resources):
                            shift = s.usage[k, d1] - (s.usage[k, d2] if d2 >= 0 else 0.0)
                            load_i, load_j = loads[k, i] - shift, loads[k, j] + shift
                            product_2 *= max(high[k], load_i, load_j) - min(low[k], load_i, load_j)
                            gap = abs(load_i - load_j)
                        # The mean over resources is monotone, so that the products can be compared.
                        better = product_2 < product * (1 - EXACT)
                        levels = at_an_end and product_2 <= product * (1 + EXACT) and gap < old_gap * (1 - EXACT)
                        if not (better or levels):
                            continue
                        m2 = m + _migration(s, d1, j) - _migration(s, d1, i)
                        distance = s.frequency[d1]
                        if d2 >= 0:
                            m2 += _migration(s, d2, i) - _migration(s, d2, j)
                            distance = abs(distance - s.frequency[d2])
                        u2 = _utility_of(s.utility, _mean_of(product_2, resources), m2 / s.ideal)
                        gain = (u - u2) / distance
                        # The gain is the same wherever one end of a linear load moves: larger steps need fewer of them.
                        margin = SAME * abs(gain)
                        if gain > best_gain + margin or (gain >= best_gain - margin and distance > best_distance):
                            best_gain, best_distance, best_m = gain, distance, m2
                            best_1, best_2, best_j = d1, d2, j
        if best_1 < 0:
            return placed
        if best_2 >= 0:
            placed[best_2] = placed[best_1]
            left[best_2] -= 1
        placed[best_1] = best_j
        left[best_1] -= 1
        m = best_m


@inlined
def _extremes_of_others(
    loads: Floats, ranked: npt.NDArray[np.int64], i: int, j: int, high: Floats, low: Floats
) -> None:
    """Set the highest and the lowest load of all workers but i and j, on each resource."""
    workers = loads.shape[1]
    for k in range(len(loads)):
        high[k], low[k] = -np.inf, np.inf
        for rank in range(min(3, workers)):
            top, bottom = ranked[k, workers - 1 - rank], ranked[k, rank]
            if top not in (i, j):
                high[k] = max(high[k], loads[k, top])
            if bottom not in (i, j):
                low[k] = min(low[k], loads[k, bottom])


ALGORITHMS = {"scan": _scan, "redist": _redist, "readj": _readj}
"""The construction algorithms by the paper's names."""
