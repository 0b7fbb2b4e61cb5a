"""The set-up of Gedik's experiments: workers are added one by one, each time with a new partition function.

Gedik, "Partitioning functions for stateful data parallelism in stream processing", VLDB Journal 2014, section 5.1.
Loads and migration are summed over all keys with their true Zipf frequencies.

What the paper leaves open, and how it is read here:

* **Uniform hash** is the rank of a key, from 0, modulo N, as the usual hash of a whole number in C++ gives it. Then the
  N - 1 hottest keys stay where they are when worker N is added, and about (N - 1)(1 - H(N - 1)/H(|D|)) times the ideal
  moves, H being harmonic numbers: 22.4 with 32 workers and a million keys (the paper: about 22), and 6.5 with ten
  workers and 10,000 keys (the paper: 6.5). With an independent hash it would be N - 1 = 31, and 9.
* **Runs** differ by the hash of the ring alone. The paper's five runs had the same ring, if keys are their ranks. Here
  each run has another one, and a claim is judged for each of them.
* **Frequencies**: the algorithms know the true ones, as after a long window. The paper does not say how long the window
  was. Where the size of the lossy counter is measured, they know what it found.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from saltwise.arrays import Int32s, Int64s
from saltwise.placement.aims import Aims
from saltwise.placement.consistent_hash import ConsistentHash
from saltwise.placement.construct import construct
from saltwise.placement.costs import imbalances, loads, migration_cost, relative_imbalance
from saltwise.placement.hash_pair import HashPair
from saltwise.placement.partition_function import PartitionFunction
from saltwise.placement.resources import threshold
from saltwise.sketches.sliding_counts import SlidingCounts

RUNS = 5
"""The runs over which sizes and times are averaged."""
RINGS = 10
"""The rings over which migration and imbalance are averaged. Claims are judged with each of them."""
CONSTRUCTED = ("scan", "redist", "readj")
"""The algorithms of section 4.2."""
TECHNIQUES = ("uniform", "consistent", *CONSTRUCTED)
CHUNK = 1_000_000
"""The keys that are processed together."""
WINDOW = 1_000_000
"""The largest number of rows of the sliding window. With fewer keys, the window has as many rows as there are keys."""
ERROR = 0.1
"""The error of the lossy counters, as a part of the threshold delta: the typical part in section 4.1.2."""

_EACH = "CLQ"


class Modulo(PartitionFunction):
    """Uniform hash of keys that are numbers: they are their own hash."""

    def place(self, hashes: Int64s) -> Int32s:
        return (hashes % self.workers).astype(np.int32)


_FUNCTIONS: dict[str, type[PartitionFunction]] = {"uniform": Modulo, "consistent": ConsistentHash}


@dataclass(frozen=True)
class Setting:
    """One point of a figure; the defaults are those of table 1."""

    domain: int
    """|D|."""
    z: float = 1.0
    resources: str = "LCL"
    workers: int = 10
    """N, reached one by one."""
    sigma: float = 0.1
    utility: str = "APM"
    counts: bool = False
    """Whether the algorithms know what a lossy counter found, in place of the true frequencies."""

    @property
    def delta(self) -> float:
        """The threshold for N workers."""
        return threshold(Aims(self.resources, sigma=self.sigma, domain=self.domain), self.workers)


class Step(NamedTuple):
    """The results of one adaptation, to N workers."""

    imbalance: float
    """b."""
    migration: float
    """m."""
    each: NDArray[np.float64]
    """b_k of state, computation and communication."""
    mappings: int
    """Keys in H_p."""
    seconds: float
    """To construct the function, consistent hash included."""

    @property
    def objective(self) -> float:
        """b (1 + m) (equation 13)."""
        return self.imbalance * (1 + self.migration)


class Sums(NamedTuple):
    """The effect of a function without tracked keys on all keys, when the last worker is added."""

    loads: NDArray[np.float64]
    """For each kind of resource and each worker, shape (3, N)."""
    moved: NDArray[np.float64]
    """State that moves, for each kind of resource function, shape (3,)."""


class Known(NamedTuple):
    """What the algorithms know of the keys."""

    ranks: Int64s
    """Of the keys that may be frequent, at least 0."""
    frequencies: NDArray[np.float64]
    kept: float
    """Items in the lossy counter, as a mean over its last two buckets; 0 if nothing was counted."""


def adapt(setting: Setting, technique: str, run: int) -> Step:
    """Return the results of the last adaptation of a setting."""
    return steps(setting, technique, run, (setting.workers,))[0]


@lru_cache(maxsize=4096)
def steps(setting: Setting, technique: str, run: int, at: tuple[int, ...]) -> list[Step]:
    """Return the results of the adaptations to these numbers of workers. Workers are still added one by one."""
    known = count(setting, run) if setting.counts else _true(setting)
    found = []
    function: PartitionFunction = ConsistentHash(1)
    for workers in range(2, setting.workers + 1):
        started = time.perf_counter()
        before, function = function, _next(setting, technique, run, known, workers, function)
        seconds = time.perf_counter() - started
        if workers in at:
            found.append(_measured(setting, run, known, before, function, seconds))
    return found


def _true(setting: Setting) -> Known:
    """Return the keys of at least delta, as the algorithms know them after a long window."""
    first = min(setting.domain, CHUNK)
    shares = np.arange(1, first + 1.0) ** -setting.z / _weight(setting.domain, setting.z)
    ranks = np.flatnonzero(shares >= setting.delta)
    return Known(ranks, shares[ranks], 0.0)


def count(setting: Setting, run: int) -> Known:
    """Return what the lossy counters found at the end of a window."""
    return _count(setting.domain, setting.z, setting.delta, run)


@cache
def _count(domain: int, z: float, delta: float, run: int) -> Known:
    if delta >= 1:
        return Known(np.empty(0, np.int64), np.empty(0), 0.0)
    rows = min(domain, WINDOW) // 2 * 2
    recent: SlidingCounts[int] = SlidingCounts(rows, ERROR * delta)
    sizes = []
    for row, rank in enumerate(_draw(domain, z, rows, run)):
        recent.offer(rank)
        if row >= rows - 2 / (ERROR * delta):  # the counter grows within a bucket, so the mean is over two buckets
            sizes.append(len(recent))
    frequent = recent.frequent(delta)
    ranks = np.array([rank for rank, _ in frequent], np.int64)
    shares = np.array([bounds.estimate for _, bounds in frequent]) / recent.total
    return Known(ranks, shares, float(np.mean(sizes)))


@lru_cache(maxsize=1)
def _draw(domain: int, z: float, rows: int, run: int) -> list[int]:
    """Return the ranks of independent rows."""
    rng = np.random.default_rng([domain, run])
    shares = [float(frequencies.sum()) for _, frequencies in _chunks(domain, z)]
    in_chunk = rng.multinomial(rows, np.array(shares) / sum(shares))
    ranks = [
        first + np.repeat(np.arange(len(frequencies)), rng.multinomial(count, frequencies / frequencies.sum()))
        for (first, frequencies), count in zip(_chunks(domain, z), in_chunk.tolist(), strict=True)
    ]
    return [int(rank) for rank in rng.permutation(np.concatenate(ranks))]


def _chunks(domain: int, z: float) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Yield the Zipf frequencies of all keys by rank, and the first rank of each chunk."""
    whole = _weight(domain, z)
    for first in range(0, domain, CHUNK):
        yield first, np.arange(first + 1, min(first + CHUNK, domain) + 1, dtype=float) ** -z / whole


