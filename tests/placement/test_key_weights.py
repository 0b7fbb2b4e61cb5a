"""weights_of finds what the heavy keys of a DataFrame cost, for every cost that it knows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from saltwise import PlacementStore, SaltwiseError, weights_of
from saltwise.options import SkewOptions
from saltwise.spark.grouping.planned_placement import partition_function_json
from saltwise.spark.grouping.request import Request


@pytest.fixture(scope="module")
def visits(spark: SparkSession) -> DataFrame:
    """1000 rows: 400 of user 'u0', 100 of NULL, the others once each."""
    return spark.range(0, 1000, 1, 2).selectExpr(
        "CASE WHEN id % 10 < 4 THEN 'u0' WHEN id % 10 = 4 THEN NULL ELSE concat('u', id) END AS user",
        "cast(id % 10 AS int) AS ms",
        "repeat('x', cast(id % 3 AS int)) AS text",
    )


def of_user(df: DataFrame, weights: Any) -> dict[str | None, float]:
    """Return the weights by user."""
    names = {row[1]: row[0] for row in df.select("user", F.xxhash64("user")).distinct().collect()}
    return {names[key]: weight for key, weight in zip(weights.keys.tolist(), weights.weights.tolist(), strict=True)}


def test_rows_are_counted_by_a_sketch_whose_counts_are_lower_bounds(visits: DataFrame) -> None:
    found = weights_of(visits, "user", capacity=100)
    assert (found.key_type, found.total) == ("string", 1000.0)
    rows = of_user(visits, found)
    assert (rows["u0"], rows[None]) == (400, 100)
    assert all(weight <= 1 for user, weight in rows.items() if user not in ("u0", None))
    assert len(rows) <= 100


def test_other_costs_are_added_up_exactly(visits: DataFrame) -> None:
    squares = weights_of(visits, "user", cost="rows^2", capacity=3)
    assert (squares.total, len(squares.keys)) == (400.0**2 + 100**2 + 500, 3)
    assert of_user(visits, squares)["u0"] == 400.0**2
    ms = weights_of(visits, ["user"], cost=F.col("ms"), capacity=1000)
    assert ms.total == 4500.0
    assert (of_user(visits, ms)["u0"], of_user(visits, ms)[None]) == (600, 400)


def test_bytes_are_those_of_a_row_in_spark(spark: SparkSession) -> None:
    df = spark.sql("SELECT * FROM VALUES (1, 'é', X'0102', array(1, 2)), (1, NULL, NULL, NULL) AS t(`a key`, s, b, l)")
    found = weights_of(df, "`a key`", cost="bytes")
    assert found.weights.tolist() == [4 * 8 + 2 + 2 + len("[1,2]") + 4 * 8]


def test_keys_of_several_columns_have_one_hash_and_their_types(visits: DataFrame) -> None:
    found = weights_of(visits, ["user", F.col("ms") > 2], capacity=10)
    assert found.key_type == "string, boolean"
    best = visits.where("user = 'u0' AND ms <= 2").select(F.xxhash64("user", F.col("ms") > 2)).first()
    assert best is not None
    assert found.keys[found.weights.argmax()] == best[0]


def test_no_rows_have_no_weight(visits: DataFrame) -> None:
    for cost in "rows", "bytes":
        found = weights_of(visits.where("false"), "user", cost=cost)
        assert (found.total, found.keys.tolist(), found.shares.tolist()) == (0.0, [], [])


@pytest.mark.parametrize(
    ("weight", "said"),
    [
        ("if(ms = 3, -2, 1)", "-2.0"),
        ("if(ms = 3, NULL, 1)", "NULL"),
        ("if(ms = 3, double('nan'), 1)", "nan"),
        ("if(ms = 3, double('inf'), 1)", "inf"),
    ],
)
def test_weights_that_are_none(visits: DataFrame, weight: str, said: str) -> None:
    with pytest.raises(SaltwiseError) as error:
        weights_of(visits, "user", cost=F.expr(weight))
    assert (
        str(error.value) == f"a weight is {said}; it must be a number of at least 0: filter such rows, or give them 0."
    )


@pytest.mark.parametrize(
    ("keys", "cost", "capacity", "message"),
    [
        ([], "rows", 10, "keys is empty; name at least one column to group by."),
        ("user", "rows", 0, "capacity is 0; it must be a whole number of at least 1."),
        ("user", "row", 10, "cost is 'row'; it must be one of rows, bytes, rows^2; did you mean 'rows'?"),
        ("user", lambda: F.col("text"), 10, "cost is 'text' of type string; it must be a number for each row."),
    ],
)
def test_arguments_that_are_none(
    visits: DataFrame, keys: Any, cost: str | Callable[[], Column], capacity: int, message: str
) -> None:
    with pytest.raises(SaltwiseError) as error:
        weights_of(visits, keys, cost if isinstance(cost, str) else cost(), capacity)
    assert str(error.value) == message


def test_a_stream_has_no_weights(spark: SparkSession) -> None:
    for cost in "rows", "bytes":
        with pytest.raises(SaltwiseError) as error:
            weights_of(spark.readStream.format("rate").load(), "value", cost=cost)
        assert str(error.value) == "df is a stream; it must be a batch: read its source with spark.read."


def test_a_store_places_what_was_found(visits: DataFrame, tmp_path: Path) -> None:
    found = weights_of(visits, "user", cost="rows^2")
    placement = PlacementStore(tmp_path).plan(found, 4)
    heaviest = found.keys[np.argsort(found.weights)[-2:]]
    assert len(set(placement.function.place(heaviest).tolist())) == 2
    assert placement.max_to_mean == pytest.approx(400.0**2 * 4 / found.total, rel=0.01)


def test_a_cost_is_a_column_of_any_name(spark: SparkSession) -> None:
    df = spark.sql("SELECT id % 3 AS k, IF(id % 3 = 1, 5, 1) AS `w``x.y` FROM range(9)")
    heavy = json.loads(partition_function_json(Request(df, ("k",), SkewOptions("level", partitions=2, cost="w`x.y"))))
    alone = Request(df.select("k", F.col("`w``x.y`").alias("w")), ("k",), SkewOptions("level", partitions=2, cost="w"))
    assert heavy == json.loads(partition_function_json(alone))


def test_a_key_that_has_no_hash_is_refused(spark: SparkSession) -> None:
    df = spark.range(3).selectExpr("struct(map(1, 2) AS m) AS k")
    for weigh in (
        lambda: weights_of(df, "k"),
        lambda: df.skew_groupby("k", strategy="level", partitions=2).agg(F.collect_list(F.lit(1))),
    ):
        with pytest.raises(SaltwiseError) as error:
            weigh()
        assert str(error.value) == (
            "key 'k' is of type struct<m:map<int,int>>; it must hold no map or variant: take a part of it, or the "
            "map_entries of a map."
        )
