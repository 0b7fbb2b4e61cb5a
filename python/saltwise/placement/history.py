"""What placement remembers from run to run: the function in use, and which keys were heavy recently.

Gedik, "Partitioning functions for stateful data parallelism in stream processing", VLDB Journal 2014: the function
p(t) and the sliding lossy counters of section 4.1.2 make p(t+1) (section 4.2), which costs b (equation 11) and m
(equation 12). Unless somebody says otherwise, all three resources are linear in a key's weight.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ..errors import SaltwiseValueError, check_whole
from ..hashing import LEAST_HASH, MOST_HASH
from ..sketches.lossy_counting import LossyCounting
from ..sketches.sliding_counts import SlidingCounts
from ..splitting.compiled_hash import Longs
from ..tables import Printable, Table
from .construct import ALGORITHMS, construct
from .costs import loads, relative_imbalance, relative_migration
from .function_json import from_json, to_json
from .hash_pair import HashPair
from .largest_first import largest_first
from .partition_function import PartitionFunction
from .resources import ALPHA, SIGMA, Floats, threshold, tracked
from .utility import UTILITIES

RESOURCES = "LLL"

WINDOW = 10_000_000
"""W: the counts are about the last runs with at least so many rows together, and at most 3/2 W rows and one run."""

PARTS = 1000
"""Of a weight of 1, whole numbers of them are counted."""

EPSILON = 1e-6
"""A key with a smaller share of the window may be forgotten. This is far below delta for some thousand workers."""

UNKNOWN = np.arange(1 << 16) << 48
"""Stand-ins for all keys that were not counted: hashes at equal distances."""

PAYS_WITHIN = 10
"""Within so many windows the fullest worker must have as many rows less as the state that moves had in one."""

MOST_ROWS = 1 << 100
"""More parts than any window has."""

KEPT, LARGEST_FIRST = "kept", "largest first"


@dataclass(frozen=True, eq=False)
class Weights:
    """What the keys of one run cost, as far as they are heavy enough to be known by name.

    Args:
        key_type: the keys' type in SQL; of several columns, their types with commas.
        keys: 64-bit hashes of the heavy keys, shape (k,), each one once.
        weights: of these keys, shape (k,): rows, or another cost.
        total: weight of all keys.

    Raises:
        SaltwiseValueError: a weight is negative or NaN, they are more than the total together, or a key occurs twice.

    >>> Weights("string", np.array([7, 8]), np.array([600.0, 100.0]), total=1000.0).shares
    array([0.6, 0.1])
    """

    key_type: str
    keys: Longs
    weights: Floats
    total: float

    def __post_init__(self) -> None:
        if self.keys.shape != self.weights.shape or self.keys.ndim != 1:
            raise SaltwiseValueError(
                f"weights have shape {self.weights.shape}; it must be that of keys, {self.keys.shape}, in one "
                "dimension."
            )
        for weight in (*self.weights.tolist(), self.total):
            check_weight(weight)
        if self.weights.sum() > self.total * (1 + 1e-9):
            raise SaltwiseValueError(
                f"weights add up to {self.weights.sum():g}; it must be {self.total:g}, the total, or less."
            )
        if len(np.unique(self.keys)) < len(self.keys):
            raise SaltwiseValueError("keys has the same hash twice; add the weights of equal keys up first.")

    @property
    def shares(self) -> Floats:
        """f(d), the share of each key in the weight of the run."""
        return self.weights / self.total if self.total else np.zeros(len(self.keys))


def check_weight(weight: float | None) -> None:
    """Raise unless this is the weight of a row or of a key.

    Raises:
        SaltwiseValueError: it is None, NaN, infinite or negative.
    """
    if weight is None or not 0 <= weight < math.inf:
        raise SaltwiseValueError(
            f"a weight is {'NULL' if weight is None else weight}; it must be a number of at least 0: filter such "
            "rows, or give them 0."
        )


@dataclass(frozen=True)
class Placement(Printable):
    """A partition function, and what its use costs. It prints as a small table, and as HTML in a notebook."""

    function: PartitionFunction
    made_by: str
    """level, readj, scan or redist; "largest first" if no function was in use; "kept" if the one in use stays."""
    max_to_mean: float
    """Predicted load of the fullest worker by the mean. Keys that are not known count as spread by the hash."""
    imbalance: float
    """b, the relative imbalance: max load by min load, divided by what is tolerated, 1.2. Up to 1 is balanced."""
    migration: float
    """m, the relative migration: the weight that moves, by the mean of a worker."""
    moved_keys: int
    """How many of the known keys have another worker now."""
    moved_rows: float
    """The rows of these keys in this run, or another cost, and the expected part of the unknown keys."""

    def to_dict(self) -> dict[str, Any]:
        """Return the number of workers and the costs; :func:`saltwise.placement.function_json.to_json` has the rest."""
        return {"workers": self.function.workers} | {name: getattr(self, name) for name in COSTS}

    def _parts(self) -> Iterator[Table]:
        placed = len(self.function.explicit) if isinstance(self.function, HashPair) else 0
        rows = [
            ("workers", f"{self.function.workers}"),
            ("made by", self.made_by),
            ("keys placed", f"{placed:,}"),
            ("max/mean", f"{self.max_to_mean:.3f}"),
            ("b (imbalance)", f"{self.imbalance:.3f}"),
            ("m (migration)", f"{self.migration:.3f}"),
            ("moved keys", f"{self.moved_keys:,}"),
            ("moved rows", f"{self.moved_rows:,.0f}"),
        ]
        yield Table(rows)


COSTS = tuple(field.name for field in fields(Placement) if field.name != "function")
"""What a placement costs, by name: all that can be written as it is."""


@dataclass(frozen=True)
class Aims:
    """What a placement balances, and how well: the parameters of Gedik's table 1 that an application chooses.

    Args:
        resources: letters of the resource functions beta of state, computation and communication: C (constant), L
            (linear) or Q (quadratic), of the rows of a key.
        alpha: the largest load by the smallest that is tolerated, above 1.
        sigma: the part of the tolerated imbalance that one key without a worker of its own may use, above 0 and at
            most 1.
        utility: how imbalance and migration are weighed: A, APM, APLM, ATM or ATLM, as :func:`construct` says.
        domain: |D|, the number of different keys; needed if a resource is quadratic.

    Raises:
        SaltwiseValueError: an argument is not allowed.
    """

    resources: str = RESOURCES
    alpha: float = ALPHA
    sigma: float = SIGMA
    utility: str = "APM"
    domain: int | None = None

    def __post_init__(self) -> None:
        threshold(self.resources, 2, self.alpha, self.sigma, self.domain)
        if self.utility not in UTILITIES:
            raise SaltwiseValueError.unknown("utility", self.utility, UTILITIES)


COUNTERS_PER_KEY = 10
"""Counters for each key that may need a worker: counts are then wrong by delta / 10 at most (section 4.1.2)."""


def keys_to_track(workers: int, aims: Aims = Aims()) -> int:
    """Return how many keys may need a worker by name: no more have a share of at least delta (equation 17).

    >>> keys_to_track(10), keys_to_track(10, Aims(sigma=0.05))
    (567, 1134)
    """
    return math.ceil(1 / threshold(aims.resources, workers, aims.alpha, aims.sigma, aims.domain))


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

    def __init__(self, aims: Aims = Aims()) -> None:
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
        keys, shares = self._known()
        made_by = algorithm
        if before is None:
            made_by, hot = LARGEST_FIRST, tracked(shares, aims.resources, workers, aims.alpha, aims.sigma, aims.domain)
            self.function = largest_first(keys[hot], shares[hot], workers, run.key_type)
        elif before.workers == workers and _imbalance(before, keys, shares, aims) <= 1:
            made_by = KEPT
        else:
            new = construct(
                keys,
                shares,
                workers,
                before,
                algorithm,
                aims.resources,
                aims.alpha,
                aims.sigma,
                aims.utility,
                aims.domain,
                run.key_type,
            )
            if before.workers != workers or _pays(before, new, keys, shares, max_migration, aims):
                self.function = new
            else:
                made_by = KEPT
        assert self.function is not None
        return _placement(self.function, before, made_by, keys, shares, run, aims)

    def _count(self, run: Weights) -> None:
        parts = np.rint(run.weights * PARTS).astype(np.int64).tolist()
        others = round(run.total * PARTS) - sum(parts)
        counted = [*zip(run.keys.tolist(), parts, strict=True), (None, others)]
        self.counts.offer_together({key: weight for key, weight in counted if weight > 0})

    def _known(self) -> tuple[Longs, Floats]:
        """Return the keys in the counts, ascending, and their shares of the window."""
        kept = self.counts.counters[0].kept
        keys = np.array(sorted(key for key in kept if key is not None), np.int64)
        counts = [kept[key][0] for key in keys.tolist()]
        return keys, np.array(counts, np.float64) / max(1, self.counts.total)

    def to_content(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {"function": None if self.function is None else to_json(self.function)} | counts_to_content(self.counts)

    @classmethod
    def from_content(cls, content: dict[str, Any], aims: Aims = Aims()) -> PlacementHistory:
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
    before: PartitionFunction,
    after: PartitionFunction,
    keys: Longs,
    shares: Floats,
    max_migration: float,
    aims: Aims,
) -> bool:
    """Whether a resource's fullest worker has so much less to do that moves pay within :data:`PAYS_WITHIN` windows."""
    every, share = spread(keys, shares)
    m = relative_migration(before.place(every), after.place(every), share, after.workers, aims.resources[0])
    one, other = (_loads(function, keys, shares, aims) for function in (before, after))
    gain = ((one.max(axis=1) - other.max(axis=1)) / one.mean(axis=1)).max()
    return bool(m <= max_migration and PAYS_WITHIN * gain > m)


