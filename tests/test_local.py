"""The local plan: what is combined in the map task, what leaves it raw, and that both give one answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from saltwise import skew_groupby
from saltwise.loads import worker_loads
from saltwise.spark.explain import explain

if TYPE_CHECKING:
    from tests.conftest import Agree, SaltwiseLines, WithConf

ROWS, HOT = 60_000, 7


def rows(spark: SparkSession, mappers: int = 6) -> DataFrame:
    """Rows of which one key owns half, from so many map tasks."""
    return spark.range(0, ROWS, 1, mappers).select(
        F.when(F.col("id") % 2 == 0, HOT).otherwise(100 + F.col("id") * 7919 % 20_011).cast("long").alias("k"),
        (F.col("id") % 101).alias("v"),
        "id",
    )


def both(df: DataFrame, *aggregates: Any, **options: Any) -> tuple[DataFrame, DataFrame]:
    return df.groupBy("k").agg(*aggregates), skew_groupby(df, "k", strategy="local", **options).agg(*aggregates)


def answers(df: DataFrame) -> list[str]:
    return sorted(map(str, df.collect()))


def mixed() -> list[Column]:
    """Aggregates that Spark keeps in fields and in objects, and both in one query."""
    return [F.count("*"), F.sum("v"), F.sort_array(F.collect_set("v")), F.max("v"), F.expr("percentile(v, 0.5)")]


@pytest.mark.smoke
@pytest.mark.classic("read the status store")
def test_head_keys_arrive_as_states_and_tail_keys_as_rows(spark: SparkSession, saltwise_lines: SaltwiseLines) -> None:
    stock, ours = both(rows(spark), *mixed(), partitions=8)
    assert saltwise_lines(ours) == ["SkewLocal [k], local, n=8, capacity=2048"]
    found = worker_loads(spark, ours.collect)
    assert sorted(map(str, found.result or [])) == answers(stock)
    # All rows of the tail; of the hot key the first 32 rows of each map task, and one state.
    assert sum(found.rows) == ROWS / 2 + 6 * (32 + 1)
    assert len(found.rows) == 8
    assert found.max_to_mean < 1.2


@pytest.mark.parametrize("mappers", [1, 2, 7, 150])
def test_summaries_of_any_number_of_map_tasks_merge_within_their_error(spark: SparkSession, mappers: int) -> None:
    # Of the hot key's values each is there once, so a value is its own rank; each map task has some of all.
    df = rows(spark, mappers).withColumn("id", F.col("id") * 7919 % ROWS)
    [ranks] = (
        skew_groupby(df, "k", strategy="local")
        .agg(F.percentile_approx("id", [0.0, 0.1, 0.5, 0.99, 1.0], 200).alias("ranks"))
        .where(f"k = {HOT}")
        .collect()
    )

    error = ROWS / 200
    for found, share in zip(ranks["ranks"], [0.0, 0.1, 0.5, 0.99, 1.0], strict=True):
        assert abs(found - share * ROWS) <= error + 2


@pytest.mark.smoke
def test_the_one_exchange_is_by_key_so_that_a_join_needs_no_other(
    spark: SparkSession, plan_that_ran: Callable[[], str]
) -> None:
    names = spark.range(200).selectExpr("id AS k", "id AS name").repartition(4, "k")
    stock, ours = both(rows(spark), F.max("v"))
    joined = ours.hint("merge").join(names, "k")
    expected = answers(stock.join(names, "k"))
    assert answers(joined) == expected
    assert plan_that_ran().count("Exchange hashpartitioning") == 2


def test_rows_that_lie_by_key_already_are_not_shuffled(spark: SparkSession, plan_that_ran: Callable[[], str]) -> None:
    stock, ours = both(rows(spark).repartition(4, "k"), *mixed())
    expected = answers(stock)
    assert answers(ours) == expected
    assert plan_that_ran().count("Exchange hashpartitioning") == 1


@settings(max_examples=settings().max_examples // 10)
@given(bursts=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 120)), min_size=1, max_size=25))
@pytest.mark.parametrize("capacity", [1, 3])
def test_keys_that_come_and_go_leave_their_states_behind(
    spark: SparkSession, capacity: int, bursts: list[tuple[int, int]]
) -> None:
    keys = [key for key, length in bursts for _ in range(length)]
    df = spark.createDataFrame([(key, i % 13) for i, key in enumerate(keys)], "k long, v long").coalesce(1)
    stock, ours = both(df, *mixed(), theta=1.0, sketch_capacity=capacity)
    assert answers(ours) == answers(stock)


@pytest.mark.classic("read the status store")
def test_states_leave_when_their_rows_take_too_much_memory(spark: SparkSession, with_conf: WithConf) -> None:
    stock, ours = both(rows(spark, mappers=1), *mixed(), partitions=8)
    with with_conf({"spark.saltwise.local.memory": "10k"}):
        found = worker_loads(spark, ours.collect)
    assert sorted(map(str, found.result or [])) == answers(stock)
    states = sum(found.rows) - ROWS // 2 - 32
    # Rows of 24 bytes: 10 KiB are reached after some 426 of the 30,000.
    assert 60 <= states <= 80


@pytest.mark.parametrize("mappers", [1, 5])
@pytest.mark.parametrize("name", ["k", "-k", "CAST(k AS STRING)"])
def test_aggregates_read_a_key_as_it_was_before_it_was_normalised(
    spark: SparkSession, agree: Agree, mappers: int, name: str
) -> None:
    def query(spark: SparkSession) -> DataFrame:
        zeros = spark.range(0, 2000, 1, mappers).selectExpr(
            "CASE WHEN id % 3 = 0 THEN -0.0D WHEN id % 3 = 1 THEN 0.0D ELSE double('NaN') END AS k"
        )
        return zeros.groupBy("k").agg(F.expr(f"sort_array(collect_set({name}))").alias("c"), F.expr(f"max({name})"))

    agree(query, strategies=["local"], routes=1)


def test_functions_that_take_no_row_after_a_merge_are_merged_last(spark: SparkSession) -> None:
    if not hasattr(F, "theta_sketch_agg"):
        pytest.skip("this Spark has no Theta sketches")
    stock, ours = both(rows(spark), F.theta_sketch_estimate(F.theta_sketch_agg("v")))
    assert answers(ours) == answers(stock)


def test_filters_count_once(agree: Agree) -> None:
    agree(
        "SELECT k, count(*) FILTER (WHERE v > 3) AS a, sort_array(collect_list(v) FILTER (WHERE v < 2)) AS b,"
        " sum(v) FILTER (WHERE 10 / (v + 1) > 2) AS c"
        " FROM (SELECT if(id % 2 = 0, 0, id % 500) AS k, id % 7 AS v FROM range(0, 5000, 1, 4)) GROUP BY k",
        strategies=["local"],
        conf={"spark.sql.ansi.enabled": True},
        routes=1,
    )


def test_subqueries_in_an_aggregate_are_run(agree: Agree) -> None:
    agree(
        "SELECT k, sum(v + (SELECT max(id) FROM range(5))) AS s, collect_set((SELECT min(id) FROM range(3)) + v % 2) AS c"
        " FROM (SELECT if(id % 2 = 0, 0, id % 500) AS k, id % 7 AS v FROM range(0, 5000, 1, 4)) GROUP BY k",
        strategies=["local"],
        close=["c"],
    )


def test_explain_says_what_local_does(spark: SparkSession) -> None:
    query = "SELECT id % 3 AS k, count(*) FROM range(9) GROUP BY 1"
    assert explain(spark, query, strategy="local", partitions=4).reason == (
        "Rewritten: map tasks combine hot keys, and send other rows as they are, n=4, capacity=2048."
    )


@pytest.mark.classic("ask the operators of a plan that ran")
def test_the_metrics_tell_what_was_combined(spark: SparkSession) -> None:
    _, ours = both(rows(spark), *mixed(), partitions=8)
    ours.collect()
    plan = ours._jdf.queryExecution().executedPlan()
    text = plan.toString()
    assert "SkewLocal" in text
    node = _find(plan.finalPhysicalPlan(), "SkewLocal")
    metrics = {name: node.longMetric(name).value() for name in ("rows", "headRows", "states", "peak")}
    assert metrics["rows"] == ROWS
    assert metrics["headRows"] == ROWS // 2 - 6 * 32
    assert metrics["states"] == 6
    assert metrics["peak"] > 5000 * 16


def _find(plan: Any, name: str) -> Any:
    """The operator of this name below a physical plan, through the stages that have run."""
    if re.match(name, plan.nodeName()):
        return plan
    below = [plan.plan()] if hasattr(plan, "plan") and "QueryStage" in plan.nodeName() else []
    children = plan.children()
    below += [children.apply(i) for i in range(children.size())]
    found = (_find(child, name) for child in below)
    return next((node for node in found if node is not None), None)
