"""heavy_hitters and the space_saving functions keep their bounds, however rows and sketches are merged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from saltwise.arrays import Int64s
from saltwise.streams import zipf

EXPONENTS = [0.5, 1.0, 2.0]
SIZES = [1, 10, 1_000, 100_000]
CAPACITIES = [1, 10, 200, 2_000]
KEYS = 10_000


@pytest.fixture(scope="module")
def streams(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[float, int], Int64s]]:
    """The view `streams` has all rows of all streams, each in seven parts; the dict has the same in memory."""
    drawn = {
        (exponent, size): zipf(size, KEYS, exponent).keys.astype(np.int64) for exponent in EXPONENTS for size in SIZES
    }
    columns = {
        "exponent": np.concatenate([np.full(size, exponent) for exponent, size in drawn]),
        "size": np.concatenate([np.full(size, size) for _, size in drawn]),
        "part": np.concatenate([np.arange(size) * 7 // size for _, size in drawn]),
        "key": np.concatenate([*drawn.values()]),
    }
    folder = tmp_path_factory.mktemp("streams")
    for i in range(3):
        pq.write_table(pa.table({name: values[i::3] for name, values in columns.items()}), folder / f"{i}.parquet")
    spark.read.parquet(str(folder)).createOrReplaceTempView("streams")
    yield drawn
    spark.catalog.dropTempView("streams")


def check_bounds(stream: Int64s, entries: list[Any], capacity: int) -> None:
    """Assert all that a summary promises of a stream."""
    true = np.bincount(stream, minlength=KEYS + 1)
    present = {row.item: (row["count"], row.error) for row in entries}
    counts = [row["count"] for row in entries]
    distinct = int((true > 0).sum())

    assert len(present) == len(entries) == min(capacity, distinct)
    assert counts == sorted(counts, reverse=True)
    outside = {key: bound for key, bound in present.items() if not bound[0] - bound[1] <= true[key] <= bound[0]}
    assert outside == {}
    assert max((error for _, error in present.values()), default=0) <= len(stream) / capacity
    heavy = np.flatnonzero((true > 0) & (true * capacity >= len(stream)))
    assert set(heavy.tolist()) <= present.keys()
    if distinct <= capacity:
        assert {error for _, error in present.values()} <= {0}


def test_heavy_hitters_keep_their_bounds(spark: SparkSession, streams: dict[tuple[float, int], Int64s]) -> None:
    tops = ", ".join(f"heavy_hitters(key, {c}, {c}) AS top{c}" for c in CAPACITIES)
    rows = spark.sql(f"SELECT exponent, size, {tops} FROM streams GROUP BY exponent, size").collect()

    assert len(rows) == len(streams)
    for row in rows:
        for capacity in CAPACITIES:
            check_bounds(streams[row.exponent, row["size"]], row[f"top{capacity}"], capacity)


def test_merged_sketches_keep_their_bounds(spark: SparkSession, streams: dict[tuple[float, int], Int64s]) -> None:
    """Whatever was summed up apart: stretches of the stream, some keys each, the hot keys and all others, or 64 parts
    that are merged step by step."""
    capacity = 200
    ways = "posexplode(array(part, key % 5, CAST(key < 3 AS INT), pmod(hash(part, key), 64))) AS (way, part)"
    sketches = f"""
        SELECT exponent, size, way, part, space_saving_agg(key, {capacity}) AS sketch
        FROM (SELECT exponent, size, key, {ways} FROM streams) GROUP BY exponent, size, way, part"""
    for fewer in (16, 4, 1):
        # Only the parts of the last way are merged before the end.
        part = f"IF(way = 3, part % {fewer}, part)"
        sketches = f"""
            SELECT exponent, size, way, {part} AS part, space_saving_merge(sketch) AS sketch FROM ({sketches})
            GROUP BY exponent, size, way, {part}"""
    rows = spark.sql(f"""
        SELECT exponent, size, way, space_saving_top(space_saving_merge(sketch), {capacity}, 'bigint') AS top
        FROM ({sketches}) GROUP BY exponent, size, way""").collect()

    assert len(rows) == 4 * len(streams)
    for row in rows:
        check_bounds(streams[row.exponent, row["size"]], row.top, capacity)


def test_estimates_bound_the_count_of_every_key(spark: SparkSession, streams: dict[tuple[float, int], Int64s]) -> None:
    capacity, size = 200, 100_000
    rows = spark.sql(f"""
        SELECT exponent, key, e.*
        FROM (SELECT exponent, key, space_saving_estimate(sketch, key) AS e
              FROM (SELECT exponent, space_saving_agg(key, {capacity}) AS sketch FROM streams WHERE size = {size}
                    GROUP BY exponent)
              CROSS JOIN (SELECT explode(array(1, 2, 3, 10, 50, 100, 500, 1000, 5000, 10000, -1)) AS key))
        """).collect()

    assert len(rows) == len(EXPONENTS) * 11
    for row in rows:
        true = int((streams[row.exponent, size] == row.key).sum())
        assert row.lower <= true <= row.upper, row
        assert row.lower <= row.estimate <= row.upper, row
        assert row.upper - row.lower <= size / capacity, row


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_ten_million_rows_keep_the_bounds(spark: SparkSession, tmp_path: Path, exponent: float) -> None:
    stream = zipf(10_000_000, KEYS, exponent).keys.astype(np.int64)
    table = pa.table({"part": np.arange(len(stream)) % 16, "key": stream})
    pq.write_table(table, tmp_path / "stream.parquet", row_group_size=1_000_000)
    spark.read.parquet(str(tmp_path)).createOrReplaceTempView("ten_million")

    [whole] = spark.sql("SELECT heavy_hitters(key, 2000, 2000) AS top FROM ten_million").collect()
    [merged] = spark.sql("""
        SELECT space_saving_top(space_saving_merge(sketch), 2000, 'bigint') AS top
        FROM (SELECT space_saving_agg(key, 2000) AS sketch FROM ten_million GROUP BY part)""").collect()
    spark.catalog.dropTempView("ten_million")

    check_bounds(stream, whole.top, 2_000)
    check_bounds(stream, merged.top, 2_000)
