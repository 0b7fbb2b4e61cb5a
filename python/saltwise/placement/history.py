"""What placement remembers from run to run: the function in use, and which keys were heavy recently.

Gedik, "Partitioning functions for stateful data parallelism in stream processing", VLDB Journal 2014: the function
p(t) and the sliding lossy counters of section 4.1.2 make p(t+1) (section 4.2), which costs b (equation 11) and m
(equation 12).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import SaltwiseValueError, check_whole
from ..hashing import MAX_HASH, MIN_HASH
from ..sketches.lossy_counting import LossyCounting
from ..sketches.sliding_counts import SlidingCounts
from .aims import DEFAULT_AIMS, Aims
from .consistent_hash import ConsistentHash
from .construct import ALGORITHMS, next_function
from .function_json import from_json, to_json
from .largest_first import largest_first
from .partition_function import PartitionFunction
from .resources import threshold, tracked
from .result import KEPT, LARGEST_FIRST, Placement, imbalance_of, loads_of, migration_between, placement_of
from .weights import KnownKeys, Weights

WINDOW = 10_000_000
"""W, in rows. The counts cover the last runs that have W rows together: at most 3/2 W rows and one run."""

PARTS = 1000
"""Weights are counted in whole thousandths."""

EPSILON = 1e-6
"""A key with a smaller share of the window may be forgotten. This is far below delta for some thousand workers."""

PAYS_WITHIN = 10
"""A move must pay for itself within this many windows: the rows that the fullest worker saves are then as many as the
state that moves had in one window."""

MAX_ROWS = 1 << 100
"""More than any window has, counted in thousandths of rows."""

COUNTERS_PER_KEY = 10
"""Counters for each key that may need a worker: counts are then wrong by delta / 10 at most (section 4.1.2)."""


def keys_to_track(workers: int, aims: Aims = DEFAULT_AIMS) -> int:
    """Return how many keys may need a worker of their own: no more have a share of at least delta (equation 17).

    >>> keys_to_track(10), keys_to_track(10, Aims(sigma=0.05))
    (567, 1134)
    """
    return math.ceil(1 / threshold(aims, workers))


class PlacementHistory:
    """The function in use and the sliding counts. :meth:`next` changes both.

    Args:
        aims: what the functions balance.

    >>> history = PlacementHistory()
    >>> run = Weights("string", np.array([7, 8, 9]), np.array([100.0, 200.0, 150.0]), total=450.0)
    >>> history.next(run, workers=2).function.place(run.keys)
    array([1, 0, 1], dtype=int32)
    >>> print(history.next(run, workers=3))
    workers        3
    made by        level
    keys placed    3
    max/mean       1.333
    b (imbalance)  1.667
    m (migration)  0.667
    moved keys     1
    moved rows     100
    """

    def __init__(self, aims: Aims = DEFAULT_AIMS) -> None:
        self.aims = aims
        self.function: PartitionFunction | None = None
        self.counts: SlidingCounts[int | None] = SlidingCounts(WINDOW * PARTS, EPSILON)
        """None stands for all unknown keys."""

    def next(self, run: Weights, workers: int, algorithm: str = "level", max_migration: float = math.inf) -> Placement:
        """Count a run, and choose the function for this run and the next ones.

        The first function is made by largest first. A function that still balances (b <= 1) is kept, because migration
        is for when the balance is violated or N changes (section 3.3). Otherwise `algorithm` makes a new one from it.
        With as many workers as before, the new one is used only if it gains more than it moves (:data:`PAYS_WITHIN`):
        where one key alone is too heavy, no function balances.

        Args:
            run: what its keys cost. Its total is 0 if it has no rows.
            workers: N. It may differ from that of the function in use.
            algorithm: level, readj, scan or redist.
            max_migration: the largest m (equation 12) of a new function with as many workers.

        Raises:
            SaltwiseValueError: an argument is not allowed, or the type of the keys has changed.
        """
        check_whole("workers", workers)
        aims = self.aims
        if algorithm not in ALGORITHMS:
            raise SaltwiseValueError.unknown("algorithm", algorithm, ALGORITHMS)
        before = self.function
        if before is not None and before.key_type != run.key_type:
            raise SaltwiseValueError(
                f"the keys are of type {run.key_type}, and those before were of type {before.key_type}; their hashes "
                "differ."
            )
        self._count(run)
        known = self._known()
        made_by = algorithm
        if before is None:
            made_by, hot = LARGEST_FIRST, tracked(known.shares, workers, aims)
            self.function = largest_first(known.keys[hot], known.shares[hot], workers, run.key_type)
        elif before.workers == workers and imbalance_of(before, known, aims) <= 1:
            made_by = KEPT
        else:
            hashed = ConsistentHash(workers, run.key_type)
            new = next_function(*known, hashed, aims, previous=before, algorithm=algorithm)
            if before.workers != workers or _pays(before, new, known, aims, max_migration=max_migration):
                self.function = new
            else:
                made_by = KEPT
        assert self.function is not None
        return placement_of(self.function, run, known, aims, before=before, made_by=made_by)

    def _count(self, run: Weights) -> None:
        parts = np.rint(run.weights * PARTS).astype(np.int64).tolist()
        others = round(run.total * PARTS) - sum(parts)
        counted = [*zip(run.keys.tolist(), parts, strict=True), (None, others)]
        self.counts.offer_together({key: weight for key, weight in counted if weight > 0})

    def _known(self) -> KnownKeys:
        """Return the keys in the counts, ascending, and their shares of the window."""
        entries = self.counts.counters[0].entries
        keys = np.array(sorted(key for key in entries if key is not None), np.int64)
        counts = [entries[key][0] for key in keys.tolist()]
        return KnownKeys(keys, np.array(counts, np.float64) / max(1, self.counts.total))

    def to_content(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {"function": None if self.function is None else to_json(self.function)} | counts_to_content(self.counts)

    @classmethod
    def from_content(cls, content: dict[str, Any], aims: Aims = DEFAULT_AIMS) -> PlacementHistory:
        """Return what :meth:`to_content` wrote.

        Raises:
            PartitionFormatError: the function cannot be read.
            LookupError, TypeError, ValueError: the content is something else.
        """
        history = cls(aims)
        history.function = None if content["function"] is None else from_json(content["function"])
        history.counts = counts_from_content(content)
        return history


def _pays(
    before: PartitionFunction, after: PartitionFunction, known: KnownKeys, aims: Aims, *, max_migration: float
) -> bool:
    """Whether a resource's fullest worker has so much less to do that moves pay within :data:`PAYS_WITHIN` windows."""
    migration = migration_between(before, after, known, aims)
    loads_before, loads_after = loads_of(before, known, aims), loads_of(after, known, aims)
    gain = ((loads_before.max(axis=1) - loads_after.max(axis=1)) / loads_before.mean(axis=1)).max()
    return bool(migration <= max_migration and PAYS_WITHIN * gain > migration)


