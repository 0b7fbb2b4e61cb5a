"""What worker_loads reads from Spark's status store is what the plan did."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from saltwise import SaltwiseError
from saltwise.loads import WorkerLoads, worker_loads
from saltwise.strategies import StrategyName

if TYPE_CHECKING:
    from tests.agree import WithConf

pytestmark = pytest.mark.classic("read the status store")

ROWS, WORKERS = 3_000, 6


@pytest.fixture(params=["true", "false"], ids=["AQE", "no AQE"])
def spark_with_and_without_aqe(
    request: pytest.FixtureRequest, spark: SparkSession, with_conf: WithConf
) -> Iterator[SparkSession]:
    with with_conf({"spark.sql.adaptive.enabled": request.param}):
        yield spark


@pytest.fixture
def df(spark_with_and_without_aqe: SparkSession) -> DataFrame:
    """Two keys in three sources: one has two thirds of the rows, and NULL the others."""
    ids = spark_with_and_without_aqe.range(0, ROWS, 1, numPartitions=3)
    return ids.select(F.when(F.col("id") % 3 > 0, "hot").alias("k"), "id")


def loads(df: DataFrame) -> WorkerLoads[list[Any]]:
    return worker_loads(df.sparkSession, df.collect)


def grouped(df: DataFrame, strategy: StrategyName) -> DataFrame:
    return df.skew_groupby("k", strategy=strategy, partitions=WORKERS).agg(F.collect_list("id"))


def test_by_key_two_workers_get_everything(df: DataFrame) -> None:
    found = loads(grouped(df, "hash"))
    assert sorted(found.rows) == [0, 0, 0, 0, ROWS // 3, 2 * ROWS // 3]
    assert found.states == 2
    assert found.mean == ROWS / WORKERS
    assert found.max_to_mean == 4.0
    assert found.seconds > 0
    assert sorted((row.k is None, len(row[1])) for row in found.result or []) == [
        (False, 2_000),
        (True, 1_000),
    ]


@pytest.mark.parametrize("strategy", ["shuffle", "dchoices", "wchoices", "roundrobin"])
def test_balanced(df: DataFrame, strategy: StrategyName) -> None:
    found = loads(grouped(df, strategy))
    assert sum(found.rows) == ROWS
    assert len(found.rows) == WORKERS
    assert found.max_to_mean < 1.1
    assert 2 < found.states <= 2 * WORKERS


def test_a_split_key_is_on_several_workers(df: DataFrame) -> None:
    by_key = loads(grouped(df, "hash"))
    found = loads(grouped(df, "split"))
    assert max(found.rows) < max(by_key.rows) / 2
    assert sum(found.rows) >= ROWS  # the tasks that merge read states


def test_stock_spark_receives_states(df: DataFrame) -> None:
    found = loads(df.groupBy("k").agg(F.collect_list("id")))
    assert found.states == sum(found.rows) == 2 * 3  # keys by sources


def test_repartition_receives_rows(df: DataFrame) -> None:
    found = loads(df.repartition(WORKERS, "k"))
    assert sum(found.rows) == ROWS
    assert len(found.rows) == WORKERS


def test_stages_around_the_aggregate_do_not_matter(df: DataFrame) -> None:
    other = df.groupBy("k").agg(F.min("id").alias("low"))
    found = loads(grouped(df, "hash").join(other, "k", "left").orderBy("low"))
    assert sorted(found.rows) == [0, 0, 0, 0, ROWS // 3, 2 * ROWS // 3]


def test_no_rows(df: DataFrame) -> None:
    found = loads(grouped(df.where("id < 0"), "pkg"))
    assert (found.rows, found.states, found.mean, found.max_to_mean) == ([0] * WORKERS, 0, 0.0, 1.0)


def test_no_shuffle(df: DataFrame) -> None:
    with pytest.raises(SaltwiseError) as error:
        loads(df)
    assert str(error.value) == "The action read no shuffle: run an aggregate that is not cached."


def test_cached(df: DataFrame) -> None:
    cached = grouped(df, "hash").cache()
    assert len(loads(cached).rows) == WORKERS
    with pytest.raises(SaltwiseError, match="read no shuffle"):
        loads(cached)
    cached.unpersist()


def test_several_aggregates(df: DataFrame) -> None:
    with pytest.raises(SaltwiseError) as error:
        loads(grouped(df, "pkg").join(grouped(df, "shuffle"), "k"))
    assert str(error.value) == "The action ran 2 aggregates: measure one at a time."


def test_callers_job_group_stays(spark: SparkSession, df: DataFrame) -> None:
    context = spark.sparkContext
    context.setJobGroup("mine", "my job")
    try:
        loads(grouped(df, "hash"))
        assert context.getLocalProperty("spark.jobGroup.id") == "mine"
        assert context.getLocalProperty("spark.job.description") == "my job"
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
        context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
