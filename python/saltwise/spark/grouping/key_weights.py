"""The weights of the heavy keys of a DataFrame, from one pass over the key columns. Placement plans need them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, MapType, NumericType, StringType, StructType

from ...errors import SaltwiseValueError, check_whole
from ...options import MAX_CAPACITY, SettledOptions, SkewOptions, settle
from ...placement.aims import DEFAULT_AIMS, Aims
from ...placement.history import COUNTERS_PER_KEY, keys_to_track
from ...placement.weights import Weights, check_weight
from ..columns import check_keys, quoted
from ..compat import check_batch
from ..session import require_plugin, session_options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COSTS = ("rows", "bytes", "rows^2")

_BYTES_PER_COLUMN = 8
"""Bytes of a column in Spark's UnsafeRow. Strings, binaries and nested values need further bytes for their content."""


def weights_of(
    df: DataFrame,
    keys: Column | str | Sequence[Column | str],
    cost: Column | str = "rows",
    capacity: int | None = None,
) -> Weights:
    """Find the heavy keys of a DataFrame, and what they cost.

    ``heavy_hitters`` of the 64-bit hash of the keys counts rows, in one pass over the key columns. Each count is a
    lower bound. Any other cost is added up exactly for each key, and the heaviest keys are returned. This takes one
    shuffle, with a hash and a number for each key.

    Args:
        df: the rows to be grouped.
        keys: the key columns.
        cost: the cost of a key: its "rows", its "bytes" (in Spark's row format), "rows^2", or the sum of a Column of
            numbers.
        capacity: the largest number of keys to find, and of counters. The default is the number of keys that a
            placement on the session's partitions may track, ten times as many for "rows", and at least 10,000.

    Returns:
        Hashes and weights, for :meth:`saltwise.PlacementStore.plan`.

    Raises:
        SaltwiseValueError: `df` is no DataFrame or is a stream, there is no key, a key holds a map, the cost is
            unknown, or a weight is negative, NaN, infinite or NULL.
        PluginMissingError: the cost is "rows", and the session has no plugin.

    >>> weights_of(df, "k").weights
    array([2., 1.])
    """
    check_batch("df", df)
    columns = [keys] if isinstance(keys, str) or not isinstance(keys, Sequence) else list(keys)
    if not columns:
        raise SaltwiseValueError("keys is empty; name at least one column to group by.")
    if capacity is None:
        capacity = key_capacity(settle(SkewOptions(), session_options(df.sparkSession)), cost, DEFAULT_AIMS)
    check_whole("capacity", capacity)
    keys_of_rows = df.select(*columns).schema
    check_keys(keys_of_rows)
    key_type = ", ".join(field.dataType.simpleString() for field in keys_of_rows)
    key = F.xxhash64(*columns)
    if isinstance(cost, str) and cost == "rows":
        require_plugin(df.sparkSession)
        return _counted(df.select(key.alias("hash")), key_type, capacity)
    return _added_up(df.select(key.alias("hash"), _weight(df, cost).alias("weight")), key_type, capacity, cost)


def key_capacity(settled: SettledOptions, cost: Column | str, aims: Aims) -> int:
    """Return how many keys are counted for a placement. An option or a conf may set the number.

    If costs are added up exactly, as many keys are enough as the placement may track. A count of rows may be too low by
    the share of a counter, so for rows there are ten times as many.

    Args:
        settled: the options of the group-by.
        cost: of a key, as for :func:`weights_of`.
        aims: what the placement balances.
    """
    keys = keys_to_track(settled.workers, aims)
    if isinstance(cost, str) and cost == "rows":
        keys = min(MAX_CAPACITY, COUNTERS_PER_KEY * keys)
    return settled.counters or max(settled.placement_capacity, keys)


def _counted(hashes: DataFrame, key_type: str, capacity: int) -> Weights:
    top = F.call_function("heavy_hitters", "hash", F.lit(capacity), F.lit(capacity))
    [counted] = hashes.agg(F.count(F.lit(1)).alias("rows"), top.alias("top")).collect()
    heavy = [(row["item"], row["count"] - row["error"]) for row in counted["top"] or ()]
    heavy = [(key, lower_bound) for key, lower_bound in heavy if lower_bound > 0]
    return _weights(key_type, heavy, float(counted["rows"]))


def _added_up(weighted: DataFrame, key_type: str, capacity: int, cost: Column | str) -> Weights:
    weight = F.col("weight")
    by_key = weighted.groupBy("hash").agg(
        (F.pow(F.sum(weight), F.lit(2)) if isinstance(cost, str) and cost == "rows^2" else F.sum(weight)).alias(
            "weight"
        ),
        F.min(weight).alias("low"),
        F.max(weight).alias("high"),  # in Spark, NaN is the highest number
        F.max(weight.isNull()).alias("missing"),
    )
    by_key.persist()
    try:
        [(total, low, high, missing)] = by_key.agg(
            F.sum("weight"), F.min("low"), F.max("high"), F.max("missing")
        ).collect()
        for extreme in () if missing is None else (low, high, None if missing else 0.0):
            check_weight(extreme)
        heaviest = by_key.where("weight > 0").orderBy(F.desc("weight"), "hash").limit(capacity)
        heavy = [(row["hash"], row["weight"]) for row in heaviest.collect()]
        return _weights(key_type, heavy, float(total or 0))
    finally:
        by_key.unpersist()


def _weights(key_type: str, heavy: Sequence[tuple[int, float]], total: float) -> Weights:
    keys = np.array([key for key, _ in heavy], np.int64)
    return Weights(key_type, keys, np.array([weight for _, weight in heavy], np.float64), total)


def _weight(df: DataFrame, cost: Column | str) -> Column:
    if not isinstance(cost, str):
        field = df.select(cost).schema[0]
        if not isinstance(field.dataType, NumericType):
            raise SaltwiseValueError(
                f"cost is {field.name!r} of type {field.dataType.simpleString()}; it must be a number for each row."
            )
        return cost.cast("double")
    if cost not in COSTS:
        raise SaltwiseValueError.unknown("cost", cost, COSTS)
    if cost == "rows^2":
        return F.lit(1.0)
    parts = [F.lit(_BYTES_PER_COLUMN * len(df.columns))]
    for field in df.schema:
        column = F.col(quoted(field.name))
        if isinstance(field.dataType, (StringType, BinaryType)):
            parts.append(F.coalesce(F.octet_length(column), F.lit(0)))
        elif isinstance(field.dataType, (StructType, ArrayType, MapType)):
            parts.append(F.coalesce(F.octet_length(F.to_json(column)), F.lit(0)))
    return sum(parts[1:], parts[0]).cast("double")
