"""A map task that runs again sends every row where its first run sent it, in whatever order the rows arrive."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from saltwise import skew_groupby
from saltwise.loads import worker_loads
from saltwise.strategies import STRATEGIES, StrategyName

if TYPE_CHECKING:
    from tests.conftest import SaltwiseLines

ROWS = 4000
ONLINE = [name for name, strategy in STRATEGIES.items() if strategy.looks_back]


def shuffled(spark: SparkSession, *, ascending: bool) -> DataFrame:
    """The same rows in the same four partitions; the argument tells in which order they arrive there."""
    ids = spark.range(0, ROWS, 1, 3) if ascending else spark.range(ROWS - 1, -1, -1, 3)
    return ids.selectExpr("id", "if(id % 10 < 6, 0, id % 211) AS k", "id % 7 AS v").repartition(4, "id")


def arrivals(rows: DataFrame) -> list[tuple[int, ...]]:
    """The ids of each partition, in the order in which they come."""
    of_partitions = rows.groupBy(F.spark_partition_id().alias("partition")).agg(F.collect_list("id").alias("ids"))
    return [tuple(row.ids) for row in of_partitions.orderBy("partition").collect()]


def test_the_rows_of_these_tests_do_arrive_in_two_orders(spark: SparkSession) -> None:
    up, down = (arrivals(shuffled(spark, ascending=ascending)) for ascending in (True, False))
    assert up != down
    assert list(map(set, up)) == list(map(set, down))


@pytest.mark.classic("read the status store")
@pytest.mark.parametrize("strategy", ONLINE)
def test_workers_receive_the_same_rows_whatever_the_order_of_arrival(
    spark: SparkSession, strategy: StrategyName
) -> None:
    up, down = (
        worker_loads(
            spark,
            skew_groupby(shuffled(spark, ascending=ascending), "k", strategy=strategy, partitions=6)
            .agg(F.sum("v"), F.count("id"))
            .collect,
        )
        for ascending in (True, False)
    )
    assert up.rows == down.rows
    assert sorted(up.result or []) == sorted(down.result or [])


@pytest.mark.parametrize("strategy", ONLINE)
def test_skew_worker_gives_a_row_the_same_worker_whatever_the_order_of_arrival(
    spark: SparkSession, strategy: StrategyName
) -> None:
    worker = F.expr(f"skew_worker(6, '{strategy}', k)").alias("worker")
    up, down = (
        sorted(shuffled(spark, ascending=ascending).select("id", worker).collect()) for ascending in (True, False)
    )
    assert up == down


def test_rows_of_a_scan_keep_their_order(spark: SparkSession) -> None:
    rows = spark.range(0, 100, 1, 1).selectExpr("id", "skew_worker(3, 'shuffle', id) AS worker").collect()
    assert [row.id for row in rows] == list(range(100))
    assert [row.worker for row in rows] == [(rows[0].worker + i) % 3 for i in range(100)]


def aggregated(df: DataFrame) -> DataFrame:
    return df.groupBy("k", "v").agg(F.sum(F.col("id") / 7).alias("total"))


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("total", aggregated),
        ("total", lambda df: aggregated(df).cache()),
        ("place", lambda df: df.selectExpr("k", "row_number() OVER (PARTITION BY k ORDER BY v) AS place")),
        ("r", lambda df: df.select("k", F.rand(1).alias("r"))),
        ("doubled", lambda df: df.select("k", (F.rand(1) * 2).alias("doubled")).filter("doubled < 1")),
        ("id", lambda df: df.mapInPandas(lambda batches: batches, df.schema)),
    ],
)
def test_rows_that_a_second_run_may_compute_otherwise_are_left_alone(
    spark: SparkSession, saltwise_lines: SaltwiseLines, name: str, rows: Callable[[DataFrame], DataFrame]
) -> None:
    df = rows(shuffled(spark, ascending=True))
    states = [F.max(column) for column in df.columns if column != "k"]

    assert saltwise_lines(skew_groupby(df, "k", strategy="pkg").agg(*states)) == [
        f"SkewGroupBy left alone: a task that runs again may compute a different {name}, and a strategy that looks at "
        "earlier rows would then choose other workers; use strategy hash, or hot="
    ]
    assert any("SkewRoute" in line for line in saltwise_lines(skew_groupby(df, "k", strategy="hash").agg(*states)))
    hot = skew_groupby(df, "k", strategy="pkg", hot=[0]).agg(*states)
    assert any("SkewRoute" in line for line in saltwise_lines(hot))


@pytest.mark.parametrize(
    "rows",
    [
        lambda df: df.select("k", F.explode(F.sequence(F.lit(1), F.lit(3))).alias("i")),
        lambda df: df.select("k", F.udf(lambda v: v + 1, "long")("v").alias("w")),
        lambda df: df.union(df).filter("v > 2"),
        lambda df: df.cache(),
        lambda df: aggregated(df).select("k", "v"),
        lambda df: df.join(df.select("k").distinct(), "k"),
    ],
    ids=["explode", "udf", "union", "cache", "grouping columns", "join"],
)
def test_rows_that_a_second_run_computes_again_are_routed(
    spark: SparkSession, saltwise_lines: SaltwiseLines, rows: Callable[[DataFrame], DataFrame]
) -> None:
    df = rows(shuffled(spark, ascending=True))
    counted = skew_groupby(df, "k", strategy="pkg").agg(*(F.max(column) for column in df.columns if column != "k"))
    assert any("SkewRoute" in line for line in saltwise_lines(counted))


def test_random_columns_of_a_scan_are_routed(spark: SparkSession, saltwise_lines: SaltwiseLines) -> None:
    df = spark.range(0, 100, 1, 2).selectExpr("id % 3 AS k", "rand(1) AS r")
    assert any("SkewRoute" in line for line in saltwise_lines(skew_groupby(df, "k", strategy="pkg").agg(F.max("r"))))
