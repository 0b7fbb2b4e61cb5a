"""applyInPandas on parts of groups gives what it gives on whole ones, and no task gets more than its share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

import saltwise
from saltwise import SaltwiseError, SaltwiseValueError
from saltwise.strategies import ROUTING

N = 8

PandasFunction = Callable[[pd.DataFrame], pd.DataFrame]


def skew_groupby(df: DataFrame, *keys: Any, **options: Any) -> Any:
    return saltwise.skew_groupby(df, *keys, **options)


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """Half of the rows have one key; NULL, NaN, zeros of both signs and texts that look alike are keys too."""
    i = F.col("id")
    doubles = [F.lit("NaN"), F.lit("0.0"), F.lit("-0.0"), F.lit(None), F.lit("1.5"), F.lit("Infinity")]
    texts = [F.lit(text) for text in ("NaN", "", "None", None, "null", "a\0b")]
    return spark.range(0, 4000, numPartitions=4).select(
        F.when(i % 2 == 0, F.lit("hot"))
        .otherwise(F.element_at(F.array(*texts), (i % 6 + 1).cast("int")))
        .alias("text"),
        F.element_at(F.array(*doubles), (i % 6 + 1).cast("int")).cast("double").alias("double"),
        F.when(i % 5 > 0, (i % 3).cast("int")).alias("int"),
        (i % 3).cast("decimal(10, 2)").alias("decimal"),
        F.timestamp_seconds(i % 3).alias("timestamp"),
        F.when(i % 4 > 0, F.encode((i % 3).cast("string"), "utf-8")).alias("binary"),
        (i % 2 == 0).alias("boolean"),
        F.date_add(F.lit("2026-01-01"), (i % 3).cast("int")).alias("date"),
        i.alias("v"),
    )


def _functions() -> tuple[PandasFunction, PandasFunction]:
    """Functions that travel by value: Python workers cannot import this module."""

    def totals(part: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"n": [len(part)], "sum": [part["v"].sum()]})

    def added(parts: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"n": [parts["n"].sum()], "sum": [parts["sum"].sum()]})

    return totals, added


totals, added = _functions()
SCHEMA = "n bigint, sum bigint"


KINDS = ("text", "double", "int", "decimal", "timestamp", "binary", "boolean", "date")


@pytest.mark.parametrize(
    ("engine", "keys"),
    [
        ("plugin", ["text", "double"]),
        ("plugin", []),
        ("arrow", ["int", "decimal", "timestamp", "binary", "boolean", "date"]),
        *(
            pytest.param(engine, keys, marks=pytest.mark.full)
            for engine in ("plugin", "arrow")
            for keys in (["int", "binary", "timestamp"], ["decimal", "boolean", "date"], *([kind] for kind in KINDS))
        ),
    ],
    ids=str,
)
def test_parts_that_are_merged_are_the_groups(rows: DataFrame, engine: str, keys: list[str]) -> None:
    split = skew_groupby(rows, *keys, partitions=N, engine=engine).applyInPandas(totals, SCHEMA, merge=added)

    stock = rows.groupBy(*keys).applyInPandas(totals, SCHEMA)
    assert sorted(split.collect()) == sorted(stock.collect())


@pytest.mark.parametrize(
    "strategy",
    [name if name in ("pkg", "dchoices") else pytest.param(name, marks=pytest.mark.full) for name in ROUTING],
)
def test_every_splitting_strategy_splits(rows: DataFrame, strategy: str) -> None:
    def part(frame: pd.DataFrame) -> pd.DataFrame:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        return pd.DataFrame({"key": frame["text"].iloc[:1], "task": task.partitionId(), "rows": len(frame)})

    grouped = skew_groupby(rows, "text", strategy=strategy, partitions=N)
    parts = grouped.applyInPandas(part, "key string, task int, rows bigint", merge=lambda parts: parts).toPandas()

    by_task = parts.groupby("task")["rows"].sum()
    hot = parts[parts["key"] == "hot"]
    assert by_task.sum() == 4000
    if strategy in ("hash", "pkg"):
        assert len(hot) <= {"hash": 1, "pkg": 2}[strategy]
    else:
        assert len(hot) == N
        assert by_task.max() <= 1.1 * 4000 / N


def test_a_function_may_take_the_key_and_columns_may_go_by_position(spark: SparkSession) -> None:
    df = spark.createDataFrame([(1, math.nan), (1, 2.0), (2, None)], "k int, v double")

    def of_part(key: tuple[Any, ...], frame: pd.DataFrame) -> pd.DataFrame:
        assert list(frame.columns) == ["k", "v"]
        return pd.DataFrame([[key[0], len(frame)]])

    def merge(parts: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame([[parts["k"].iloc[0], parts["n"].sum()]])

    grouped = skew_groupby(df, F.col("k") + 1, partitions=2, strategy="shuffle")
    assert sorted(grouped.applyInPandas(of_part, "k int, n int", merge=merge).collect()) == [(2, 2), (3, 1)]


def test_parts_without_a_result_are_passed_over(rows: DataFrame) -> None:
    def nothing(part: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"n": []})

    assert skew_groupby(rows, "int").applyInPandas(nothing, "n bigint", merge=nothing).collect() == []


def test_columns_of_one_name_stay_apart(spark: SparkSession) -> None:
    df = spark.createDataFrame([(1, 2), (1, 3)], "k int, v int").select("k", "v", (F.col("v") * 10).alias("v"))

    def both(frame: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"sum": [int(frame["v"].to_numpy().sum())]})

    grouped = skew_groupby(df, "k", strategy="shuffle", partitions=2)
    merged = grouped.applyInPandas(both, "sum int", merge=lambda parts: parts.sum().to_frame().T)
    assert merged.collect() == [Row(sum=55)]


def test_without_merge_groups_stay_whole(rows: DataFrame) -> None:
    placed = skew_groupby(rows, "int").applyInPandas(totals, SCHEMA)

    assert sorted(placed.collect()) == sorted(rows.groupBy("int").applyInPandas(totals, SCHEMA).collect())
    with pytest.raises(SaltwiseError) as caught:
        skew_groupby(rows, "int", engine="arrow").applyInPandas(totals, SCHEMA)
    assert str(caught.value) == "engine='arrow' places no groups: give merge=, or group by the plugin."


def test_keys_that_are_no_plain_columns_are_refused(rows: DataFrame) -> None:
    grouped = skew_groupby(rows, F.struct("int", "double"))
    with pytest.raises(SaltwiseValueError) as caught:
        grouped.applyInPandas(totals, SCHEMA, merge=added)
    assert str(caught.value) == (
        "a key is of type struct<int:int,double:double>; with merge= keys are plain columns: group by its parts, or "
        "leave merge out."
    )


def test_a_strategy_that_splits_nothing_is_refused(rows: DataFrame) -> None:
    with pytest.raises(SaltwiseValueError, match=r"^strategy is 'offgreedy'; it must be one of "):
        skew_groupby(rows, "int", strategy="offgreedy").applyInPandas(totals, SCHEMA, merge=added)