@cache
def _weight(domain: int, z: float) -> float:
    return float(sum((np.arange(i + 1, min(i + CHUNK, domain) + 1.0) ** -z).sum() for i in range(0, domain, CHUNK)))


@lru_cache(maxsize=2 * RINGS)
def _hashes(kind: str, domain: int, first: int, run: int) -> Int64s:
    """Return the hashes of a chunk of keys: their ranks for the uniform hash, and random numbers for the ring."""
    if kind == "uniform":
        return np.arange(first, min(first + CHUNK, domain))
    long = np.iinfo(np.int64)
    return np.random.default_rng([domain, first, run]).integers(
        long.min, long.max, min(CHUNK, domain - first), endpoint=True
    )


@lru_cache(maxsize=8 * RINGS)
def _placed(kind: str, workers: int, domain: int, first: int, run: int) -> Int32s:
    return _FUNCTIONS[kind](workers).place(_hashes(kind, domain, first, run))


@cache
def _sums(kind: str, domain: int, z: float, workers: int, run: int) -> Sums:
    total = Sums(np.zeros((3, workers)), np.zeros(3))
    for first, frequencies in _chunks(domain, z):
        before, after = (_placed(kind, n, domain, first, run) for n in (workers - 1, workers))
        total.loads[:] += loads(after, frequencies, workers, _EACH)
        total.moved[:] += [migration_cost(before, after, frequencies, resource) for resource in _EACH]
    return total


def _next(
    setting: Setting, technique: str, run: int, known: Known, workers: int, previous: PartitionFunction
) -> PartitionFunction:
    if technique in _FUNCTIONS:
        function = _FUNCTIONS[technique](workers)
        function.place(np.zeros(1, np.int64))  # the ring is made at the first look-up
        return function
    return construct(
        _hashes("consistent", setting.domain, 0, run)[known.ranks],
        known.frequencies,
        workers,
        previous,
        technique,
        setting.resources,
        sigma=setting.sigma,
        utility=setting.utility,
        domain=setting.domain,
    )


def _measured(
    setting: Setting, run: int, known: Known, before: PartitionFunction, after: PartitionFunction, seconds: float
) -> Step:
    workers = after.workers
    kind = "uniform" if isinstance(after, Modulo) else "consistent"
    whole = _sums(kind, setting.domain, setting.z, workers, 0 if kind == "uniform" else run)
    keys = _hashes(kind, setting.domain, 0, run)[known.ranks]
    frequencies = np.asarray((known.ranks + 1.0) ** -setting.z / _weight(setting.domain, setting.z), np.float64)
    # The hash places all keys, except those that may be tracked: the function may place these elsewhere.
    hash_before, hash_after = (_FUNCTIONS[kind](n).place(keys) for n in (workers - 1, workers))
    placed_before, placed_after = before.place(keys), after.place(keys)
    of_hash = loads(hash_after, frequencies, workers, _EACH)
    found = np.asarray(whole.loads - of_hash + loads(placed_after, frequencies, workers, _EACH), np.float64)
    moved = [
        total
        - migration_cost(hash_before, hash_after, frequencies, resource)
        + migration_cost(placed_before, placed_after, frequencies, resource)
        for total, resource in zip(whole.moved, _EACH, strict=True)
    ]
    mappings = len(after.explicit) if isinstance(after, HashPair) else 0
    chosen = [_EACH.index(resource) for resource in setting.resources]
    ideal = found[chosen[0]].sum() / workers
    return Step(
        relative_imbalance(found[chosen]),
        moved[chosen[0]] / ideal,
        imbalances(found[chosen]) / Aims.alpha,
        mappings,
        seconds,
    )
