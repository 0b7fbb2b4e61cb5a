"""Running aggregates for foreachBatch. The groups are Parquet files, which change only where a batch has rows for them.

:mod:`saltwise.spark.state_folder` keeps the files. Those of a unit change together. Where keys are placed one by one, a
worker's groups are a unit. Where key groups are placed, each of them is a unit, and a move changes no file. What a
worker holds of keys that are split is a unit of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import DecimalType, StructType

from ..errors import SaltwiseError, SaltwiseValueError, check_whole
from ..options import PLACEMENT_CAPACITY
from ..placement.construct import ALGORITHMS
from ..placement.hash_pair import HashPair
from ..placement.history import (
    COUNTERS_PER_KEY,
    EPSILON,
    WINDOW,
    Placement,
    PlacementHistory,
    Weights,
    keys_to_track,
)
from ..placement.key_groups import KeyGroups
from ..rebalancing.key_group_history import KeyGroupHistory
from ..rebalancing.rounds import PLANNERS
from ..sketches.sliding_counts import SlidingCounts
from ..splitting.compiled_hash import Longs
from ..splitting.head_split import HeadSplit, head_splits
from .arrow_engine import WITHOUT_HASH, holds_type
from .key_columns import quoted
from .mergeable import RULES, Mergeable, two_phases
from .placing import HASH, NUMBER, placed, worker_of
from .state_folder import UNIT, Commit, StateFolder, StatefulAggregateError, has_user_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from ..placement.partition_function import PartitionFunction

ROWS, SPLIT, SEEN = "rows", "split", "seen"
KEY_GROUPS_PER_WORKER = 32

STRATEGIES = (*ALGORITHMS, *PLANNERS)


class StatefulAggregate:
    """Aggregates by key over all batches of a stream, kept in a folder. Each batch updates them exactly once.

    ::

        totals = StatefulAggregate("/data/totals", "user", {"bytes": F.sum("bytes"), "rows": F.count("*")}, workers=8)
        stream.writeStream.option("checkpointLocation", "/data/checkpoint").foreachBatch(totals.update).start()
        totals.state(spark).show()

    Each worker owns the groups that a partition function gives it. ``strategy`` chooses the function:

    * level, readj, scan and redist place heavy keys one by one, and all others by a consistent hash, like
      :class:`saltwise.PlacementStore`. A batch rewrites the files of the workers that get rows, or give or take groups.
    * flux, milp, albic, cola, elb, clb and uhlb place key groups: the hash of a key mod p is its group, and a table has
      the worker of each. A batch rewrites the files of the key groups that get rows. A move is a change in the table.

    A new function is made when the old one no longer balances the load, and used if that gains more than it moves, or
    when the number of workers changes.

    A batch is skipped if it, or a later one, is committed already. So a stream with a new checkpoint, whose batches
    start again at 0, needs a new folder. Only one stream at a time may write to a folder.

    Args:
        path: a folder that the driver and all executors see under this name. It is made if it does not exist.
        keys: names of the columns to group by.
        aggregates: name in the result, to a Column that is one call of a function that merges: any of
            ``saltwise.spark.mergeable.RULES``, without DISTINCT. ``F.expr`` adds a FILTER.
        workers: N, the number of partitions of the state. It may differ from the run before.
        strategy: level, readj, scan or redist; flux, milp, albic, cola, elb, clb or uhlb.
        key_groups: p, for a new folder; 32 for each worker by default.
        max_migration: the most state that a batch may move while there are as many workers, by the mean of a worker.
        split: whether the parts of a heavy key's rows may lie on d workers, and are merged when they are read. d comes
            from Proposition 4.1 of "When Two Choices Are not Enough", over the recent past.
        time: a column with the time of each row. Rows without one are left out.
        late: rows that are older than the latest one of the batches before by more than this are left out.
        ttl: a group goes when its latest row is older than the latest one of all by more than this.

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
        self._keys = [keys] if isinstance(keys, str) else list(keys)
        names = [*self._keys, *aggregates]
        for what, given in ("keys", self._keys), ("aggregates", aggregates):
            if not given:
                raise SaltwiseValueError(f"{what} is empty; name at least one.")
        for name in names:
            if names.count(name) > 1:
                raise SaltwiseValueError(f"{name!r} is given twice; each column of the result must have its own name.")
        if strategy not in STRATEGIES:
            raise SaltwiseValueError.unknown("strategy", strategy, STRATEGIES)
        if time is None and (late is not None or ttl is not None):
            raise SaltwiseValueError("late or ttl is given without time; name the column with the time of each row.")
        if split and ttl is not None:
            raise SaltwiseValueError(
                "split and ttl are both given; a key whose parts lie apart cannot go: leave one out."
            )
        if not max_migration > 0:
            raise SaltwiseValueError(f"max_migration is {max_migration!r}; it must be a number above 0.")
        self._strategy, self._max_migration = strategy, max_migration
        self._time, self._late, self._ttl = time, late, ttl
        self._columns = dict(aggregates)
        self._aggregates = [_two_phases(name, column) for name, column in aggregates.items()]
        self.rescale(workers)
        by_group = strategy in PLANNERS
        groups = KEY_GROUPS_PER_WORKER * workers if key_groups is None else key_groups
        history = KeyGroupHistory(groups) if by_group else PlacementHistory()
        heads: SlidingCounts[int | None] | None = SlidingCounts(WINDOW, EPSILON) if split else None
        first = Commit(0, None, history, heads, None, {}, (), None, None, {}, [], None)
        self._folder = StateFolder(path, first)
        last = self._folder.read()
        if isinstance(last.history, KeyGroupHistory) != by_group or (last.heads is None) == split:
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
        check_whole("workers", workers)
        self._workers = workers

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
        last = self._folder.read()
        if last.state is None or last.result is None:
            raise StatefulAggregateError(self.path, "it has no batch yet")
        self._check(last, None)
        old = self._alive(self._folder.rows(spark, last.state, last.files.values()), last)
        keys = [F.col(f"k{i}") for i in range(len(self._keys))]
        fields = list(last.result)
        merged = []
        for i, (aggregate, field) in enumerate(zip(self._aggregates, fields[len(keys) :], strict=True)):
            parts = [F.col(name) for name in last.state.names if name.startswith(f"p{i}_")]
            merged.append(aggregate.rule.merge(parts, aggregate.others, field.dataType).alias(f"r{i}"))
        whole = old.groupBy(*keys).agg(*(key.alias(f"kept_{i}") for i, key in enumerate(keys)), *merged)
        shown = [*(f"kept_{i}" for i in range(len(keys))), *(f"r{i}" for i in range(len(merged)))]
        return whole.select(*(F.col(a).alias(b.name) for a, b in zip(shown, fields, strict=True)))

    def _alive(self, rows: DataFrame, last: Commit) -> DataFrame:
        """Return the rows of the state without the groups that have gone."""
        if self._ttl is None or last.latest is None:
            return rows
        return rows.where(F.unix_micros(SEEN) >= last.latest - _micros(self._ttl))

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
        last = self._folder.read()
        if last.batch is not None and batch_id <= last.batch:
            return
        for key in self._keys:
            if key not in batch.columns:
                raise SaltwiseValueError.unknown("key", key, batch.columns)
            key_type = batch.schema[key].dataType
            if holds_type(key_type, WITHOUT_HASH):
                raise SaltwiseValueError(
                    f"key {key!r} is of type {key_type.simpleString()}; a key must not hold a map: group by its "
                    "map_entries."
                )
        if self._time is not None:
            batch = self._in_time(batch, last)
        stock = batch.groupBy(*map(quoted, self._keys)).agg(*(c.alias(n) for n, c in self._columns.items()))
        result = StructType(list(stock.schema)[-len(self._columns) :])
        result = StructType([*(batch.schema[key] for key in self._keys), *result])
        for field in result:
            if has_user_type(field.jsonValue()):
                raise SaltwiseValueError(
                    f"column {field.name!r} is of a user-defined type, which a state cannot keep: select its parts."
                )
        parts = self._parts(batch, result, {} if last.heads is None else head_splits(last.heads, self._workers))
        shown = dict(zip(self._columns, batch.agg(*self._columns.values()).columns, strict=True))
        if last.state is None:
            functions = [aggregate.name for aggregate in self._aggregates]
            last = replace(last, state=parts.schema, result=result, shown=shown, functions=functions)
        self._check(last, _spelled(result, shown))
        parts.persist()
        try:
            commit = self._next(last, parts, batch_id)
        finally:
            parts.unpersist()
        self._folder.commit(commit)

    def _in_time(self, batch: DataFrame, last: Commit) -> DataFrame:
        """Return the rows that have a time and are not too late."""
        assert self._time is not None
        if self._time not in batch.columns:
            raise SaltwiseValueError.unknown("time", self._time, batch.columns)
        allowed = [_micros(delay) for delay in (self._late, self._ttl) if delay is not None]
        if last.latest is None or not allowed:
            return batch.where(self._seen().isNotNull())
        return batch.where(F.unix_micros(self._seen()) >= last.latest - min(allowed))

    def _seen(self) -> Column:
        """The time of a row; NULL where rows have none."""
        seen = F.lit(None) if self._time is None else F.col(quoted(self._time))
        return seen.cast("timestamp")

    def _parts(self, batch: DataFrame, result: StructType, splits: Mapping[int, HeadSplit]) -> DataFrame:
        """Return the parts of each group of a batch: one for each worker over which the group is split."""
        keys = [F.col(quoted(key)).alias(f"k{i}") for i, key in enumerate(self._keys)]
        values, parts = [], [F.max(SEEN).alias(f"kept_{SEEN}"), F.count(F.lit(1)).alias(ROWS)]
        for i, (aggregate, field) in enumerate(zip(self._aggregates, list(result)[len(keys) :], strict=True)):
            value_names = [f"v{i}_{j}" for j in range(len(aggregate.values))]
            values += [value.alias(name) for value, name in zip(aggregate.values, value_names, strict=True)]
            columns = aggregate.rule.parts([F.col(n) for n in value_names], aggregate.others, field.dataType)
            parts += [part.alias(f"p{i}_{j}") for j, part in enumerate(columns)]
        names = [f"k{i}" for i in range(len(keys))]
        kept = [F.col(name).alias(f"kept_{name}") for name in names]
        hashed = F.xxhash64(*(F.col(quoted(key)) for key in self._keys))
        split = _split_of(hashed, batch, splits).alias(SPLIT)
        grouped = (
            batch.select(*keys, split, self._seen().alias(SEEN), *values).groupBy(*names, SPLIT).agg(*kept, *parts)
        )
        rest = [name for name in grouped.columns if name == ROWS or name.startswith("p")]
        return grouped.select(
            *(F.col(f"kept_{name}").alias(name) for name in names),
            F.xxhash64(*(f"kept_{name}" for name in names)).alias(HASH),
            SPLIT,
            F.col(f"kept_{SEEN}").alias(SEEN),
            *rest,
        )

    def _next(self, last: Commit, parts: DataFrame, batch_id: int) -> Commit:
        """Write the files of the next version, and return what to commit."""
        assert last.state is not None
        spark, before = parts.sparkSession, last.history.function
        placement = self._placed(last, parts)
        after = placement.function
        unit = _unit(after)
        moving = _moving(before, after)
        if moving is None:
            touched = {*last.files, *range(after.workers), *_units(parts, unit)}
        else:
            touched = _units(parts, unit) | _workers(before, moving) | _workers(after, moving)
        old = self._folder.rows(spark, last.state, [files for number, files in last.files.items() if number in touched])
        if before is not None and before != after:
            every = last.files.values()
            there = self._folder.rows(spark, last.state, every) if isinstance(after, KeyGroups) else old
            placement = replace(placement, **_moved(there, before, after))
        version = last.version + 1
        files = {number: kept for number, kept in last.files.items() if number not in touched}
        if touched:
            rows = self._alive(old, last).unionByName(parts)
            written = self._folder.write(self._folded(rows, after, unit, last.state), version)
            if not touched.issuperset(written):
                raise SaltwiseError(
                    f"Batch {batch_id} had other keys when it was read again, so nothing was changed: persist it first."
                )
            files |= written
        previous = tuple(name for kept in last.files.values() for name in kept)
        [seen] = parts.agg(F.unix_micros(F.max(SEEN))).collect()
        latest = max((each for each in (last.latest, seen[0]) if each is not None), default=None)
        return replace(
            last, version=version, batch=batch_id, latest=latest, files=files, previous=previous, placement=placement
        )

    def _placed(self, last: Commit, parts: DataFrame) -> Placement:
        """Count a batch, and choose the partition function for it and the next ones."""
        history, whole = last.history, parts.where(F.col(SPLIT).isNull())
        if last.heads is not None:
            run = self._weights(parts)
            rows = {key: int(weight) for key, weight in zip(run.keys.tolist(), run.weights.tolist(), strict=True)}
            others = {None: int(run.total) - sum(rows.values())}
            last.heads.offer_together({key: count for key, count in (rows | others).items() if count})
        if isinstance(history, PlacementHistory):
            return history.next(self._weights(whole), self._workers, self._strategy, self._max_migration)
        loads, state = np.zeros(history.groups), np.zeros(history.groups)
        group = F.pmod(HASH, F.lit(history.groups)).alias(UNIT)
        for number, count in whole.groupBy(group).agg(F.sum(ROWS)).collect():
            loads[number] = count
        for number, files in last.files.items():
            if number >= 0:
                state[number] = sum(files.values())
        return history.next(loads, state, self._workers, self._strategy, _key_type(parts), self._max_migration)

    @property
    def _capacity(self) -> int:
        """How many keys of a batch are counted.

        A key below this in each of many batches may be heavy in all of them together, so the share is delta / 10.
        """
        return max(PLACEMENT_CAPACITY, COUNTERS_PER_KEY * keys_to_track(self._workers))

    def _weights(self, parts: DataFrame) -> Weights:
        """Return the exact number of rows of the heaviest keys of a batch."""
        by_key = parts.groupBy(HASH).agg(F.sum(ROWS).alias(ROWS))
        rows = dict(map(tuple, by_key.orderBy(F.desc(ROWS), HASH).limit(self._capacity).collect()))
        [total] = parts.agg(F.sum(ROWS)).collect()
        keys = np.fromiter(rows, np.int64, len(rows))
        weights = np.array([*rows.values()], np.float64)
        return Weights(_key_type(parts), keys, weights, float(total[0] or 0))

    def _folded(self, rows: DataFrame, function: PartitionFunction, unit: Column, state: StructType) -> DataFrame:
        """Merge the parts of each group into one row, at the worker of its unit."""
        keys = [name for name in state.names if name.startswith("k")]
        folded = [F.max(SEEN), F.sum(ROWS)]
        for i, aggregate in enumerate(self._aggregates):
            parts = [F.col(name) for name in state.names if name.startswith(f"p{i}_")]
            folded += aggregate.rule.fold(parts, aggregate.others)
        fields = [state[name] for name in state.names if name in (SEEN, ROWS) or name.startswith("p")]
        # A sum of decimals has more digits than its parts.
        typed = [
            column.cast(field.dataType) if isinstance(field.dataType, DecimalType) else column
            for column, field in zip(folded, fields, strict=True)
        ]
        split = F.pmod(SPLIT, F.lit(function.workers))
        here = [NUMBER, UNIT, *keys, HASH, SPLIT]
        kept = [F.col(name).alias(f"kept_{name}") for name in here[1:]]
        whole = (
            placed(rows.withColumn(UNIT, unit), F.coalesce(split, worker_of(F.col(HASH), function)), function.workers)
            .groupBy(*here)
            .agg(*kept, *(column.alias(f"kept_{field.name}") for column, field in zip(typed, fields, strict=True)))
        )
        return whole.select(*(F.col(f"kept_{name}").alias(name) for name in [UNIT, *state.names]))

    def _check(self, last: Commit, columns: list[str] | None) -> None:
        """Raise if the state has other keys, types or aggregates than the columns of a batch, if there is one."""
        assert last.result is not None
        was = _spelled(last.result, last.shown)
        names = [*self._keys, *self._columns]
        functions = [aggregate.name for aggregate in self._aggregates]
        if last.result.names != names or last.functions != functions or (columns or was) != was:
            now = columns or [*self._keys, *(f"{n} as {f}" for n, f in zip(self._columns, functions, strict=True))]
            raise StatefulAggregateError(self.path, f"its columns are {', '.join(was)}, and these are {', '.join(now)}")


