"""Aggregates in Python that merge: skew_groupby(...).agg(MyAgg("x"), ...)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from tests.aggregators.samples import Mean, Spread, Values, number, with_methods

import saltwise
from saltwise import SaltwiseValueError
from saltwise.aggregates import BloomFilter
from saltwise.aggregates.bloom_filter import might_contain
from saltwise.spark.aggregators.check import alike

# Nine hundred rows in three partitions; 40 % of them have the key 0, 20 % the key 1, 10 % NULL.
ROWS = """
SELECT id,
  CASE WHEN id % 10 < 4 THEN 0 WHEN id % 10 = 4 THEN NULL WHEN id % 10 < 7 THEN 1 ELSE CAST(id % 41 AS INT) END AS k,
  IF(id % 13 = 0, NULL, pmod(xxhash64(id, 1), 97)) AS x,
  IF(id % 17 = 0, NULL, pmod(xxhash64(id, 3), 512) / 16D) AS d
FROM range(0, 900, 1, 3)
"""

# Values of several types, each list a column of the key.
KEYS = [
    "true, false, NULL",
    "7L, -9223372036854775808L, 9007199254740993L, NULL",
    "1.50BD, -99999999.99BD, NULL, 0BD",
    "-0.0D, 0.0D, double('NaN'), double('inf') - double('inf'), double('-inf'), NULL, 1.5D",
    "'a', '', 'A', 'é', 'e\u0301', NULL, 'a '",
    "X'00', X'', X'0000', NULL",
    "DATE'2013-01-01', DATE'0001-01-01', NULL",
    "TIMESTAMP'2013-11-03 05:30:00', TIMESTAMP'2013-11-03 06:30:00', NULL",
    "struct(1, 'a'), struct(1, NULL), NULL, struct(NULL, 'a')",
    "array(-0.0D), array(0.0D), array(double('NaN'), NULL), NULL",
]


@pytest.fixture(scope="module", autouse=True)
def rows(spark: SparkSession) -> Iterator[None]:
    spark.sql(ROWS).createOrReplaceTempView("measured")
    yield
    spark.catalog.dropTempView("measured")


def tuples(df: DataFrame) -> list[Any]:
    return sorted(map(tuple, df.collect()), key=repr)


# The same answers


@pytest.fixture(scope="module")
def of_whole_groups(spark: SparkSession, rows: None) -> list[Any]:
    """What whole groups give, by applyInPandas."""

    def of_group(group: pd.DataFrame) -> pd.DataFrame:
        values = sorted(group["id"])
        spread = (group["x"] - group["d"]).max()
        return pd.DataFrame(
            {"k": group["k"].iloc[:1], "m": group["x"].mean(), "ids": [values], "s": spread, "n": len(group)}
        )

    groups = spark.table("measured").groupBy("k")
    return tuples(groups.applyInPandas(of_group, "k int, m double, ids array<bigint>, s double, n bigint"))


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, marks=pytest.mark.smoke),
        {"strategy": "dchoices"},
        {"engine": "arrow", "strategy": "pkg"},
        pytest.param({"strategy": "hash"}, marks=pytest.mark.full),
        pytest.param({"engine": "arrow"}, marks=pytest.mark.full),
    ],
    ids=str,
)
def test_the_answers_are_those_of_whole_groups(
    spark: SparkSession, of_whole_groups: list[Any], options: dict[str, Any]
) -> None:
    ours = (
        spark.table("measured")
        .skew_groupby("k", **options)
        .agg(Mean("x").alias("m"), Values("id").alias("ids"), Spread("x", "d").alias("s"), number("id").alias("n"))
    )

    assert len(of_whole_groups) > 30
    for one, other in zip(tuples(ours), of_whole_groups, strict=True):
        assert alike(one, other, 1e-9), (one, other)


def test_sparks_own_aggregates_stand_beside_in_any_order(spark: SparkSession) -> None:
    df = spark.table("measured")
    sparks = [
        F.count("*"),
        F.count(df["x"]),
        F.avg("d"),
        F.percentile_approx("x", 0.5).alias("middle"),
        F.median("d"),
        F.count_distinct("x", "d"),
        F.sum_distinct("x"),
        F.covar_pop("x", "id"),
        F.max_by("id", "x"),
        F.expr("sum(x) FILTER (WHERE d > 10) AS above"),
        F.first(df["k"], ignorenulls=True).alias("a `quoted` name", metadata={"unit": "m"}),
    ]
    stock = df.groupBy("k").agg(*sparks)

    ours = df.skew_groupby("k").agg(*sparks[:4], number("x"), *sparks[4:], Mean("x").alias("m"))

    assert ours.columns == [*stock.columns[:5], "number(x)", *stock.columns[5:], "m"]
    assert ours.drop("number(x)", "m").schema == stock.schema
    for one, other in zip(tuples(ours.drop("number(x)", "m")), tuples(stock), strict=True):
        assert alike(one, other, 1e-9), (one, other)


ALL_KEYS = [f"k{i}" for i in range(len(KEYS))]


@pytest.mark.parametrize(
    ("engine", "keys"),
    [
        ("plugin", ALL_KEYS),
        ("arrow", ALL_KEYS[1:6]),
        ("plugin", ["k3"]),
        ("arrow", ["k9"]),
        pytest.param("plugin", ["k9"], marks=pytest.mark.full),
        pytest.param("arrow", ["k3"], marks=pytest.mark.full),
        pytest.param("arrow", ALL_KEYS[6:], marks=pytest.mark.full),
    ],
    ids=str,
)
def test_keys_of_each_type_are_grouped_as_spark_groups_them(spark: SparkSession, engine: Any, keys: list[str]) -> None:
    columns = [
        f"element_at(array({values}), 1 + CAST(id % size(array({values})) AS INT)) AS {key}"
        for key, values in zip(ALL_KEYS, KEYS, strict=True)
    ]
    keyed = spark.sql(f"SELECT id, {', '.join(columns)} FROM range(0, 400, 1, 3)")
    ours = keyed.skew_groupby(*keys, engine=engine).agg(number("id"), F.count("*").alias("n"))
    stock = keyed.groupBy(*keys).agg(F.count("*"), F.count("*").alias("n"))

    # xxhash64 treats -0.0 as 0.0, and all NaNs as equal.
    shown: list[Any] = [F.xxhash64(*keys).alias("key"), "n"]
    assert tuples(ours.select(*shown, "number(id)")) == tuples(stock.select(*shown, "count(1)"))


def test_what_groupby_takes_is_taken(spark: SparkSession, version: tuple[int, ...]) -> None:
    df = spark.table("measured")
    columns: list[list[Any]] = [[["k", "x"]], [F.col("x") % 3, df["k"]]]
    if version >= (4, 0):
        columns.append([2])
    for cols in columns:
        ours = df.skew_groupby(*cols).agg(number(df["d"]), number(F.col("d") * 2))
        stock = df.groupBy(*cols).agg(F.count("*"), F.count("*").alias("n"))

        assert ours.columns[:-2] == stock.columns[:-2]
        assert tuples(ours) == tuples(stock)


def test_without_keys_there_is_one_group(spark: SparkSession) -> None:
    df = spark.table("measured")

    assert tuples(df.skew_groupby().agg(number("x"), F.count("*"))) == [(900, 900)]
    nothing = df.where("id < 0")
    assert tuples(nothing.skew_groupby().agg(number("x"), F.count("*"))) == [(0, 0)]
    assert tuples(nothing.skew_groupby("k").agg(number("x"), F.count("*"))) == []


def test_grouped_data_without_an_aggregator_answers_as_sparks_own(spark: SparkSession) -> None:
    df = spark.table("measured")

    grouped = df.skew_groupby("k")

    assert tuples(grouped.agg({"x": "sum"})) == tuples(df.groupBy("k").agg({"x": "sum"}))
    assert tuples(grouped.pivot("x", [3]).count()) == tuples(df.groupBy("k").pivot("x", [3]).count())


# The plan


def test_one_pass_and_one_exchange_by_key(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    spark.table("measured").skew_groupby("k").agg(Mean("x"), F.count("*")).explain()

    plan = capsys.readouterr().out
    assert plan.count("Range (") == plan.count("Exchange ") == plan.count("combine_rows(") == 1, plan


def test_a_named_strategy_routes_rows_to_workers_first(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    spark.table("measured").skew_groupby("k", strategy="pkg", partitions=7).agg(Mean("x")).explain()

    plan = capsys.readouterr().out
    assert "7), REPARTITION_BY_NUM" in plan
    assert plan.index("merge_states(") < plan.index("combine_rows(") < plan.index("route(")


def test_states_and_merges_are_observed(spark: SparkSession) -> None:
    seen = Observation()

    df = spark.table("measured").where("k IN (0, 1)")
    df.skew_groupby("k").agg(number("x"), observation=seen).collect()

    size = seen.get["largest_state"]
    assert 0 < size < 50
    assert seen.get == {
        "groups": 2, "states": 6, "merges": 4, "state_bytes": seen.get["state_bytes"], "largest_state": size, "most_states": 3
    }  # fmt: skip
    assert size < seen.get["state_bytes"] <= 6 * size
    with pytest.raises(SaltwiseValueError) as refused:
        df.skew_groupby("k").agg(F.count("*"), observation=Observation())
    assert str(refused.value) == "observation is given, and there is no Aggregator to observe: leave it out."


# What is refused


def test_spark_shows_the_error(spark: SparkSession) -> None:
    @saltwise.aggregator(returns="bigint", zero=int, merge=max, finish=int)
    def odd(state: int, batch: pa.RecordBatch) -> int:
        return state + 1 // 0

    df = spark.table("measured").where("k = 0").coalesce(1)
    with pytest.raises(Exception, match="AggregatorError") as raised:
        df.skew_groupby("k").agg(odd("x")).collect()

    assert re.search(
        r"AggregatorError: odd\.update raised ZeroDivisionError: .*?; this was for key 0 with 366 rows among rows 0 to 365 of "
        r"task 0\.",
        str(raised.value),
    )


@pytest.mark.parametrize("call", ["(sum(x) + 1)", "collect_list(DISTINCT x)", "first(x) FILTER (WHERE (d > 1))"])
def test_beside_an_aggregator_a_column_is_one_call(spark: SparkSession, call: str) -> None:
    with pytest.raises(SaltwiseValueError) as refused:
        spark.table("measured").skew_groupby("k").agg(Mean("x"), F.expr(call))

    assert str(refused.value) == (
        f"agg got '{call}' beside an Aggregator, where a column is one call of an aggregate function: compute further in a "
        "select, and aggregate anything else in an agg of its own."
    )


# SQL


def test_sql_has_the_same_results(spark: SparkSession) -> None:
    saltwise.register_aggregator(spark, "mean_of", Mean("x"))

    ours = spark.sql("SELECT k, mean_of(d) FROM measured GROUP BY k")

    for one, other in zip(tuples(ours), tuples(spark.sql("SELECT k, avg(d) FROM measured GROUP BY k")), strict=True):
        assert alike(one, other, 1e-9), (one, other)


def test_sql_takes_an_aggregator_of_columns(spark: SparkSession) -> None:
    saltwise.register_aggregator(spark, "mean_of_column", Mean(F.col("x") + 1))

    ours = spark.sql("SELECT k, mean_of_column(d) FROM measured GROUP BY k")

    for one, other in zip(tuples(ours), tuples(spark.sql("SELECT k, avg(d) FROM measured GROUP BY k")), strict=True):
        assert alike(one, other, 1e-9), (one, other)


def test_sql_takes_no_aggregator_that_returns_a_struct(spark: SparkSession) -> None:
    with pytest.raises(SaltwiseValueError) as refused:
        saltwise.register_aggregator(spark, "odd", with_methods(returns="struct<n: bigint>"))

    assert str(refused.value) == (
        "Odd returns a struct<n:bigint>, and in SQL an aggregate function in Python cannot return a struct: return "
        "an array with the struct, or use skew_groupby(...).agg."
    )


# Spark's own readers


def test_spark_reads_a_bloom_filter_of_whole_numbers(spark: SparkSession) -> None:
    numbers = np.array([-(2**63), -1, 0, 1, 7, 2**40, 2**63 - 1])
    aggregator = BloomFilter("i", items=10, fpp=0.01)
    ours = aggregator.finish(aggregator.update(aggregator.zero(), pa.record_batch({"i": numbers})))

    sparks = SparkContext._jvm.org.apache.spark.util.sketch.BloomFilter  # type: ignore[union-attr]
    read = sparks.readFrom(bytearray(ours))

    assert [read.mightContainLong(value) for value in numbers.tolist()] == [True] * len(numbers)
    others = [read.mightContainLong(value) for value in range(1000, 2000)]
    assert others == [might_contain(ours, value) for value in range(1000, 2000)]
    assert sum(others) < 50
