"""Running aggregates for foreachBatch. The groups of each worker are Parquet files, which move only if they have to.

The folder, while version 7 is in use::

    commit.json                     the state: version, batch, partition function, sliding counts, files by worker
    version=0000000005/worker=2/    files that version 7 still uses: worker 2 has got no rows since
    version=0000000006/worker=1/    files of the version before, for those who still read it
    version=0000000007/worker=1/

A batch first writes the files of the workers that it touches into the folder of the next version. Then it replaces
commit.json. Then it removes the files that neither of the last two versions uses. A batch takes effect only when
commit.json is replaced. commit.json names the batch, so the same batch is skipped when it comes again.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, StructType

from ..errors import SaltwiseError, SaltwiseValueError, check_whole
from ..options import default_capacity, default_theta
from ..placement.construct import ALGORITHMS
from ..placement.function_json import PartitionFormatError
from ..placement.hash_pair import HashPair
from ..placement.history import Placement, PlacementHistory, Weights, costs_from_content, costs_to_content
from ..placement.store import local_folder
from ..splitting.compiled_hash import Longs
from ..versioned_json import PART, VersionedJsonError, dump_versioned, load_versioned, replace_file
from .arrow_engine import WITHOUT_HASH, WORKER, holds_type
from .key_columns import quoted
from .mergeable import RULES, Mergeable, two_phases
from .placing import HASH, NUMBER, placed, worker_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from ..placement.partition_function import PartitionFunction

FORMAT = "saltwise stateful aggregate"
VERSION = 1
COMMIT = "commit.json"
ROWS = "rows"

Files = dict[str, int]
"""Path in the folder, to its length in bytes."""


class StatefulAggregateError(SaltwiseError):
    """A folder does not hold a state that can be used here. It is not changed."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{str(path)!r} does not hold a state to continue, because {why}; give another folder.")


@dataclass(frozen=True)
class Commit:
    """The content of commit.json."""

    version: int
    """Number of commits so far."""
    batch: int | None
    """The last batch in the state; None before the first one."""
    history: PlacementHistory
    files: dict[int, Files]
    """The files of each worker."""
    previous: tuple[str, ...]
    """Files of the previous version."""
    state: StructType | None
    """The columns of the files: keys k0 ..., hash, rows, and the parts p0_0 ... of each aggregate."""
    result: StructType | None
    """Names and types of the columns that users see."""
    shown: dict[str, str]
    """Name of each aggregate, to Spark's text of it."""
    functions: list[str]
    """The function of each aggregate, in order."""
    placement: Placement | None
    """The placement of the last batch."""

    def to_json(self) -> str:
        return dump_versioned(
            FORMAT,
            VERSION,
            {
                "state_version": self.version,
                "batch": self.batch,
                "placement": None if self.placement is None else costs_to_content(self.placement),
                "history": self.history.to_content(),
                "aggregates": self.shown,
                "functions": self.functions,
                "state": None if self.state is None else self.state.jsonValue(),
                "result": None if self.result is None else self.result.jsonValue(),
                "files": {str(worker): files for worker, files in self.files.items()},
                "previous": self.previous,
            },
        )

    @classmethod
    def from_json(cls, text: str) -> Commit:
        """Read what :meth:`to_json` wrote.

        Raises:
            VersionedJsonError: the text is not a commit, or it is newer or damaged.
            PartitionFormatError, AttributeError, LookupError, TypeError, ValueError: its values are wrong.
        """
        content = load_versioned(text, FORMAT, VERSION)
        history = PlacementHistory.from_content(content["history"])
        costs = content["placement"]
        return cls(
            content["state_version"],
            content["batch"],
            history,
            {int(worker): files for worker, files in content["files"].items()},
            tuple(content["previous"]),
            None if content["state"] is None else StructType.fromJson(content["state"]),
            None if content["result"] is None else StructType.fromJson(content["result"]),
            content["aggregates"],
            content["functions"],
            None if costs is None or history.function is None else costs_from_content(history.function, costs),
        )


