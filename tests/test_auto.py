"""auto: which aggregates it rewrites, which it leaves to Spark, and that planning touches no data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from saltwise import skew_groupby

if TYPE_CHECKING:
    from tests.conftest import Agree, SaltwiseLines, WithConf

ROWS = 100_000
GROUPED = "SkewGroupBy left alone: its rows are already grouped by key, without another shuffle"


@pytest.fixture(autouse=True)
def small_input(with_conf: WithConf) -> Iterator[None]:
    with with_conf({"spark.saltwise.auto.smallInput": "100k"}):
        yield


def keyed(spark: SparkSession, key: str = "pmod(xxhash64(id), 1000)") -> DataFrame:
    """Rows in an order that says nothing about their keys."""
    return spark.range(0, ROWS, 1, 4).selectExpr(f"{key} AS k", "id % 1000 AS v", "id AS w")


@pytest.mark.smoke
@pytest.mark.parametrize(
    "call", ["collect_list(v)", "percentile_approx(v, 0.5)", "max(CAST(v AS STRING))", "approx_count_distinct(v)"]
)
def test_what_spark_makes_no_code_for_is_combined_and_sliced(
    spark: SparkSession, saltwise_lines: SaltwiseLines, call: str
) -> None:
    df = skew_groupby(keyed(spark), "k", partitions=8).agg(F.expr(call))
    assert saltwise_lines(df) == ["SkewSplit [k], auto, n=8", "Combine [k], auto, n=8"]


@pytest.mark.parametrize("call", ["sum(v)", "count(*)", "avg(v)", "max(v)"])
def test_what_spark_makes_code_for_is_left_to_spark(
    spark: SparkSession, saltwise_lines: SaltwiseLines, call: str
) -> None:
    [line] = saltwise_lines(skew_groupby(keyed(spark), "k").agg(F.expr(call)))
    assert line.endswith(
        "have a fixed size, and the map side already combines them; name a strategy to rewrite all the same"
    )


def test_few_rows_are_left_alone(spark: SparkSession, saltwise_lines: SaltwiseLines) -> None:
    df = spark.range(5000).selectExpr("id % 7 AS k", "id AS v")
    assert saltwise_lines(skew_groupby(df, "k").agg(F.median("v"))) == [
        "SkewGroupBy left alone: its input has about 60000 bytes, and spark.saltwise.auto.smallInput is 102400"
    ]


def test_a_native_engine_keeps_its_aggregates(
    spark: SparkSession, saltwise_lines: SaltwiseLines, with_conf: WithConf
) -> None:
    with with_conf({"spark.databricks.photon.enabled": True}):
        assert saltwise_lines(skew_groupby(keyed(spark), "k").agg(F.median("v"))) == [
            "SkewGroupBy left alone: Photon runs the aggregate outside of the JVM; name a strategy to rewrite all the same"
        ]


@pytest.mark.smoke
@pytest.mark.parametrize("below", ["a join", "an aggregate", "a window", "a repartition", "one partition"])
def test_where_spark_needs_no_shuffle_it_gets_none(
    spark: SparkSession, saltwise_lines: SaltwiseLines, agree: Agree, with_conf: WithConf, below: str
) -> None:
    rows = keyed(spark)
    other = spark.range(0, 1000, 1, 2).toDF("k")
    grouped: dict[str, Callable[[], DataFrame]] = {
        "a join": lambda: rows.join(other.hint("merge"), "k"),
        "an aggregate": lambda: rows.groupBy("k", "v").agg(F.max("w").alias("w")).repartition(4, "k"),
        "a window": lambda: rows.selectExpr("k", "max(v) OVER (PARTITION BY k) AS v"),
        "a repartition": lambda: rows.repartition(4, "k"),
        "one partition": lambda: rows.coalesce(1),
    }
    assert saltwise_lines(skew_groupby(grouped[below](), "k").agg(F.median("v"))) == [GROUPED]


@pytest.mark.smoke
def test_behind_a_broadcast_join_rows_are_combined(spark: SparkSession, saltwise_lines: SaltwiseLines) -> None:
    names = spark.range(1000).selectExpr("id AS k", "concat('name ', id % 25) AS name")
    joined = keyed(spark).join(F.broadcast(names), "k")
    assert len(saltwise_lines(skew_groupby(joined, "name").agg(F.median("v")))) == 2


def test_without_adaptive_execution_nothing_is_sliced(
    spark: SparkSession, saltwise_lines: SaltwiseLines, with_conf: WithConf
) -> None:
    with with_conf({"spark.sql.adaptive.enabled": False}):
        df = skew_groupby(keyed(spark), "k").agg(F.median("v"))
        assert saltwise_lines(df) == ["Combine [k], auto, n=4"]


@pytest.mark.parametrize("key", ["pmod(xxhash64(id), 1000)", "if(id % 10 < 6, 7, id)", "id * 7919"])
def test_auto_gives_the_same_answers(agree: Agree, key: str) -> None:
    query = f"SELECT k, count(*), sort_array(collect_list(v)) FROM (SELECT {key} AS k, id % 9 AS v FROM range(0, {ROWS}, 1, 4)) GROUP BY k"
    agree.pair(query, query.replace("SELECT k", "SELECT /*+ SKEW_GROUPBY */ k", 1), routes=1)


@pytest.mark.smoke
def test_a_join_above_uses_the_exchange_where_nothing_was_sliced(
    spark: SparkSession, plan_that_ran: Callable[[], str]
) -> None:
    names = spark.range(0, 1000, 1, 2).selectExpr("id AS k", "id AS name")
    ours = skew_groupby(keyed(spark), "k").agg(F.sort_array(F.collect_set("v")).alias("c"))
    found = ours.hint("merge").join(names, "k").collect()
    assert plan_that_ran().count("Exchange hashpartitioning") == 2
    assert "Union" not in plan_that_ran()
    assert len(found) == 1000


def test_a_join_above_gets_whole_groups_where_partitions_were_sliced(
    spark: SparkSession, with_conf: WithConf, plan_that_ran: Callable[[], str]
) -> None:
    # No state of a median of doubles pays, so the rows of the hot key arrive as they are.
    rows = keyed(spark, "if(id % 10 < 6, 7, id % 499)").withColumn("v", F.col("w") / 7)
    names = spark.range(0, 500, 1, 2).selectExpr("id AS k", "id AS name")
    expected = sorted(map(str, rows.groupBy("k").agg(F.median("v")).join(names, "k").collect()))
    ours = skew_groupby(rows, "k").agg(F.median("v")).hint("merge")
    with with_conf({"spark.sql.adaptive.coalescePartitions.enabled": False}):
        assert sorted(map(str, ours.join(names, "k").collect())) == expected
    assert "SlicedPartitions 1 in" in plan_that_ran()


def test_planning_runs_no_job(spark: SparkSession, saltwise_lines: SaltwiseLines) -> None:
    tracker = SparkContext.getOrCreate().statusTracker()
    before = len(tracker.getJobIdsForGroup(None) or [])
    assert saltwise_lines(skew_groupby(keyed(spark), "k").agg(F.median("v")))
    assert len(tracker.getJobIdsForGroup(None) or []) == before