def _two_phases(name: str, column: Column) -> Mergeable:
    found = two_phases(column)
    if found is None:
        raise SaltwiseValueError(
            f"aggregate {name!r} must be one call, without DISTINCT, of {', '.join(RULES)}; compute further on the "
            "DataFrame of state."
        )
    return found


def _micros(delay: timedelta) -> int:
    return delay // timedelta(microseconds=1)


def _key_type(parts: DataFrame) -> str:
    return ", ".join(field.dataType.simpleString() for field in parts.schema if field.name.startswith("k"))


def _unit(function: PartitionFunction) -> Column:
    """The unit of a row of the state: below 0 for a part of a split key."""
    if isinstance(function, KeyGroups):
        whole = F.pmod(HASH, F.lit(len(function.table)))
    else:
        whole = worker_of(F.col(HASH), function)
    return F.coalesce(-1 - F.col(SPLIT), whole).cast("int")


def _units(parts: DataFrame, unit: Column) -> set[int]:
    return {row[0] for row in parts.select(unit).distinct().collect()}


def _split_of(hashed: Column, batch: DataFrame, splits: Mapping[int, HeadSplit]) -> Column:
    """The worker of a row if its key is split, as a function of the row's content; else NULL."""
    if not splits:
        return F.lit(None).cast("int")

    def place(hashes: pd.Series, contents: pd.Series) -> pd.Series:
        parts = (contents.to_numpy().astype(np.uint64) >> np.uint64(11)) / 2.0**53
        worker = np.full(len(hashes), np.nan)
        for key, split in splits.items():
            its = (hashes == key).to_numpy()
            worker[its] = split.place(parts[its])
        return pd.Series(worker).astype("Int32")

    columns = [quoted(field.name) for field in batch.schema if not holds_type(field.dataType, WITHOUT_HASH)]
    return pandas_udf(place, "int")(hashed, F.xxhash64(*columns))  # type: ignore[call-overload, no-any-return]


