"""What worker_loads reads from Spark's status store is what the plan did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.agree import WithConf

from saltwise import SaltwiseError
from saltwise.loads import WorkerLoads, worker_loads
from saltwise.spark.reports.loads import measured_tasks
from saltwise.strategies import StrategyName

pytestmark = pytest.mark.classic("read the status store")

ROWS, WORKERS = 3_000, 6
BY_KEY = [0, 0, 0, 0, ROWS // 3, 2 * ROWS // 3]


@pytest.fixture(scope="module")
def df(spark: SparkSession) -> DataFrame:
    """Two keys in three sources: one has two thirds of the rows, and NULL the others."""
    ids = spark.range(0, ROWS, 1, numPartitions=3)
    return ids.select(F.when(F.col("id") % 3 > 0, "hot").alias("k"), "id")


def loads(df: DataFrame) -> WorkerLoads[list[Any]]:
    return worker_loads(df.sparkSession, df.collect)


def grouped(df: DataFrame, strategy: StrategyName) -> DataFrame:
    return df.skew_groupby("k", strategy=strategy, partitions=WORKERS).agg(F.collect_list("id"))


def test_what_is_measured_runs_under_a_conf_that_says_so(spark: SparkSession) -> None:
    seen = []

    def action() -> None:
        seen.append(spark.conf.get("spark.saltwise.measured", None))

    measured_tasks(spark, action)
    with pytest.raises(SaltwiseError, match="The action read no shuffle"):
        worker_loads(spark, action)
    action()
    assert seen == ["true", "true", None]


@pytest.mark.parametrize("adaptive", [True, False])
def test_by_key_two_workers_get_all_rows(df: DataFrame, with_conf: WithConf, adaptive: bool) -> None:
    with with_conf({"spark.sql.adaptive.enabled": adaptive}):
        found = loads(grouped(df, "hash"))
    assert sorted(found.rows) == BY_KEY
    assert (found.states, found.mean, found.max_to_mean) == (2, ROWS / WORKERS, 4.0)
    assert found.seconds > 0
    assert sorted((row.k is None, len(row[1])) for row in found.result or []) == [(False, 2_000), (True, 1_000)]


@pytest.mark.parametrize(
    ("strategy", "adaptive"),
    [
        ("dchoices", False),
        *(
            pytest.param(strategy, adaptive, marks=pytest.mark.full)
            for strategy in ("shuffle", "dchoices", "wchoices", "roundrobin")
            for adaptive in (True, False)
        ),
    ],
)
def test_routed_rows_lie_even_and_their_states_are_counted(
    df: DataFrame, with_conf: WithConf, strategy: StrategyName, adaptive: bool
) -> None:
    with with_conf({"spark.sql.adaptive.enabled": adaptive}):
        found = loads(grouped(df, strategy))
    assert sum(found.rows) == ROWS
    assert len(found.rows) == WORKERS
    assert found.max_to_mean < 1.1
    assert 2 < found.states <= 2 * WORKERS


def test_a_split_key_is_on_several_workers(df: DataFrame) -> None:
    found = loads(grouped(df, "split"))
    assert max(found.rows) < max(BY_KEY) / 2
    assert sum(found.rows) >= ROWS  # the tasks that merge read states


def test_stock_spark_receives_states_and_a_repartition_rows(df: DataFrame) -> None:
    stock = loads(df.groupBy("k").agg(F.collect_list("id")))
    assert stock.states == sum(stock.rows) == 2 * 3  # keys by sources
    assert sorted(loads(df.repartition(WORKERS, "k")).rows) == BY_KEY


def test_stages_around_the_aggregate_do_not_matter(df: DataFrame) -> None:
    other = df.groupBy("k").agg(F.min("id").alias("low"))
    assert sorted(loads(grouped(df, "hash").join(other, "k", "left").orderBy("low")).rows) == BY_KEY


def test_no_rows_are_no_load(df: DataFrame) -> None:
    found = loads(grouped(df.where("id < 0"), "pkg"))
    assert (found.rows, found.states, found.mean, found.max_to_mean) == ([0] * WORKERS, 0, 0.0, 1.0)


def test_a_cached_aggregate_is_measured_when_it_is_made(df: DataFrame) -> None:
    cached = grouped(df, "hash").cache()
    assert len(loads(cached).rows) == WORKERS
    with pytest.raises(SaltwiseError, match="read no shuffle"):
        loads(cached)
    cached.unpersist()


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (lambda df: df, "The action read no shuffle: run an aggregate that is not cached."),
        (
            lambda df: grouped(df, "pkg").join(grouped(df, "shuffle"), "k"),
            "The action ran 2 aggregates: measure one at a time.",
        ),
    ],
)
def test_an_action_without_one_aggregate_is_refused(
    df: DataFrame, query: Callable[[DataFrame], DataFrame], message: str
) -> None:
    with pytest.raises(SaltwiseError) as error:
        loads(query(df))
    assert str(error.value) == message


def test_the_job_group_of_the_caller_stays(spark: SparkSession, df: DataFrame) -> None:
    context = spark.sparkContext
    context.setJobGroup("mine", "my job")
    try:
        loads(df.repartition(2))
        assert context.getLocalProperty("spark.jobGroup.id") == "mine"
        assert context.getLocalProperty("spark.job.description") == "my job"
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
        context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
