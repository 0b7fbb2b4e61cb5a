"""The two-phase plan without the plugin: skew_groupby(..., engine="arrow").

Rows are routed by ``mapInArrow``, and everything else is Spark's own::

    Final(k) ← Exchange(k) ← Partial(k) ← aggregate(k, worker) ← Exchange(worker) ← mapInArrow ← Sort ← hash of k
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import mmh3
import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, IntegerType, MapType, NumericType, StructField, StructType

from .._jit import NUMBA_ERROR
from .._optional import OptionalPackageError
from ..errors import SaltwiseError, SaltwiseValueError
from ..options import SettledOptions
from ..splitting.router import Router
from ..strategies import STRATEGIES
from .aggregate_calls import Call
from .key_columns import as_column, flattened, quoted
from .mergeable import Mergeable, mergeable, mergeable_call

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class ArrowGroups:
    """What ``skew_groupby(..., engine="arrow")`` groups by: the methods of GroupedData whose groups may be split.

    The rows of a group are spread over workers by a strategy of the papers, aggregated there, and merged. Names, types
    and values of the results are those of ``df.groupBy(*cols)``, apart from what Spark itself leaves open.

    A map task is a source, and the strategies, ``hash`` apart, look at the rows before. So that a task that runs again
    sends every row where it went before, its rows are first sorted by a hash of the columns that travel. That does not
    help where these columns differ when they are computed again (``rand()``, a ``collect_list`` or a sum of doubles
    below the group-by), nor for maps, which have no hash: there only ``strategy="hash"`` survives a lost executor.

    ``collect_set`` takes all NaNs for one, as Spark does from 4.2 on; before, Spark may list several.

    Args:
        df: what to group.
        cols: as for ``DataFrame.groupBy``, at least one.
        options: the strategy and its parameters.

    Raises:
        SaltwiseValueError: there is no column to group by, a key is or holds a map.
        SaltwiseError: the DataFrame is a stream.

    Warns:
        RuntimeWarning: numba cannot be imported.
    """

    def __init__(self, df: DataFrame, cols: Sequence[Column | str | int | list[Any]], options: SettledOptions) -> None:
        if df.isStreaming:
            raise SaltwiseError("The DataFrame is a stream, and engine='arrow' groups tables: use df.groupBy.")
        if NUMBA_ERROR is not None:
            warnings.warn(
                f"engine='arrow' chooses workers in interpreted Python, which is many times slower. "
                f"{OptionalPackageError.from_error('Compiled Python', 'arrow', NUMBA_ERROR)} "
                "Spark's Python workers need it, too.",
                RuntimeWarning,
                stacklevel=2,
            )
        keys = flattened(cols)
        if not keys:
            raise SaltwiseValueError("cols is empty; name at least one column to group by, or use df.agg.")
        self._df = df
        self._stock = df.groupBy(*cols)  # type: ignore[arg-type]
        self._keys = [as_column(df, key) for key in keys]
        self._options = options

    def agg(self, *exprs: Column | dict[str, str]) -> DataFrame:
        """Aggregate as ``GroupedData.agg``: Columns, or a dict from column to function name.

        Raises:
            SaltwiseValueError: a Column is not one call of a function that merges; the message names these.

        >>> df.skew_groupby("k", engine="arrow").agg(F.sum("bytes").alias("total"))  # doctest: +SKIP
        DataFrame[k: string, total: bigint]
        """
        stock = self._stock.agg(*exprs)  # type: ignore[arg-type]
        columns: list[Any] = list(exprs)
        if len(exprs) == 1 and isinstance(exprs[0], dict):
            columns = [F.call_function(function, F.col(name)) for name, function in exprs[0].items()]
            # Spark may give the columns of a dict another order.
            by_name = dict(zip(self._stock.agg(*columns).columns[-len(columns) :], columns, strict=True))
            columns = [by_name[name] for name in stock.columns[-len(columns) :]]
        return self._two_phases([*map(mergeable, columns, stock.columns[-len(columns) :])], stock.schema)

    def count(self) -> DataFrame:
        """Count the rows of each group, as ``GroupedData.count``."""
        return self._two_phases([mergeable_call(Call("count", []))], self._stock.count().schema)

    def sum(self, *cols: str) -> DataFrame:
        """Add up number columns, all by default, as ``GroupedData.sum``."""
        return self._of_numbers("sum", cols)

    def avg(self, *cols: str) -> DataFrame:
        """Average number columns, all by default, as ``GroupedData.avg``."""
        return self._of_numbers("avg", cols)

    mean = avg

    def min(self, *cols: str) -> DataFrame:
        """Return the smallest values of number columns, all by default, as ``GroupedData.min``."""
        return self._of_numbers("min", cols)

    def max(self, *cols: str) -> DataFrame:
        """Return the largest values of number columns, all by default, as ``GroupedData.max``."""
        return self._of_numbers("max", cols)

    def _of_numbers(self, function: str, cols: Sequence[str]) -> DataFrame:
        stock = getattr(self._stock, function)(*cols)
        names = cols or [quoted(field.name) for field in self._df.schema if isinstance(field.dataType, NumericType)]
        return self._two_phases([mergeable_call(Call(function, [F.col(name)])) for name in names], stock.schema)

    def _two_phases(self, aggregates: Sequence[Mergeable], result: StructType) -> DataFrame:
        """Return the aggregates by group; `result` has the names and the types that Spark gives them."""
        fields = list(result)[len(result) - len(aggregates) :]
        columns, keys = with_names("k", self._keys)
        parts, merged = [], []
        for i, (aggregate, field) in enumerate(zip(aggregates, fields, strict=True)):
            rule, others, of = aggregate.rule, aggregate.others, field.dataType
            values, held = with_names(f"v{i}_", aggregate.values)
            columns += values
            of_rows, held = with_names(f"p{i}_", rule.parts(held, others, of))
            parts += of_rows
            merged.append(rule.merge(held, others, of).alias(f"r{i}"))
        # Only what is needed travels, under names that the user's cannot clash with.
        rows = routed(self._df.select(*columns), len(keys), self._options)
        # Where spark.sql.retainGroupColumns is off, only what agg names is kept.
        kept, of_parts = with_names("part_k", keys)
        halves = rows.groupBy(*keys, WORKER).agg(*kept, *parts)
        kept, of_whole = with_names("whole_k", of_parts)
        whole = halves.groupBy(*of_parts).agg(*kept, *merged)
        shown = [*of_whole, *(F.col(f"r{i}") for i in range(len(merged)))][-len(result) :]
        return whole.select(
            *(column.alias(field.name, metadata=field.metadata) for column, field in zip(shown, result, strict=True))
        )


WORKER = "worker"

WITHOUT_HASH = ("map", "variant")
"""Types that xxhash64 does not take."""

NOT_IN_ARROW = ("yearmonthinterval", "interval")
"""Types that mapInArrow does not take."""


def routed(rows: DataFrame, keys: int, options: SettledOptions) -> DataFrame:
    """Send rows to workers: the column "worker" tells them apart, and each has a partition of its own.

    Args:
        rows: the columns of the key, and then the values.
        keys: how many columns the key has.
        options: the strategy and its parameters.

    Raises:
        SaltwiseValueError: a key is or holds a map, or a column an interval of months.
    """
    check_travels(rows, keys)
    names = rows.columns
    if STRATEGIES[options.strategy].looks_back:
        rows = rows.sortWithinPartitions(
            F.xxhash64(*(f.name for f in rows.schema if not holds_type(f.dataType, WITHOUT_HASH)))
        )
    # xxhash64 takes -0.0 for 0.0 and all NaNs for one, as GROUP BY does.
    hashed = rows.select(*names, F.xxhash64(*names[:keys]).alias("hash"))
    schema = StructType([*rows.schema.fields, StructField(WORKER, IntegerType(), nullable=False)])
    return hashed.mapInArrow(router(options), schema).repartition(options.workers, WORKER)


def check_travels(rows: DataFrame, keys: int) -> None:
    """Raise a SaltwiseValueError where a column cannot go through mapInArrow, or a key, the first ones, holds a map."""
    for i, field in enumerate(rows.schema):
        if holds_type(field.dataType, NOT_IN_ARROW):
            raise SaltwiseValueError(
                f"a column is of type {field.dataType.simpleString()}, which pyspark does not carry by Arrow: cast it, "
                "or group by the plugin or by df.groupBy."
            )
        if i < keys and holds_type(field.dataType, WITHOUT_HASH):
            raise SaltwiseValueError(
                f"a key is of type {field.dataType.simpleString()}; with engine='arrow' a key may hold no map: group "
                "by map_entries of it, or by df.groupBy."
            )


def router(options: SettledOptions) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what ``mapInArrow`` calls in each task: it puts a worker in place of the last column, the key's hash.

    A worker is given as the number that Spark's hash partitioning sends to the partition of that worker.
    """
    numbers = worker_numbers(options.workers)

    def route(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        source = Router(options, task_number())
        for batch in batches:
            *kept, hashes = batch.columns
            workers = pa.array(numbers[source.route(hashes.to_numpy())])
            yield pa.RecordBatch.from_arrays([*kept, workers], [*batch.schema.names[:-1], WORKER])

    return route


def task_number() -> int:
    """Return the number of the running task: that of its partition."""
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None
    return int(task.partitionId())


def worker_numbers(workers: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Return for each worker the smallest number that ``repartition(workers, number)`` sends to its partition.

    Spark's partition of an int is Murmur3 of its four bytes with seed 42, modulo the number of partitions.

    >>> worker_numbers(3).tolist()
    [0, 1, 11]
    """
    numbers = np.full(workers, -1, np.int32)
    missing, number = workers, 0
    while missing:
        partition = mmh3.hash(struct.pack("<i", number), 42) % workers
        if numbers[partition] < 0:
            numbers[partition] = number
            missing -= 1
        number += 1
    return numbers


def with_names(prefix: str, columns: Sequence[Column]) -> tuple[list[Column], list[Column]]:
    """Give columns names; return them, and what refers to them."""
    names = [f"{prefix}{i}" for i in range(len(columns))]
    return [c.alias(name) for c, name in zip(columns, names, strict=True)], [F.col(name) for name in names]


def holds_type(data_type: DataType, names: Sequence[str]) -> bool:
    """Whether a type, or one inside of it, has one of these names."""
    if isinstance(data_type, StructType):
        inside = [field.dataType for field in data_type]
    elif isinstance(data_type, ArrayType):
        inside = [data_type.elementType]
    else:
        inside = [data_type.keyType, data_type.valueType] if isinstance(data_type, MapType) else []
    return data_type.typeName() in names or any(holds_type(each, names) for each in inside)
