"""Inputs of every size and source give stock answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.agree import EACH_PLAN
from tests.plans.events import HOT, ONLINE, all_but

if TYPE_CHECKING:
    from tests.agree import Agree

pytestmark = pytest.mark.usefixtures("events")

SIZES = {
    "no rows": ("id < 0", 0),
    "one row": ("id = 0", 1),
    "one key": ("k = 0", 1),
    "only NULL": ("k IS NULL", 1),
    "fewer rows than partitions": ("id < 2", 1),
}
"""A condition on the rows, and how many groups it leaves."""

FEW = "SELECT k, count(*), sum(d), array_sort(collect_list(i)) FROM events WHERE {} GROUP BY k"


@pytest.mark.parametrize(
    "size", [pytest.param(size, marks=pytest.mark.smoke if size in ("no rows", "one row") else ()) for size in SIZES]
)
def test_small_inputs_give_the_same_answers(agree: Agree, size: str) -> None:
    rows, groups = SIZES[size]

    agree(FEW.format(rows), routes=1)
    agree(FEW.format(rows), strategies=["dchoices"], options={"hot": HOT}, routes=1)

    assert len(agree.stock(FEW.format(rows)).rows) == groups


@pytest.mark.full
@pytest.mark.parametrize("strategy", ONLINE)
@pytest.mark.parametrize("size", SIZES)
def test_small_inputs_give_the_same_answers_under_each_strategy(agree: Agree, size: str, strategy: str) -> None:
    agree(FEW.format(SIZES[size][0]), strategies=[strategy], routes=1)


def test_keys_that_are_all_distinct_give_the_same_answers(agree: Agree) -> None:
    query = "SELECT id, count(*), max(s), array_sort(collect_list(i)) FROM events GROUP BY id"

    agree(query, strategies=[*EACH_PLAN, "offgreedy"], routes=1)

    assert len(agree.stock(query).rows) == 900


@pytest.mark.parametrize("workers", all_but(["50"], ["2", "3", "7", "50"]))
def test_any_number_of_workers_gives_the_same_answers(agree: Agree, workers: str) -> None:
    agree(FEW.format("true"), strategies=[*EACH_PLAN, "offgreedy"], options={"partitions": workers}, routes=1)


@pytest.mark.full
@pytest.mark.parametrize("workers", ["2", "3", "7", "50"])
def test_any_number_of_workers_gives_the_same_answers_under_each_strategy(agree: Agree, workers: str) -> None:
    agree(FEW.format("true"), strategies=ONLINE, options={"partitions": workers}, routes=1)


def test_cached_input_gives_the_same_answers(agree: Agree) -> None:
    def cached(spark: SparkSession) -> DataFrame:
        return spark.table("events").cache().groupBy("k").agg(F.sum("d"), F.sort_array(F.collect_list("i")))

    try:
        agree(cached, routes=1)
    finally:
        cached_events: Any = agree.spark.table("events")
        cached_events.unpersist()


def test_a_cached_result_gives_the_same_answers(agree: Agree) -> None:
    def cached(spark: SparkSession) -> DataFrame:
        spark.catalog.clearCache()
        return spark.table("events").groupBy("k").agg(F.sum("d"), F.sort_array(F.collect_list("i"))).cache()

    try:
        agree(cached, routes=1)
    finally:
        agree.spark.catalog.clearCache()


def test_columnar_files_give_the_same_answers(agree: Agree, tmp_path: Path) -> None:
    agree.spark.table("events").drop("ym", "ds").write.partitionBy("t").parquet(str(tmp_path / "events"))

    agree(
        lambda spark: spark.read.parquet(str(tmp_path / "events")).groupBy("k", "t").agg(F.sum("d"), F.max("s")),
        routes=1,
    )


def test_rows_of_python_give_the_same_answers(agree: Agree) -> None:
    def of_python(spark: SparkSession) -> DataFrame:
        rows = [(i % 3 if i % 5 else None, float(i), str(i)) for i in range(200)]
        return spark.createDataFrame(rows, "k int, d double, s string").groupBy("k").agg(F.sum("d"), F.max("s"))

    agree(of_python, routes=1)


def test_rows_through_pandas_give_the_same_answers(agree: Agree) -> None:
    def through_pandas(spark: SparkSession) -> DataFrame:
        same: Any = (
            spark.table("events").select("k", "d", "s").mapInPandas(lambda frames: frames, "k int, d double, s string")
        )
        grouped: DataFrame = same.groupBy("k").agg(F.sum("d"), F.sort_array(F.collect_list("s")))
        return grouped

    agree(through_pandas, routes=1)


def test_input_that_was_shuffled_gives_the_same_answers(agree: Agree) -> None:
    agree(
        "SELECT k, count(*), array_sort(collect_list(i)) FROM (SELECT /*+ REPARTITION(5) */ * FROM events) GROUP BY k",
        routes=1,
    )


def test_a_written_table_has_the_same_rows(agree: Agree, tmp_path: Path) -> None:
    query = "SELECT k, sum(d) AS total, array_sort(collect_list(i)) AS items FROM events GROUP BY k"
    with agree.with_conf({"spark.saltwise.enabled": True, "spark.saltwise.strategy": "dchoices"}):
        agree.spark.sql(query).write.parquet(str(tmp_path / "result"))

    written = agree.spark.read.parquet(str(tmp_path / "result"))

    assert sorted(written.collect(), key=str) == sorted(agree.spark.sql(query).collect(), key=str)
