"""What a placement by key groups remembers from batch to batch: the table in use, and the loads of the groups.

The planners are those of :mod:`saltwise.rebalancing.rounds`. Moves of groups cost the bytes of their states.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np

from ..arrays import Floats
from ..errors import SaltwiseValueError, check_whole
from ..placement.costs import migration_cost, relative_imbalance, relative_migration
from ..placement.function_json import from_json, to_json
from ..placement.history import MAX_ROWS
from ..placement.key_groups import KeyGroups
from ..placement.result import KEPT, Placement
from .cluster import Cluster
from .rounds import PLANNERS, Budget, Window, decide, rehomed, unevenness

WINDOW = 10
"""Batches over which loads are averaged. The moves of a round must pay within as many."""

MAX_GROUPS = 1_000_000
"""Bounds what is computed for each group: their number may come from a file that somebody else wrote."""

BYTES_PER_ROW = 64.0
"""To move this many bytes of a state costs as much as a row of a batch."""

SEED = 1
"""Of planners that draw."""


class KeyGroupHistory:
    """The table in use, and the rows of each key group in the last batches. :meth:`next` changes both.

    Args:
        groups: p, the number of key groups, at most 1,000,000. It never changes.

    Raises:
        SaltwiseValueError: there is no group, or there are too many.

    >>> history = KeyGroupHistory(groups=4)
    >>> rows, no_state = np.array([40.0, 10.0, 30.0, 20.0]), np.zeros(4)
    >>> history.next(rows, no_state, workers=2, planner="milp", key_type="string").max_to_mean
    1.0
    """

    def __init__(self, groups: int) -> None:
        check_whole("groups", groups, most=MAX_GROUPS)
        self.groups = groups
        self.function: KeyGroups | None = None
        self.loads: deque[Floats] = deque(maxlen=WINDOW)

    def next(
        self,
        rows: Floats,
        state: Floats,
        workers: int,
        planner: str,
        key_type: str,
        max_migration: float = math.inf,
    ) -> Placement:
        """Count a batch, and choose the table for it and the next ones.

        If there is no table yet, the planner starts from groups that are dealt out to the workers in turn. Moves cost
        nothing then, and nothing when the number of workers changes.

        Args:
            rows: of the batch, in each group, shape (p,).
            state: bytes of the state of each group, shape (p,).
            workers: N. It may differ from that of the table in use.
            planner: one of :data:`saltwise.rebalancing.rounds.PLANNERS`.
            key_type: the keys' type in SQL.
            max_migration: the most state that may move while there are as many workers, by the mean of a worker.

        Raises:
            SaltwiseValueError: an argument is not allowed.
        """
        check_whole("workers", workers)
        if planner not in PLANNERS:
            raise SaltwiseValueError.unknown("planner", planner, PLANNERS)
        self.loads.append(rows)
        series = np.array(self.loads)
        before = np.arange(self.groups) % workers if self.function is None else np.array(self.function.table)
        nodes = max(workers, int(before.max()) + 1)
        cluster = Cluster(series.mean(axis=0), before, nodes, state, kill=range(workers, nodes))
        budget = Budget(self.groups, moves_per_second=math.inf, bytes_per_second=math.inf)
        if self.function is not None and self.function.workers == workers:
            max_bytes = math.inf if max_migration == math.inf else max_migration * float(state.sum()) / workers
            budget = budget._replace(bytes=max_bytes, bytes_per_second=BYTES_PER_ROW)
        table = decide(planner, Window(cluster, series), budget, np.random.default_rng(SEED)).node
        table = rehomed(cluster, table, np.arange(self.groups), np.arange(workers))
        is_first = self.function is None
        made_by = planner if is_first or (table != before).any() else KEPT
        self.function = KeyGroups(workers, key_type, table.tolist())
        return _placement(self.function, cluster, made_by, has_moves=not is_first)

    def to_content(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "function": None if self.function is None else to_json(self.function),
            "groups": self.groups,
            "loads": [rows.tolist() for rows in self.loads],
        }

    @classmethod
    def from_content(cls, content: dict[str, Any]) -> KeyGroupHistory:
        """Return what :meth:`to_content` wrote.

        Raises:
            PartitionFormatError: the function cannot be read.
            LookupError, TypeError, ValueError: the content is something else.
        """
        history = cls(content["groups"])
        if content["function"] is not None:
            function = from_json(content["function"])
            if not isinstance(function, KeyGroups) or len(function.table) != history.groups:
                raise ValueError(f"the function has no table of {history.groups} key groups")
            history.function = function
        for rows in content["loads"]:
            history.loads.append(np.array(rows, np.float64).reshape(history.groups))
            if not ((history.loads[-1] >= 0) & (history.loads[-1] <= MAX_ROWS)).all():
                raise ValueError(f"a key group has a number of rows that is not from 0 to {MAX_ROWS}")
        return history


def _placement(function: KeyGroups, cluster: Cluster, made_by: str, *, has_moves: bool) -> Placement:
    """Return what a table costs.

    Args:
        function: with the table.
        cluster: the loads of the groups, and where they were.
        made_by: how the table was made.
        has_moves: whether the groups had states where they were.
    """
    workers, table = function.workers, np.array(function.table)
    loads = cluster.loads(table)[:workers]
    moves: dict[str, Any] = {"migration": 0.0, "moved_keys": 0, "moved_rows": 0.0}
    if has_moves:
        before, after = cluster.node.astype(np.int32), table.astype(np.int32)
        moves["migration"] = relative_migration(before, after, cluster.cost, workers)
        moves["moved_keys"] = int((before != after).sum())
        moves["moved_rows"] = migration_cost(before, after, cluster.load)
    return Placement(
        function,
        made_by,
        max_to_mean=unevenness(cluster, table),
        imbalance=relative_imbalance(np.stack([loads] * 3)),
        **moves,
    )