def _moving(before: PartitionFunction | None, after: PartitionFunction) -> Longs | None:
    """Return the keys whose files change because they move; None if this can only be found by looking at all groups."""
    if before is None or before == after or isinstance(after, KeyGroups):
        return np.empty(0, np.int64)
    if not isinstance(before, HashPair) or not isinstance(after, HashPair) or before.workers != after.workers:
        return None
    keys = np.union1d(before.tracked, after.tracked)
    return np.asarray(keys[before.place(keys) != after.place(keys)])


def _workers(function: PartitionFunction | None, keys: Longs) -> set[int]:
    return set() if function is None else set(function.place(keys).tolist())


def _moved(old: DataFrame, before: PartitionFunction, after: PartitionFunction) -> dict[str, Any]:
    """Count the groups that move, and the rows in them."""
    moves = F.col(SPLIT).isNull() & (worker_of(F.col(HASH), before) != worker_of(F.col(HASH), after))
    [counted] = old.where(moves).agg(F.count(F.lit(1)), F.sum(ROWS)).collect()
    return {"moved_keys": counted[0], "moved_rows": float(counted[1] or 0)}


def _spelled(fields: StructType, shown: Mapping[str, str]) -> list[str]:
    """Write the columns of a result, such as ``bytes bigint as sum(bytes)``."""
    return [
        f"{field.name} {field.dataType.simpleString()}" + (f" as {shown[field.name]}" if field.name in shown else "")
        for field in fields
    ]
