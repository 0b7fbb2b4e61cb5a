"""A placement: the partition function that a run uses, and what its use costs.

Keys that are not known are represented by :data:`saltwise.placement.weights.STAND_INS`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ..arrays import Floats, Int64s
from ..tables import Printable, Table
from .aims import Aims
from .costs import loads, relative_imbalance, relative_migration
from .hash_pair import HashPair
from .partition_function import PartitionFunction
from .weights import STAND_INS, KnownKeys, Weights

KEPT, LARGEST_FIRST = "kept", "largest first"


@dataclass(frozen=True)
class Placement(Printable):
    """A partition function, and what its use costs. It prints as a small table, and as HTML in a notebook."""

    function: PartitionFunction
    made_by: str
    """level, readj, scan or redist; "largest first" if no function was in use; "kept" if the one in use stays."""
    max_to_mean: float
    """Predicted load of the fullest worker by the mean. Unknown keys count as spread evenly over all hashes."""
    imbalance: float
    """b, the relative imbalance: max load by min load, divided by alpha. Up to 1 is tolerated."""
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
"""The names of what a placement costs: plain values, unlike the function."""


def placement_of(
    function: PartitionFunction,
    run: Weights,
    known: KnownKeys,
    aims: Aims,
    *,
    before: PartitionFunction | None,
    made_by: str,
) -> Placement:
    """Return what a function costs.

    Args:
        function: what places the keys from now on.
        run: what the keys of this run cost.
        known: the keys that were heavy recently.
        aims: what is balanced.
        before: the function that was in use; None if there was none, so that nothing moves.
        made_by: how the function was made.
    """
    costs: dict[str, Any] = {
        "max_to_mean": max_to_mean(function, *known),
        "imbalance": imbalance_of(function, known, aims),
        "migration": 0.0,
        "moved_keys": 0,
        "moved_rows": 0.0,
    }
    if before is not None:
        run_keys, run_shares = run.known.with_stand_ins()
        moved_rows = run_shares[before.place(run_keys) != function.place(run_keys)].sum() * run.total
        named_keys = np.unique(np.concatenate([known.keys, run.keys, _explicit(before), _explicit(function)]))
        costs["migration"] = migration_between(before, function, known, aims)
        costs["moved_keys"] = int((before.place(named_keys) != function.place(named_keys)).sum())
        costs["moved_rows"] = float(moved_rows)
    return Placement(function, made_by, **costs)


def _explicit(function: PartitionFunction) -> Int64s:
    return function.tracked if isinstance(function, HashPair) else np.empty(0, np.int64)


def max_to_mean(function: PartitionFunction, keys: Int64s, shares: Floats) -> float:
    """Return the load of the fullest worker by the mean. Unknown keys count as spread evenly over all hashes.

    Args:
        function: what places the keys.
        keys: hashes of the keys that are known, shape (k,).
        shares: f(d) of these keys, shape (k,).
    """
    rows = loads_of(function, KnownKeys(keys, shares), Aims("LLL"))[0]
    return float(rows.max() * function.workers)


def imbalance_of(function: PartitionFunction, known: KnownKeys, aims: Aims) -> float:
    """Return b, the relative imbalance (equation 11)."""
    return relative_imbalance(loads_of(function, known, aims), aims.alpha)


def migration_between(before: PartitionFunction, after: PartitionFunction, known: KnownKeys, aims: Aims) -> float:
    """Return m, the relative migration (equation 12)."""
    keys, shares = known.with_stand_ins()
    return relative_migration(before.place(keys), after.place(keys), shares, after.workers, state=aims.state)


def loads_of(function: PartitionFunction, known: KnownKeys, aims: Aims) -> Floats:
    """Return the load of each worker on each resource, shape (3, N)."""
    keys, shares = known.with_stand_ins()
    count = len(known.keys)
    placed = function.place(keys)
    # A stand-in is several keys, if |D| says how many: that counts where a load is not linear.
    keys_of_stand_in = 1.0 if aims.domain is None else max(0, aims.domain - count) / len(STAND_INS)
    factors = {"C": keys_of_stand_in, "L": 1.0, "Q": 1 / keys_of_stand_in if keys_of_stand_in else 0.0}
    factor = np.array([factors[resource] for resource in aims.resources])[:, None]
    of_known = loads(placed[:count], shares[:count], function.workers, aims.resources)
    return of_known + factor * loads(placed[count:], shares[count:], function.workers, aims.resources)


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
