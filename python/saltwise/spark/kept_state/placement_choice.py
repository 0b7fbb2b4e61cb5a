"""Counts the rows of a batch, and chooses the partition function of the next version of a state."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F

from ...errors import SaltwiseValueError, check_whole
from ...options import PLACEMENT_CAPACITY
from ...placement.construct import ALGORITHMS
from ...placement.history import COUNTERS_PER_KEY, EPSILON, WINDOW, PlacementHistory, keys_to_track
from ...placement.result import Placement
from ...placement.weights import Weights
from ...rebalancing.key_group_history import KeyGroupHistory
from ...rebalancing.rounds import PLANNERS
from ...sketches.sliding_counts import SlidingCounts
from .commit import HASH, ROWS, SPLIT, Commit
from .folder import UNIT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STRATEGIES = (*ALGORITHMS, *PLANNERS)

KEY_GROUPS_PER_WORKER = 32


@dataclass(frozen=True)
class PlacementChoice:
    """How the partition function of the next version is chosen.

    Args:
        workers: N.
        strategy: one of :data:`STRATEGIES`.
        max_migration: the most state that may move while there are as many workers, by the mean of a worker.

    Raises:
        SaltwiseValueError: an argument is not allowed.
    """

    workers: int
    strategy: str = "level"
    max_migration: float = math.inf

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise SaltwiseValueError.unknown("strategy", self.strategy, STRATEGIES)
        if not self.max_migration > 0:
            raise SaltwiseValueError(f"max_migration is {self.max_migration!r}; it must be a number above 0.")
        check_whole("workers", self.workers)

    @property
    def by_group(self) -> bool:
        """Whether key groups are placed, and not keys one by one."""
        return self.strategy in PLANNERS

    def first_commit(self, key_groups: int | None, split: bool) -> Commit:
        """Return the commit of a new folder.

        Args:
            key_groups: p; by default 32 for each worker.
            split: whether heavy keys are split.
        """
        groups = KEY_GROUPS_PER_WORKER * self.workers if key_groups is None else key_groups
        history = KeyGroupHistory(groups) if self.by_group else PlacementHistory()
        return Commit(history, SlidingCounts(WINDOW, EPSILON) if split else None)

    def next(self, last: Commit, parts: DataFrame) -> Placement:
        """Count a batch, and choose the partition function for it and the next batches.

        Args:
            last: the version before. Its history and its heads are changed.
            parts: the parts of the groups of the batch.
        """
        whole = parts.where(F.col(SPLIT).isNull())
        if last.heads is not None:
            run = self._weights(parts)
            rows = {key: int(weight) for key, weight in zip(run.keys.tolist(), run.weights.tolist(), strict=True)}
            others = {None: int(run.total) - sum(rows.values())}
            last.heads.offer_together({key: count for key, count in (rows | others).items() if count})
        history = last.history
        if isinstance(history, PlacementHistory):
            return history.next(
                self._weights(whole), self.workers, algorithm=self.strategy, max_migration=self.max_migration
            )
        loads, state = np.zeros(history.groups), np.zeros(history.groups)
        group = F.pmod(HASH, F.lit(history.groups)).alias(UNIT)
        for number, count in whole.groupBy(group).agg(F.sum(ROWS)).collect():
            loads[number] = count
        for number, files in last.files.items():
            if number >= 0:
                state[number] = sum(files.values())
        return history.next(
            loads,
            state,
            workers=self.workers,
            planner=self.strategy,
            key_type=_key_type(parts),
            max_migration=self.max_migration,
        )

    @property
    def _capacity(self) -> int:
        """How many keys of a batch are counted.

        A key that is not heavy in any batch may be heavy in many batches together. So keys with a tenth of the share of
        a heavy key are counted too.
        """
        return max(PLACEMENT_CAPACITY, COUNTERS_PER_KEY * keys_to_track(self.workers))

    def _weights(self, parts: DataFrame) -> Weights:
        """Return the exact number of rows of the heaviest keys of a batch."""
        by_key = parts.groupBy(HASH).agg(F.sum(ROWS).alias(ROWS))
        rows = dict(map(tuple, by_key.orderBy(F.desc(ROWS), HASH).limit(self._capacity).collect()))
        [total] = parts.agg(F.sum(ROWS)).collect()
        keys = np.fromiter(rows, np.int64, len(rows))
        weights = np.array([*rows.values()], np.float64)
        return Weights(_key_type(parts), keys, weights, float(total[0] or 0))


def _key_type(parts: DataFrame) -> str:
    return ", ".join(field.dataType.simpleString() for field in parts.schema if field.name.startswith("k"))
