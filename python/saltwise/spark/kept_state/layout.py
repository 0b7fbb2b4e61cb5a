"""Where the rows of a state are under one partition function: the unit of their files, and the worker that writes them.

Files of a unit change together. If keys are placed one by one, the groups of a worker are a unit. If key groups are
placed, each key group is a unit, and a move changes no file. The parts of split keys that a worker has are a unit too,
with a number below 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf

from ...arrays import Int64s
from ...placement.hash_pair import HashPair
from ...placement.key_groups import KeyGroups
from ..two_phases.routing import WORKER, worker_numbers
from .commit import HASH, ROWS, SPLIT
from .folder import UNIT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from ...placement.partition_function import PartitionFunction

NUMBER = "number"
"""A value that Spark's hash partitioning sends to the partition of a row's worker."""


@dataclass(frozen=True)
class Layout:
    """The unit and the worker of each row of a state.

    Args:
        function: chooses the worker of each key.
    """

    function: PartitionFunction

    @property
    def unit(self) -> Column:
        """The unit of a row."""
        if isinstance(self.function, KeyGroups):
            unit_of_whole = F.pmod(HASH, F.lit(len(self.function.table)))
        else:
            unit_of_whole = self.owner
        return F.coalesce(-1 - F.col(SPLIT), unit_of_whole).cast("int")

    @property
    def owner(self) -> Column:
        """The worker that the partition function gives a row's key to, counted from 0.

        Spark's Python workers need saltwise installed, unless key groups are placed.
        """
        function = self.function
        if isinstance(function, KeyGroups):
            group = F.pmod(F.col(HASH), F.lit(len(function.table)))
            return F.element_at(F.array(*map(F.lit, function.table)), group.cast("int") + 1)

        def place(hashes: pd.Series) -> pd.Series:
            return pd.Series(function.place(hashes.to_numpy()))

        return pandas_udf(place, "int")(F.col(HASH))  # type: ignore[call-overload, no-any-return]

    def at_workers(self, rows: DataFrame) -> DataFrame:
        """Send rows to their workers: the owner of the key, or one of the workers over which the key is split.

        Returns:
            The rows with the columns UNIT, WORKER and NUMBER. Each worker has a partition of its own. A group-by whose
            first key is NUMBER needs no further shuffle.
        """
        workers = self.function.workers
        worker = F.coalesce(F.pmod(SPLIT, F.lit(workers)), self.owner)
        numbers = F.array(*(F.lit(number) for number in worker_numbers(workers).tolist()))
        placed = rows.withColumn(UNIT, self.unit).withColumn(WORKER, worker)
        return placed.withColumn(NUMBER, numbers[F.col(WORKER)]).repartition(workers, NUMBER)

    def units_of(self, rows: DataFrame) -> set[int]:
        """Return the units of rows."""
        return {row[0] for row in rows.select(self.unit).distinct().collect()}

    def changed_units(self, before: Layout | None, units: Iterable[int], parts: DataFrame) -> set[int]:
        """Return the units whose files a batch has to write.

        Args:
            before: the layout of the version before; None before the first one.
            units: the units of the version before.
            parts: the parts of the groups of the batch.
        """
        moving = _moving_keys(None if before is None else before.function, self.function)
        if moving is None:
            return {*units, *range(self.function.workers)} | self.units_of(parts)
        changed = self.units_of(parts) | set(self.function.place(moving).tolist())
        return changed if before is None else changed | set(before.function.place(moving).tolist())

    def count_moves(self, before: Layout, rows: DataFrame) -> tuple[int, float]:
        """Count the groups that move, and the rows in them.

        Args:
            before: the layout of the version before.
            rows: the rows of the state that may move.
        """
        moves = F.col(SPLIT).isNull() & (before.owner != self.owner)
        [(groups, rows_of_groups)] = rows.where(moves).agg(F.count(F.lit(1)), F.sum(ROWS)).collect()
        return groups, float(rows_of_groups or 0)


def _moving_keys(before: PartitionFunction | None, after: PartitionFunction) -> Int64s | None:
    """Return the keys whose files change because they move; None if only a look at all groups can tell."""
    if before is None or before == after or isinstance(after, KeyGroups):
        return np.empty(0, np.int64)
    if not isinstance(before, HashPair) or not isinstance(after, HashPair) or before.workers != after.workers:
        return None
    keys = np.union1d(before.tracked, after.tracked)
    return np.asarray(keys[before.place(keys) != after.place(keys)])
