"""Running aggregates of a stream, in ``foreachBatch``. The groups are in Parquet files of a folder.

A batch changes only the files that have groups of its rows. Each job has a module: :mod:`.reading` reads the folder,
:mod:`.batch_update` adds a batch, :mod:`.layout` knows where rows lie, and :mod:`.placement_choice` chooses who gets
which groups.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import SaltwiseValueError, check_whole
from ...rebalancing.key_group_history import KeyGroupHistory
from .ages import AgeLimits
from .batch_update import BatchUpdate
from .definition import Definition
from .folder import StateFolder, StatefulAggregateError
from .placement_choice import PlacementChoice
from .reading import StateReader

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from ...placement.result import Placement


class StatefulAggregate:
    """Keeps aggregates by key over all batches of a stream, in a folder. Each batch updates them exactly once.

    ::

        totals = StatefulAggregate("/data/totals", "user", {"bytes": F.sum("bytes"), "rows": F.count("*")}, workers=8)
        stream.writeStream.option("checkpointLocation", "/data/checkpoint").foreachBatch(totals.update).start()
        totals.state(spark).show()

    Each worker owns the groups that a partition function gives it. ``strategy`` chooses the function:

    * level, readj, scan and redist place heavy keys one by one, and all others by a consistent hash, like
      :class:`saltwise.PlacementStore`. A batch rewrites the files of workers that get rows, and of workers between
      which groups move.
    * flux, milp, albic, cola, elb, clb and uhlb place key groups. The hash of a key mod p is its group, and a table has
      the worker of each group. A batch rewrites the files of the key groups that get rows. A move only changes the
      table.

    When the number of workers changes, a new function is made and used. It is also made when the old one no longer
    balances the load, and then it is used if it gains more than it moves.

    A batch is skipped if it, or a later one, is committed already. A stream with a new checkpoint starts again with
    batch 0, so it needs a new folder. Only one stream at a time may write to a folder.

    Args:
        path: a folder that the driver and all executors see under this name. It is created if it does not exist.
        keys: names of the columns to group by.
        aggregates: the name in the result, to a Column. The Column is one call, without DISTINCT, of a function that
            merges: any of ``saltwise.spark.two_phases.merge_rules.RULES``. ``F.expr`` can add a FILTER.
        workers: N, the number of partitions of the state. It may differ from the run before.
        strategy: level, readj, scan or redist; flux, milp, albic, cola, elb, clb or uhlb.
        key_groups: p, for a new folder; 32 for each worker by default.
        max_migration: the most state that a batch may move while there are as many workers, by the mean of a worker.
        split: whether a heavy key may have parts on d workers, which are merged when they are read. d comes from
            Proposition 4.1 of "When Two Choices Are not Enough", over the recent past.
        time: a column with the time of each row. Rows without a time are left out.
        late: a row is left out if it is older than the latest row of the batches before by more than this.
        ttl: a group is removed when its latest row is older than the latest row of all groups by more than this. A row
            that is older than the latest row of the batches before by more than this is left out, as by `late`.

    Raises:
        SaltwiseValueError: an argument is not allowed.
        StatefulAggregateError: the folder holds something else, or it is damaged or newer.
    """

    def __init__(
        self,
        path: str | Path,
        keys: str | Sequence[str],
        aggregates: Mapping[str, Column],
        workers: int,
        strategy: str = "level",
        key_groups: int | None = None,
        max_migration: float = math.inf,
        split: bool = False,
        time: str | None = None,
        late: timedelta | None = None,
        ttl: timedelta | None = None,
    ) -> None:
        self._definition = Definition.of(keys, aggregates)
        self._choice = PlacementChoice(workers, strategy, max_migration)
        self._ages = AgeLimits(time, late, ttl)
        if split and ttl is not None:
            raise SaltwiseValueError(
                "split and ttl are both given; a key that is split cannot expire: leave one of them out."
            )
        self._folder = StateFolder(path, self._choice.first_commit(key_groups, split))
        last = self._folder.read()
        if isinstance(last.history, KeyGroupHistory) != self._choice.by_group or (last.heads is None) == split:
            raise StatefulAggregateError(self.path, "its keys are placed or split in another way")

    @property
    def path(self) -> Path:
        """The folder."""
        return self._folder.path

    def rescale(self, workers: int) -> None:
        """Change the number of workers. The next batch then moves the groups that have to move.

        Raises:
            SaltwiseValueError: it is not a whole number of at least 1.
        """
        self._choice = replace(self._choice, workers=workers)

    @property
    def report(self) -> Placement | None:
        """The placement of the last batch and its cost: b, m, and the groups and rows of the state that moved.

        None before the first batch.

        Raises:
            StatefulAggregateError: the folder is damaged.
        """
        return self._folder.read().placement

    def state(self, spark: SparkSession) -> DataFrame:
        """Return the aggregates over all batches so far: the key columns, then one column for each aggregate.

        The DataFrame reads the current version. Its files stay until two more batches have been committed.

        Raises:
            StatefulAggregateError: there was no batch yet, or the folder is damaged.
        """
        return StateReader(self._folder, self._definition, self._ages).read(spark)

    def update(self, batch: DataFrame, batch_id: int) -> None:
        """Add a batch to the state. Pass this method to ``writeStream.foreachBatch``.

        Args:
            batch: rows with the key columns and the columns of the aggregates.
            batch_id: higher than that of the batch before. A batch that is in the state already is skipped.

        Raises:
            SaltwiseValueError: the batch lacks a column, or a key holds a map.
            StatefulAggregateError: the folder is of other keys or aggregates, or damaged.
        """
        check_whole("batch_id", batch_id, least=0)
        BatchUpdate(self._folder, self._definition, self._ages, self._choice).add(batch, batch_id)
