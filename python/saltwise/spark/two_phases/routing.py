"""Sends rows to workers by ``mapInArrow``, with the routers of :mod:`saltwise.splitting`."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import mmh3
import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructField, StructType

from ...options import SettledOptions
from ...splitting.router import Router
from ...strategies import STRATEGIES
from ..columns import WITHOUT_HASH, check_arrow_types, holds_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WORKER = "worker"
"""The column that says which worker a row goes to."""


def routed(rows: DataFrame, keys: int, options: SettledOptions) -> DataFrame:
    """Send rows to workers. The column "worker" tells workers apart, and each worker has a partition of its own.

    Args:
        rows: the columns of the key, and then the values.
        keys: how many columns the key has.
        options: the strategy and its parameters.

    Raises:
        SaltwiseValueError: a key is or holds a map, or a column is an interval of months.
    """
    check_arrow_types(rows, keys)
    names = rows.columns
    if STRATEGIES[options.strategy].looks_back:
        rows = rows.sortWithinPartitions(
            F.xxhash64(*(f.name for f in rows.schema if not holds_type(f.dataType, WITHOUT_HASH)))
        )
    # xxhash64 treats -0.0 as 0.0, and all NaNs as equal, like GROUP BY.
    hashed = rows.select(*names, F.xxhash64(*names[:keys]).alias("hash"))
    schema = StructType([*rows.schema.fields, StructField(WORKER, IntegerType(), nullable=False)])
    return hashed.mapInArrow(router(options), schema).repartition(options.workers, WORKER)


def router(options: SettledOptions) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for ``mapInArrow``: it replaces the last column, the key's hash, by the worker of the row.

    Each worker is given as a number that Spark's hash partitioning sends to the partition of that worker.
    """
    numbers = worker_numbers(options.workers)

    def route(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        source = Router(options, task_number())
        for batch in batches:
            *columns, hashes = batch.columns
            workers = pa.array(numbers[source.route(hashes.to_numpy())])
            yield pa.RecordBatch.from_arrays([*columns, workers], [*batch.schema.names[:-1], WORKER])

    return route


def task_number() -> int:
    """Return the number of the running task, which is the number of its partition."""
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
