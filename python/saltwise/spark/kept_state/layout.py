"""Sends rows to the workers that a partition function chooses, with Spark's public functions: one partition each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf

from ...placement.key_groups import KeyGroups
from ..two_phases.arrow_groups import WORKER, worker_numbers

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from ...placement.partition_function import PartitionFunction

HASH, NUMBER = "hash", "number"


def worker_of(hashes: Column, function: PartitionFunction) -> Column:
    """Return the worker of each key, counted from 0.

    Spark's Python workers need saltwise installed, apart from a function of key groups.

    Args:
        hashes: 64-bit hashes of the keys.
        function: chooses the worker of each key.
    """

    if isinstance(function, KeyGroups):
        group = F.pmod(hashes, F.lit(len(function.table)))
        return F.element_at(F.array(*map(F.lit, function.table)), group.cast("int") + 1)

    def place(hashes: pd.Series) -> pd.Series:
        return pd.Series(function.place(hashes.to_numpy()))

    return pandas_udf(place, "int")(hashes)  # type: ignore[call-overload, no-any-return]


def placed(rows: DataFrame, worker: Column, workers: int) -> DataFrame:
    """Send rows to their workers.

    Args:
        rows: any rows.
        worker: of each row, counted from 0.
        workers: n.

    Returns:
        The rows with two more columns: "worker", and "number", a value that Spark's hash partitioning sends to that
        worker's partition. A group-by whose first key is "number" needs no further shuffle.
    """
    numbers = F.array(*(F.lit(number) for number in worker_numbers(workers).tolist()))
    return rows.withColumn(WORKER, worker).withColumn(NUMBER, numbers[F.col(WORKER)]).repartition(workers, NUMBER)