class StatefulAggregate:
    """Aggregates by key over all batches of a stream, kept in a folder. Each batch updates them exactly once.

    ::

        totals = StatefulAggregate("/data/totals", "user", {"bytes": F.sum("bytes"), "rows": F.count("*")}, workers=8)
        stream.writeStream.option("checkpointLocation", "/data/checkpoint").foreachBatch(totals.update).start()
        totals.state(spark).show()

    Each worker owns the groups that a partition function gives it. A batch rewrites a worker's files only if the worker
    gets rows of the batch, or if groups move to it or away from it. The function is chosen like that of
    :class:`saltwise.PlacementStore`. The first one is "largest first". A new one is made by ``strategy``, and only when
    the old one no longer balances the load or when the number of workers changes.

    A batch is skipped if it, or a later one, is committed already. So a stream with a new checkpoint, whose batches
    start again at 0, needs a new folder. Only one stream at a time may write to a folder.

    Args:
        path: a folder that the driver and all executors see under this name. It is made if it does not exist.
        keys: names of the columns to group by.
        aggregates: name in the result, to a Column that is one call of a function that merges: any of
            ``saltwise.spark.mergeable.RULES``, without DISTINCT. ``F.expr`` adds a FILTER.
        workers: N, the number of partitions of the state. It may differ from the run before.
        strategy: readj, scan or redist.

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
        strategy: str = "readj",
    ) -> None:
        self._keys = [keys] if isinstance(keys, str) else list(keys)
        names = [*self._keys, *aggregates]
        for what, given in ("keys", self._keys), ("aggregates", aggregates):
            if not given:
                raise SaltwiseValueError(f"{what} is empty; name at least one.")
        for name in names:
            if names.count(name) > 1:
                raise SaltwiseValueError(f"{name!r} is given twice; each column of the result must have its own name.")
        if strategy not in ALGORITHMS:
            raise SaltwiseValueError.unknown("strategy", strategy, ALGORITHMS)
        self._strategy = strategy
        self._columns = dict(aggregates)
        self._aggregates = [_two_phases(name, column) for name, column in aggregates.items()]
        self.rescale(workers)
        self.path = local_folder(path)
        if self.path.exists() and {file.name for file in self.path.iterdir()} - {COMMIT + PART}:
            self._read()
        else:
            self.path.mkdir(parents=True, exist_ok=True)
            replace_file(self._file, Commit(0, None, PlacementHistory(), {}, (), None, None, {}, [], None).to_json())

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
        return self._read().placement

    def state(self, spark: SparkSession) -> DataFrame:
        """Return the aggregates over all batches so far: the key columns, then one column for each aggregate.

        The DataFrame reads the current version. Its files stay until two more batches have been committed.

        Raises:
            StatefulAggregateError: there was no batch yet, or the folder is damaged.
        """
        last = self._read()
        if last.state is None or last.result is None:
            raise StatefulAggregateError(self.path, "it has no batch yet")
        self._check(last, None)
        old = self._files(spark, last.state, last.files.values())
        keys = [F.col(f"k{i}") for i in range(len(self._keys))]
        fields = list(last.result)
        merged = []
        for i, (aggregate, field) in enumerate(zip(self._aggregates, fields[len(keys) :], strict=True)):
            parts = [F.col(name) for name in last.state.names if name.startswith(f"p{i}_")]
            merged.append(aggregate.rule.merge(parts, aggregate.others, field.dataType).alias(f"r{i}"))
        whole = old.groupBy(*keys).agg(*(key.alias(f"kept_{i}") for i, key in enumerate(keys)), *merged)
        shown = [*(f"kept_{i}" for i in range(len(keys))), *(f"r{i}" for i in range(len(merged)))]
        return whole.select(*(F.col(a).alias(b.name) for a, b in zip(shown, fields, strict=True)))

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
        last = self._read()
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
        stock = batch.groupBy(*map(quoted, self._keys)).agg(*(c.alias(n) for n, c in self._columns.items()))
        result = StructType(list(stock.schema)[-len(self._columns) :])
        result = StructType([*(batch.schema[key] for key in self._keys), *result])
        parts = self._parts(batch, result)
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
        replace_file(self._file, commit.to_json())
        self._vacuum(commit)

    def _parts(self, batch: DataFrame, result: StructType) -> DataFrame:
        """Return the parts of each group of a batch."""
        keys = [F.col(quoted(key)).alias(f"k{i}") for i, key in enumerate(self._keys)]
        values, parts = [], [F.count(F.lit(1)).alias(ROWS)]
        for i, (aggregate, field) in enumerate(zip(self._aggregates, list(result)[len(keys) :], strict=True)):
            value_names = [f"v{i}_{j}" for j in range(len(aggregate.values))]
            values += [value.alias(name) for value, name in zip(aggregate.values, value_names, strict=True)]
            columns = aggregate.rule.parts([F.col(n) for n in value_names], aggregate.others, field.dataType)
            parts += [part.alias(f"p{i}_{j}") for j, part in enumerate(columns)]
        names = [f"k{i}" for i in range(len(keys))]
        kept = [F.col(name).alias(f"kept_{name}") for name in names]
        grouped = batch.select(*keys, *values).groupBy(*names).agg(*kept, *parts)
        keys = [F.col(f"kept_{name}").alias(name) for name in names]
        rest = [name for name in grouped.columns if name == ROWS or name.startswith("p")]
        hashed = F.xxhash64(*(f"kept_{name}" for name in names)).alias(HASH)
        return grouped.select(*keys, hashed, *rest)

    def _next(self, last: Commit, parts: DataFrame, batch_id: int) -> Commit:
        """Write the files of the next version, and return what to commit."""
        assert last.state is not None
        spark, history = parts.sparkSession, last.history
        before, run = history.function, self._weights(parts)
        placement = history.next(run, self._workers, self._strategy)
        after = placement.function
        moving = _moving(before, after)
        touched = {*last.files, *range(after.workers)}
        if moving is not None and len(run.keys) < self._capacity:
            # All keys of the batch are known here. A batch with more keys touches every worker.
            touched = {*after.place(run.keys).tolist()} | _workers(before, moving) | _workers(after, moving)
        old = self._files(spark, last.state, [files for worker, files in last.files.items() if worker in touched])
        if before is not None and (moving is None or len(moving)):
            placement = replace(placement, **_moved(old, before, after, moving))
        version = last.version + 1
        files = {worker: kept for worker, kept in last.files.items() if worker not in touched}
        if touched:
            written = self._write(self._folded(old.unionByName(parts), after, last.state), version)
            if not touched.issuperset(written):
                raise SaltwiseError(
                    f"Batch {batch_id} had other keys when it was read again, so nothing was changed: persist it first."
                )
            files |= written
        previous = tuple(name for kept in last.files.values() for name in kept)
        return replace(last, version=version, batch=batch_id, files=files, previous=previous, placement=placement)

    @property
    def _capacity(self) -> int:
        """The number of keys of a batch that the placement looks at."""
        return default_capacity(default_theta(self._workers))

    def _weights(self, parts: DataFrame) -> Weights:
        """Return the exact number of rows of the heaviest keys of a batch."""
        heaviest = parts.select(HASH, ROWS).orderBy(F.desc(ROWS), HASH).limit(self._capacity)
        rows: dict[int, int] = {}
        for key, count in heaviest.collect():
            rows[key] = rows.get(key, 0) + count
        [total] = parts.agg(F.sum(ROWS)).collect()
        types = [field.dataType.simpleString() for field in parts.schema if field.name.startswith("k")]
        keys = np.fromiter(rows, np.int64, len(rows))
        weights = np.array([*rows.values()], np.float64)
        return Weights(", ".join(types), keys, weights, float(total[0] or 0))

    def _folded(self, rows: DataFrame, function: PartitionFunction, state: StructType) -> DataFrame:
        """Merge the parts of each group into one row, at the worker of the group."""
        keys = [name for name in state.names if name.startswith("k")]
        folded = [F.sum(ROWS)]
        for i, aggregate in enumerate(self._aggregates):
            parts = [F.col(name) for name in state.names if name.startswith(f"p{i}_")]
            folded += aggregate.rule.fold(parts, aggregate.others)
        fields = [state[name] for name in state.names if name == ROWS or name.startswith("p")]
        # A sum of decimals has more digits than its parts.
        typed = [
            column.cast(field.dataType) if isinstance(field.dataType, DecimalType) else column
            for column, field in zip(folded, fields, strict=True)
        ]
        here = [NUMBER, WORKER, *keys, HASH]
        kept = [F.col(name).alias(f"kept_{name}") for name in here[1:]]
        whole = (
            placed(rows, function)
            .groupBy(*here)
            .agg(*kept, *(column.alias(f"kept_{field.name}") for column, field in zip(typed, fields, strict=True)))
        )
        return whole.select(*(F.col(f"kept_{name}").alias(name) for name in [WORKER, *state.names]))

    def _write(self, rows: DataFrame, version: int) -> dict[int, Files]:
        folder = self.path / f"version={version:010d}"
        if folder.exists():
            shutil.rmtree(folder)  # left by a batch that was not committed
        rows.write.partitionBy(WORKER).parquet(_address(folder))
        return {
            int(worker_folder.name.removeprefix(f"{WORKER}=")): {
                file.relative_to(self.path).as_posix(): file.stat().st_size
                for file in sorted(worker_folder.glob("*.parquet"))
            }
            for worker_folder in sorted(folder.glob(f"{WORKER}=*"))
        }

    def _files(self, spark: SparkSession, state: StructType, each: Any) -> DataFrame:
        """Return the rows of the files, after a check that all files are there."""
        sizes = {name: size for files in each for name, size in files.items()}
        for name, size in sizes.items():
            file = self.path / name
            if not file.is_file() or file.stat().st_size != size:
                found = f"has {file.stat().st_size} bytes" if file.is_file() else "is not there"
                raise StatefulAggregateError(self.path, f"{name} of {size} bytes {found}")
        if not sizes:
            return spark.createDataFrame([], state)
        return spark.read.schema(state).parquet(*(_address(self.path / name) for name in sizes))

    def _vacuum(self, commit: Commit) -> None:
        """Remove the files that neither this version nor the previous one uses."""
        names = {name for files in commit.files.values() for name in files} | set(commit.previous)
        used = {str(Path(name).parent) for name in names}
        for version in sorted(self.path.glob("version=*")):
            workers = sorted(version.glob(f"{WORKER}=*"))
            unused = [folder for folder in workers if folder.relative_to(self.path).as_posix() not in used]
            for folder in unused if len(unused) < len(workers) else [version]:
                shutil.rmtree(folder)

    @property
    def _file(self) -> Path:
        return self.path / COMMIT

    def _read(self) -> Commit:
        try:
            return Commit.from_json(self._file.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise StatefulAggregateError(self.path, f"it has other files but no {COMMIT}") from error
        except VersionedJsonError as error:
            raise StatefulAggregateError(self.path, f"of {COMMIT}: {error}") from error
        except (PartitionFormatError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise StatefulAggregateError(self.path, f"the content of {COMMIT} is wrong: {error}") from error

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


def _moving(before: PartitionFunction | None, after: PartitionFunction) -> Longs | None:
    """Return the keys whose worker changes; None if this can only be found by looking at all groups."""
    if before is None or before == after:
        return np.empty(0, np.int64)
    if not isinstance(before, HashPair) or not isinstance(after, HashPair) or before.workers != after.workers:
        return None
    keys = np.union1d(before.tracked, after.tracked)
    return np.asarray(keys[before.place(keys) != after.place(keys)])


def _workers(function: PartitionFunction | None, keys: Longs) -> set[int]:
    return set() if function is None else set(function.place(keys).tolist())


def _moved(old: DataFrame, before: PartitionFunction, after: PartitionFunction, moving: Longs | None) -> dict[str, Any]:
    """Count the groups that move, and the rows in them."""
    key = F.col(HASH)
    moves = worker_of(key, before) != worker_of(key, after) if moving is None else key.isin(moving.tolist())
    [counted] = old.where(moves).agg(F.count(F.lit(1)), F.sum(ROWS)).collect()
    return {"moved_keys": counted[0], "moved_rows": float(counted[1] or 0)}


def _spelled(fields: StructType, shown: Mapping[str, str]) -> list[str]:
    """Write the columns of a result, such as ``bytes bigint as sum(bytes)``."""
    return [
        f"{field.name} {field.dataType.simpleString()}" + (f" as {shown[field.name]}" if field.name in shown else "")
        for field in fields
    ]


def _address(path: Path) -> str:
    return f"file://{path}"