def counts_to_content(counts: SlidingCounts[int | None]) -> dict[str, Any]:
    """Return sliding counts as plain values. Hashes are text: JSON's numbers are less exact in other languages."""
    return {
        "window": counts.window,
        "epsilon": counts.epsilon,
        "left": counts.left,
        "counters": [
            {
                "total": counter.total,
                "kept": [[None if key is None else str(key), *entry] for key, entry in counter.entries.items()],
            }
            for counter in counts.counters
        ],
    }


def counts_from_content(content: dict[str, Any]) -> SlidingCounts[int | None]:
    """Return what :func:`counts_to_content` wrote.

    Raises:
        LookupError, TypeError, ValueError: the content is something else.
    """
    for name in "window", "left":
        check_whole(name, content[name], most=MAX_ROWS)
    counts: SlidingCounts[int | None] = SlidingCounts(content["window"], content["epsilon"])
    counts.left = content["left"]
    counts.counters.clear()
    for written in content["counters"]:
        counter: LossyCounting[int | None] = LossyCounting(counts.epsilon)
        counter.total = written["total"]
        check_whole("total", counter.total, 0, MAX_ROWS)
        counter.entries = {None if key is None else int(key): (count, error) for key, count, error in written["kept"]}
        for key, entry in counter.entries.items():
            if key is not None:
                check_whole("the hash of a key", key, MIN_HASH, MAX_HASH)
            for count in entry:
                check_whole("a count", count, 0, counter.total)
        counts.counters.append(counter)
    if not counts.counters:
        raise ValueError("there are no counters")
    return counts
