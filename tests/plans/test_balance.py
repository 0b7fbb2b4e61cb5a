"""The balance that the running plan achieves, read from what each worker received."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import saltwise
from saltwise import skew_groupby
from saltwise.loads import worker_loads
from saltwise.strategies import StrategyName
from saltwise.streams import zipf_shares

if TYPE_CHECKING:
    from tests.agree import WithConf

ROWS, KEYS, SOURCES, N = 1_000_000, 10_000, 5, 100


def zipf_rows(folder: Path, z: float) -> np.ndarray:
    """Write SOURCES files of Zipf keys; return the number of rows of each key."""
    keys = np.random.default_rng(1).choice(KEYS, ROWS, p=zipf_shares(KEYS, z))
    for i, part in enumerate(np.array_split(keys, SOURCES)):
        pq.write_table(pa.table({"k": part, "v": np.arange(len(part))}), folder / f"{i}.parquet")
    counts: np.ndarray = np.bincount(keys, minlength=KEYS)
    return counts


@pytest.mark.classic("read the status store")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("z", "bounds"),
    [
        (
            1.4,
            {"hash": (30, 36), "pkg": (15, 18), "dchoices": (1, 1.15), "wchoices": (1, 1.02), "roundrobin": (1, 1.05)},
        ),
        pytest.param(
            2.0,
            {"hash": (58, 64), "pkg": (29, 32), "dchoices": (1, 1.1), "wchoices": (1, 1.02)},
            marks=pytest.mark.full,
        ),
    ],
)
def test_each_strategy_balances_zipf_keys_as_the_papers_say(
    spark: SparkSession, tmp_path: Path, z: float, bounds: dict[StrategyName, tuple[float, float]]
) -> None:
    counts = zipf_rows(tmp_path, z)
    df = spark.read.parquet(str(tmp_path))
    head = int((counts >= ROWS / (5 * N)).sum())
    tail = int((counts > 0).sum()) - head
    # Estimates of five sources differ, so keys just below theta may be head on some of them.
    border = int(((counts >= 0.5 * ROWS / (5 * N)) & (counts < ROWS / (5 * N))).sum())
    for strategy, (low, high) in bounds.items():
        grouped = skew_groupby(df, "k", strategy=strategy, partitions=N).agg(F.sum("v"))
        loads = worker_loads(spark, grouped.collect)
        assert sum(loads.rows) == ROWS
        assert len(loads.rows) == N
        assert low <= loads.max_to_mean <= high, strategy
        choices = {"hash": 1, "pkg": 2}.get(strategy, N)
        assert loads.states <= choices * (head + border) + min(choices, 2) * (tail - border), strategy


def key_and_workers(df: DataFrame, strategy: str, n: int) -> dict[int, int]:
    """On how many workers each key lies."""
    routed = df.selectExpr("k", f"skew_worker({n}, '{strategy}', k) AS w").distinct()
    return {row["k"]: row["count"] for row in routed.groupBy("k").count().collect()}


def test_a_tail_key_uses_two_workers_and_a_head_key_no_more_than_n(spark: SparkSession) -> None:
    # Key 0 has half of the rows; each of the others far less than theta.
    df = spark.range(0, 40_000, 1, 4).selectExpr("if(id % 2 = 0, 0, id % 2000) AS k")
    for strategy, most in {"hash": 1, "pkg": 2, "dchoices": 20, "wchoices": 20, "roundrobin": 20}.items():
        workers = key_and_workers(df, strategy, 20)
        assert workers.pop(0) <= most
        assert max(workers.values()) <= min(most, 2)


def test_given_choices_bound_the_workers_of_a_head_key(spark: SparkSession) -> None:
    df = spark.range(0, 40_000, 1, 4).selectExpr("if(id % 2 = 0, 0, id % 2000) AS k")
    spark.conf.set("spark.saltwise.choices", "3")
    try:
        assert key_and_workers(df, "dchoices", 20)[0] <= 3
    finally:
        spark.conf.unset("spark.saltwise.choices")


def test_what_the_session_says_is_fitted_to_the_partitions_of_a_query(spark: SparkSession, with_conf: WithConf) -> None:
    df = spark.range(0, 4000, 1, 4).selectExpr("if(id % 2 = 0, 0, id % 2000) AS k")
    with with_conf({"spark.saltwise.choices": 50, "spark.saltwise.sketch.capacity": 8}):
        assert key_and_workers(df, "dchoices", 6)[0] == 6


def test_sources_do_not_all_start_on_the_same_worker(spark: SparkSession) -> None:
    # One row for each of 20 sources: with equal starts all of them would go to one worker.
    df = spark.range(0, 20, 1, 20).selectExpr("7 AS k")
    for strategy in ("shuffle", "pkg"):
        routed = df.selectExpr(f"skew_worker(20, '{strategy}', k) AS w").distinct().count()
        assert routed == (20 if strategy == "shuffle" else 2)


@pytest.mark.classic("read the status store")
def test_hot_keys_known_beforehand_balance_whole_rows_by_content(spark: SparkSession) -> None:
    df = spark.range(0, 100_000, 1, 5).selectExpr("if(id % 10 < 6, 0, id) AS k", "id AS v")
    grouped = skew_groupby(df, "k", strategy="dchoices", partitions=20, hot={0: 0.6}).agg(F.sum("v"))
    assert worker_loads(spark, grouped.collect).max_to_mean < 1.35


@pytest.mark.classic("read the status store")
def test_hot_keys_known_beforehand_balance_bare_keys_in_turn(spark: SparkSession) -> None:
    df = spark.range(0, 100_000, 1, 5).selectExpr("if(id % 10 < 6, 0, id) AS k")
    grouped = skew_groupby(df, "k", strategy="wchoices", partitions=20, hot=[0]).count()
    assert worker_loads(spark, grouped.collect).max_to_mean < 1.1


@pytest.mark.classic("read the status store")
def test_a_report_predicts_what_the_workers_then_receive(spark: SparkSession) -> None:
    df = spark.range(0, 200_000, 1, 5).selectExpr("cast(pow(5000, (id * 7919 % 100003) / 100003.0) AS int) AS k")
    predicted = saltwise.skew_report(df, "k", partitions=20).predicted
    for strategy in ("hash", "pkg", "wchoices"):
        grouped = skew_groupby(df, "k", strategy=strategy, partitions=20).count()
        assert worker_loads(spark, grouped.collect).max_to_mean == pytest.approx(predicted[strategy], rel=0.1)


@pytest.mark.classic("ask the operators of a plan")
def test_columns_that_a_second_run_may_compute_otherwise_never_choose_a_worker(spark: SparkSession) -> None:
    rows = spark.range(0, 1000, 1, 2).selectExpr("id % 3 AS k", "id % 10 AS v", "rand(1) AS r", "id / 7 AS x")
    below = rows.groupBy("k", "v").agg(F.sum("x").alias("s"), F.first("x").alias("f")).selectExpr("*", "v + 1 AS w")
    content = {}
    for name, df in {"scan": rows, "aggregate": below, "cache": below.cache()}.items():
        plan = skew_groupby(df, "k", strategy="pkg", hot=[0]).agg(*(F.max(c) for c in df.columns if c != "k"))
        spark.conf.set("spark.sql.adaptive.enabled", "false")
        try:
            node = plan.select("*")._jdf.queryExecution().executedPlan()
        finally:
            spark.conf.unset("spark.sql.adaptive.enabled")
        while node.nodeName() != "SkewRoute":
            node = node.children().apply(0)
        content[name] = {node.content().apply(i).name() for i in range(node.content().size())}
    assert content == {"scan": {"k", "v", "x"}, "aggregate": {"k", "v", "w"}, "cache": {"k", "v", "w"}}


@pytest.mark.classic("read the status store")
def test_rows_that_are_nothing_but_their_key_take_turns_by_their_bytes(spark: SparkSession) -> None:
    # (NULL, 'x') and ('x', NULL) have one hash; each takes its own turns, so neither disturbs the other's.
    rows = spark.range(0, 1200, 1, 1).selectExpr("if(id % 2 = 0, NULL, 'x') AS a", "if(id % 2 = 0, 'x', NULL) AS b")
    grouped = skew_groupby(rows, "a", "b", strategy="wchoices", partitions=6, hot=[(None, "x")]).count()
    loads = worker_loads(spark, grouped.collect)
    assert loads.rows == [200] * 6
    assert sorted(row["count"] for row in loads.result or []) == [600, 600]