def counts_to_content(counts: SlidingCounts[int | None]) -> dict[str, Any]:
    """Return sliding counts as plain values. Hashes are text: JSON's numbers are less exact in other languages."""
    return {
        "window": counts.window,
        "epsilon": counts.epsilon,
        "left": counts.left,
        "counters": [
            {
                "total": counter.total,
                "kept": [[None if key is None else str(key), *entry] for key, entry in counter.kept.items()],
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
        check_whole(name, content[name], most=MOST_ROWS)
    counts: SlidingCounts[int | None] = SlidingCounts(content["window"], content["epsilon"])
    counts.left = content["left"]
    counts.counters.clear()
    for written in content["counters"]:
        counter: LossyCounting[int | None] = LossyCounting(counts.epsilon)
        counter.total = written["total"]
        check_whole("total", counter.total, 0, MOST_ROWS)
        counter.kept = {None if key is None else int(key): (count, error) for key, count, error in written["kept"]}
        for key, entry in counter.kept.items():
            if key is not None:
                check_whole("the hash of a key", key, LEAST_HASH, MOST_HASH)
            for count in entry:
                check_whole("a count", count, 0, counter.total)
        counts.counters.append(counter)
    if not counts.counters:
        raise ValueError("there are no counters")
    return counts


def spread(keys: Longs, shares: Floats) -> tuple[Longs, Floats]:
    """Return these keys and stand-ins for all others, and the share of each. The stand-ins share what is left.

    >>> keys, shares = spread(np.array([7]), np.array([0.25]))
    >>> len(keys), float(shares.sum())
    (65537, 1.0)
    """
    left = max(0.0, 1 - float(shares.sum()))
    return np.concatenate([keys, UNKNOWN]), np.concatenate([shares, np.full(len(UNKNOWN), left / len(UNKNOWN))])


def _loads(function: PartitionFunction, keys: Longs, shares: Floats, aims: Aims) -> Floats:
    every, share = spread(keys, shares)
    known = len(keys)
    placed = function.place(every)
    # A stand-in is several keys, if |D| says how many: that counts where a load is not linear.
    each = 1.0 if aims.domain is None else max(0, aims.domain - known) / len(UNKNOWN)
    times = np.array([{"C": each, "L": 1.0, "Q": 1 / each if each else 0.0}[resource] for resource in aims.resources])
    return loads(placed[:known], share[:known], function.workers, aims.resources) + times[:, None] * loads(
        placed[known:], share[known:], function.workers, aims.resources
    )


def _imbalance(function: PartitionFunction, keys: Longs, shares: Floats, aims: Aims) -> float:
    return relative_imbalance(_loads(function, keys, shares, aims), aims.alpha)


def max_to_mean(function: PartitionFunction, keys: Longs, shares: Floats) -> float:
    """Return the load of the fullest worker by the mean. Unknown keys count as spread over all hashes.

    Args:
        function: what places the keys.
        keys: hashes of the keys that are known, shape (k,).
        shares: f(d) of these keys, shape (k,).
    """
    return float(_loads(function, keys, shares, Aims())[0].max() * function.workers)


def _placement(
    function: PartitionFunction,
    before: PartitionFunction | None,
    made_by: str,
    keys: Longs,
    shares: Floats,
    run: Weights,
    aims: Aims,
) -> Placement:
    b = _imbalance(function, keys, shares, aims)
    balance = max_to_mean(function, keys, shares)
    if before is None:
        return Placement(function, made_by, balance, b, 0.0, 0, 0.0)
    every, share = spread(keys, shares)
    m = relative_migration(before.place(every), function.place(every), share, function.workers, aims.resources[0])
    run_keys, run_shares = spread(run.keys, run.shares)
    moved_rows = float(run_shares[before.place(run_keys) != function.place(run_keys)].sum() * run.total)
    known_keys = np.unique(np.concatenate([keys, run.keys, _explicit(before), _explicit(function)]))
    moved_keys = int((before.place(known_keys) != function.place(known_keys)).sum())
    return Placement(function, made_by, balance, b, m, moved_keys, moved_rows)


def _explicit(function: PartitionFunction) -> Longs:
    return function.tracked if isinstance(function, HashPair) else np.empty(0, np.int64)


def costs_to_content(placement: Placement) -> dict[str, Any]:
    """Return what a placement costs as plain values. Infinity becomes None, because JSON has no infinity."""
    costs = {name: getattr(placement, name) for name in COSTS}
    return {name: None if value == math.inf else value for name, value in costs.items()}


def costs_from_content(function: PartitionFunction, content: dict[str, Any]) -> Placement:
    """Return the placement that :func:`costs_to_content` wrote.

    Raises:
        ArithmeticError, LookupError, TypeError, ValueError: the content is something else.
    """
    made_by = content["made_by"]
    if not isinstance(made_by, str):
        raise ValueError(f"the placement is made by {made_by!r}, which is no text")
    costs: dict[str, Any] = {
        name: math.inf if content[name] is None else float(content[name]) for name in COSTS if name != "made_by"
    }
    costs["moved_keys"] = int(costs["moved_keys"])
    return Placement(function, made_by, **costs)
