"""The two-phase plan without the plugin: skew_groupby(..., engine="arrow").

Rows are routed by ``mapInArrow``, and everything else is Spark's own::

    Final(k) ← Exchange(k) ← Partial(k) ← aggregate(k, worker) ← Exchange(worker) ← mapInArrow ← Sort ← hash of k
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import mmh3
import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import ArrayType, DataType, IntegerType, MapType, NumericType, StructField, StructType

from .calls import Call
from .errors import SaltwiseError, SaltwiseValueError
from .mergeable import Mergeable, mergeable, of_call
from .routing import Router, Routing

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class ArrowGroupedData:
    """What ``skew_groupby(..., engine="arrow")`` returns: the methods of Spark's GroupedData whose groups may be split.

    The rows of a group are spread over workers by a strategy of the papers, aggregated there, and merged. Names, types
    and values of the results are those of ``df.groupBy(*cols)``, apart from what Spark itself leaves open.

    A map task is a source, and the strategies, ``hash`` apart, look at the rows before. So that a task that runs again
    sends every row where it went before, its rows are first sorted by a hash of the columns that travel. That does not
    help where these columns differ when they are computed again (``rand()``, a ``collect_list`` or a sum of doubles
    below the group-by), nor for maps, which have no hash: there only ``strategy="hash"`` survives a lost executor.

    Args:
        df: what to group.
        cols: as for ``DataFrame.groupBy``, at least one.
        routing: the strategy and its parameters.

    Raises:
        SaltwiseValueError: there is no column to group by, a key is or holds a map.
        SaltwiseError: the DataFrame is a stream.
    """

    def __init__(self, df: DataFrame, cols: Sequence[Column | str | int | list[Any]], routing: Routing) -> None:
        if df.isStreaming:
            raise SaltwiseError("The DataFrame is a stream, and engine='arrow' groups tables: use df.groupBy.")
        keys = list(cols[0]) if len(cols) == 1 and isinstance(cols[0], list) else list(cols)
        if not keys:
            raise SaltwiseValueError("cols is empty; name at least one column to group by, or use df.agg.")
        self._df = df
        self._stock = df.groupBy(*cols)  # type: ignore[arg-type]
        self._keys = [_as_column(df, key) for key in keys]
        self._routing = routing

    def agg(self, *exprs: Column | dict[str, str]) -> DataFrame:
        """Aggregate as ``GroupedData.agg``: Columns, or a dict from column to function name.

        Raises:
            SaltwiseValueError: a Column is not one call of a function that merges; the message names these.

        >>> df.skew_groupby("k", engine="arrow").agg(F.sum("bytes").alias("total"))  # doctest: +SKIP
        DataFrame[k: string, total: bigint]
        """
        stock = self._stock.agg(*exprs)  # type: ignore[arg-type]
        if len(exprs) == 1 and isinstance(exprs[0], dict):
            columns = [F.call_function(f, F.col(name)) for name, f in exprs[0].items()]
            return self.agg(*columns).select(*map(_quoted, stock.columns))
        return self._two_phases([mergeable(column) for column in exprs], stock.schema)  # type: ignore[arg-type]

    def count(self) -> DataFrame:
        """Count the rows of each group, as ``GroupedData.count``."""
        return self._two_phases([of_call(Call("count", []))], self._stock.count().schema)

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

    def pivot(self, pivot_col: str, values: list[Any] | None = None) -> NoReturn:
        """Refuse: the groups of a pivot are those of its column too.

        Raises:
            SaltwiseError: always; it says what to write.
        """
        raise SaltwiseError(
            f"pivot is not there with engine='arrow': group by {pivot_col} too, and pivot the result by df.groupBy."
        )

    def _of_numbers(self, function: str, cols: Sequence[str]) -> DataFrame:
        stock = getattr(self._stock, function)(*cols)
        names = cols or [_quoted(field.name) for field in self._df.schema if isinstance(field.dataType, NumericType)]
        return self._two_phases([of_call(Call(function, [F.col(name)])) for name in names], stock.schema)

    def _two_phases(self, aggregates: Sequence[Mergeable], result: StructType) -> DataFrame:
        """Return the aggregates by group; `result` has the names and the types that Spark gives them."""
        of = result[len(result) - len(aggregates) :]
        keys = [f"k{i}" for i in range(len(self._keys))]
        values = [[f"v{i}_{j}" for j in range(len(a.values))] for i, a in enumerate(aggregates)]
        parts = [
            [part.alias(f"p{i}_{j}") for j, part in enumerate(a.rule.parts(_columns(values[i]), a.others, of[i].dataType))]
            for i, a in enumerate(aggregates)
        ]
        merged = [
            a.rule.merge(_columns(f"p{i}_{j}" for j in range(len(parts[i]))), a.others, of[i].dataType).alias(f"r{i}")
            for i, a in enumerate(aggregates)
        ]
        # Only what is needed travels, and nothing after this line knows a name of the user's.
        rows = self._df.select(
            *(key.alias(name) for key, name in zip(self._keys, keys, strict=True)),
            *(value.alias(name) for i, a in enumerate(aggregates) for value, name in zip(a.values, values[i], strict=True)),
        )
        whole = (
            routed(rows, keys, self._routing)
            .groupBy(*keys, WORKER)
            .agg(*(part for each in parts for part in each))
            .groupBy(*keys)
            .agg(*merged)
        )
        # spark.sql.retainGroupColumns may leave the keys out.
        shown = whole.columns[len(whole.columns) - len(result) :]
        return whole.select(
            *(F.col(name).alias(field.name, metadata=field.metadata) for name, field in zip(shown, result, strict=True))
        )


WORKER = "worker"


def routed(rows: DataFrame, keys: Sequence[str], routing: Routing) -> DataFrame:
    """Send rows to workers: the column "worker" tells them apart, and each has a partition of its own.

    Args:
        rows: keys and values.
        keys: names of the key columns.
        routing: the strategy and its parameters.

    Raises:
        SaltwiseValueError: a key is or holds a map, or Arrow has no type for a column.
    """
    for field in rows.schema:
        try:
            to_arrow_type(field.dataType)
        except PySparkException as error:
            raise SaltwiseValueError(
                f"a column is of type {field.dataType.simpleString()}, for which pyspark has no Arrow type: cast it, or "
                "group by the plugin or by df.groupBy."
            ) from error
    for name in keys:
        if not _has_hash(rows.schema[name].dataType):
            raise SaltwiseValueError(
                f"a key is of type {rows.schema[name].dataType.simpleString()}; with engine='arrow' a key may hold no "
                "map: group by map_entries of it, or by df.groupBy."
            )
    columns = rows.columns
    if routing.depends_on_order:
        rows = rows.sortWithinPartitions(F.xxhash64(*(f.name for f in rows.schema if _has_hash(f.dataType))))
    # xxhash64 takes -0.0 for 0.0 and all NaNs for one, as GROUP BY does.
    hashed = rows.select(*columns, F.xxhash64(*keys).alias("hash"))
    schema = StructType([*rows.schema.fields, StructField(WORKER, IntegerType(), nullable=False)])
    return hashed.mapInArrow(router(routing), schema).repartition(routing.workers, WORKER)


def router(routing: Routing) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what ``mapInArrow`` calls in each task: it puts a worker in place of the last column, the key's hash.

    A worker is given as the number that Spark's hash partitioning sends to the partition of that worker.
    """
    numbers = worker_numbers(routing.workers)

    def route(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        source = Router(routing, task.partitionId())
        for batch in batches:
            *kept, hashes = batch.columns
            workers = pa.array(numbers[source.route(hashes.to_numpy())])
            yield pa.RecordBatch.from_arrays([*kept, workers], [*batch.schema.names[:-1], WORKER])

    return route


def worker_numbers(workers: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Return for each worker the smallest number that ``repartition(workers, number)`` sends to its partition.

    Spark's partition of an int is Murmur3 of its four bytes with seed 42, modulo the number of partitions.

    >>> worker_numbers(3).tolist()
    [4, 1, 0]
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


def _as_column(df: DataFrame, key: Any) -> Column:
    """Return the Column of one argument of ``groupBy``: a Column, a name, or a position from 1 on."""
    if isinstance(key, int):
        return df[key - 1]
    return F.col(key) if isinstance(key, str) else key


def _columns(names: Iterable[str]) -> list[Column]:
    return [F.col(name) for name in names]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _has_hash(data_type: DataType) -> bool:
    """Whether Spark's xxhash64 takes values of this type."""
    if isinstance(data_type, StructType):
        return all(_has_hash(field.dataType) for field in data_type)
    if isinstance(data_type, ArrayType):
        return _has_hash(data_type.elementType)
    return not isinstance(data_type, MapType) and data_type.typeName() != "variant"
