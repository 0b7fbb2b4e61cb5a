"""Python and the plugin compute the same: sketches byte by byte, hashes, workers, d, and the names of strategies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from saltwise import SaltwiseValueError
from saltwise.hashing import worker
from saltwise.keys import ITEM_TYPES
from saltwise.options import MAX_CAPACITY
from saltwise.simulate import route
from saltwise.sketches.space_saving import SpaceSaving
from saltwise.splitting.choices import find_optimal_choices
from saltwise.strategies import PLACEMENT, ROUTING, STRATEGIES
from saltwise.streams import zipf, zipf_shares

CAPACITIES = {1: 1.0, 40: 1.0, 400: 1.5}
"""Counters of a sketch, and the skew of what it counts."""


def text(key: int) -> str | None:
    """A text of any length, or None."""
    return None if key == 3 else "é" * (key % 12) + str(key)


def stream_of(item_type: str, exponent: float, seed: int = 7) -> list[Any]:
    ranks = zipf(5000, keys=300, exponent=exponent, seed=seed).keys.tolist()
    return [text(rank) for rank in ranks] if item_type == "string" else [rank % 128 - 64 for rank in ranks]


def counted(stream: list[Any], capacity: int, item_type: str) -> SpaceSaving:
    sketch = SpaceSaving(capacity, item_type)
    for item in stream:
        sketch.offer(item)
    return sketch


def test_sketches_are_those_of_the_plugin_byte_by_byte(spark: SparkSession) -> None:
    cells = [(item_type, capacity, z) for item_type in ITEM_TYPES for capacity, z in CAPACITIES.items()]
    streams = {(item_type, z): stream_of(item_type, z) for item_type, _, z in cells}
    names = {cell: f"c{i}" for i, cell in enumerate(streams)}
    schema = ", ".join(f"{names[cell]} {cell[0]}" for cell in streams)
    calls = [f"space_saving_agg({names[item_type, z]}, {capacity})" for item_type, capacity, z in cells]
    # One task that meets the streams in their order.
    rows = spark.createDataFrame([*zip(*streams.values(), strict=True)], schema).coalesce(1)
    [row] = rows.selectExpr(*calls).collect()

    for (item_type, capacity, z), of_plugin in zip(cells, row, strict=True):
        sketch = counted(streams[item_type, z], capacity, item_type)
        assert sketch.to_bytes() == bytes(of_plugin), (item_type, capacity)
        assert SpaceSaving.from_bytes(bytes(of_plugin)).top() == sketch.top(), (item_type, capacity)


def test_merged_sketches_are_those_of_the_plugin_byte_by_byte(spark: SparkSession) -> None:
    types = ["bigint", "string"]
    parts = {name: [counted(stream_of(name, 1.0, seed), 40, name) for seed in (1, 2)] for name in types}
    rows = [tuple(parts[name][i].to_bytes() for name in types) for i in (0, 1)]
    df = spark.createDataFrame(rows, ", ".join(f"{name}s binary" for name in types)).coalesce(1)
    [row] = df.selectExpr(*(f"space_saving_merge({name}s)" for name in types)).collect()

    for item_type, of_plugin in zip(types, row, strict=True):
        merged = parts[item_type][0].merge(parts[item_type][1])
        assert merged.to_bytes() == bytes(of_plugin)
        read = SpaceSaving.from_bytes(bytes(of_plugin))
        for sketch in (merged, read):
            for item in stream_of(item_type, 0.5, seed=3):
                sketch.offer(item)
        assert read.top() == merged.top()


def test_a_sketch_of_a_type_that_python_lacks_is_refused(spark: SparkSession) -> None:
    [row] = spark.sql("SELECT space_saving_agg(k, 5) FROM VALUES (1.5D) AS t(k)").collect()
    with pytest.raises(SaltwiseValueError) as refused:
        SpaceSaving.from_bytes(bytes(row[0]))
    assert str(refused.value) == (
        "the sketch counts items of type double; read here are bigint, int, smallint, tinyint, string."
    )


def test_a_sketch_takes_memory_for_the_items_that_it_has(spark: SparkSession) -> None:
    sketch = SpaceSaving.from_bytes(SpaceSaving(MAX_CAPACITY).to_bytes())
    for item in range(5000):
        sketch.offer(item)
    [row] = spark.sql(f"SELECT space_saving_agg(id, {MAX_CAPACITY}) FROM range(5000)").collect()
    assert sketch.to_bytes() == bytes(row[0])
    assert len(sketch._s.counters) < 10_000


def test_workers_are_those_of_the_plugin_message_by_message(spark: SparkSession) -> None:
    sources, n = 3, 12
    numbers = zipf(9_000, keys=300, exponent=1.4).keys
    streams: dict[str, Any] = {"number": numbers, "text": [f"key {key}" for key in numbers.tolist()]}

    def messages(ids: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for source in (i for batch in ids for i in batch["id"]):
            own = {name: stream[source::sources] for name, stream in streams.items()}
            yield pd.DataFrame({"t": range(source, len(numbers), sources), **own})

    rows = spark.range(0, sources, 1, sources).mapInPandas(messages, "t long, number long, text string")
    cells = [(scheme, key) for scheme in ROUTING for key in streams]
    routed = rows.selectExpr("t", *(f"skew_worker({n}, '{scheme}', {key})" for scheme, key in cells)).collect()

    _, *columns = zip(*sorted(map(tuple, routed)), strict=True)
    for (scheme, key), workers in zip(cells, columns, strict=True):
        assert list(workers) == route(streams[key], scheme, n, sources=sources).tolist(), (scheme, key)


def test_python_and_the_plugin_find_the_same_d(spark: SparkSession) -> None:
    context = SparkContext.getOrCreate()
    solve = context._jvm.org.apache.spark.sql.saltwise.routing.FindOptimalChoices.apply  # type: ignore[union-attr]
    for z in (0.6, 0.9, 1.2, 1.5, 2.0):
        for n in (5, 20, 50, 100):
            head = [share for share in zipf_shares(10_000, z).tolist() if share >= 1 / (5 * n)]
            array = context._gateway.new_array(context._jvm.double, len(head))  # type: ignore[union-attr]
            for i, share in enumerate(head):
                array[i] = share
            assert solve(array, n, 1e-4) == find_optimal_choices(head, n)


def test_python_and_the_plugin_hash_a_key_to_the_same_worker(spark: SparkSession) -> None:
    keys = [("a", 1), ("", None), (None, 7), ("é", -(2**62))]
    rows = (
        spark.createDataFrame(keys, "s string, n bigint")
        .coalesce(1)
        .selectExpr("xxhash64(s, n) AS h", "skew_worker(17, 'hash', s, n) AS w")
        .collect()
    )
    assert [row.w for row in rows] == [worker(row.h, 1, 17) for row in rows]


def test_python_and_the_plugin_have_the_same_strategies(spark: SparkSession) -> None:
    strategies: Any = SparkContext._jvm.org.apache.spark.sql.saltwise.Strategies  # type: ignore[union-attr]
    assert list(STRATEGIES) == strategies.names().mkString(" ").split()
    assert list(ROUTING) == strategies.routing().mkString(" ").split()
    assert list(PLACEMENT) == strategies.placement().mkString(" ").split()
