"""What a query asks of Spark beside its answer: where rows lie, how many files are written, which errors are raised."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.agree import lines_of_saltwise, plan_text, toggled
from tests.plans.events import pairs

from saltwise.spark.spark_errors import SPARK_ERRORS

if TYPE_CHECKING:
    from tests.agree import Agree, WithConf

N = 4
LAYOUT = {"spark.sql.shuffle.partitions": N, "spark.sql.adaptive.coalescePartitions.enabled": False}
AUTO = toggled({"strategy": "auto", "auto.smallInput": 0})
SPLIT = toggled({"strategy": "split"})
# Partitions are told apart by rows: one key has 60 % of them.
SKEWED = "SELECT if(id % 10 < 6, 7, id % 97) AS k, id AS v FROM range(0, 40000, 1, 8)"


def lists(spark: SparkSession) -> DataFrame:
    return spark.sql(SKEWED).groupBy("k").agg(F.sort_array(F.collect_list("v")).alias("vs"))


def medians(spark: SparkSession) -> DataFrame:
    return spark.sql(SKEWED).groupBy("k").agg(F.percentile_approx("v", 0.5).alias("median"))


def places(df: DataFrame) -> list[tuple[int, int, int]]:
    """Each key, the partition in which it lies, and the one where Spark's hash puts it."""
    wanted = F.expr(f"pmod(hash(k), {N})")
    rows = df.select("k", F.spark_partition_id().alias("partition"), wanted.alias("wanted"), *df.columns[1:])
    return sorted(tuple(row)[:3] for row in rows.collect())


BY_KEY: dict[str, Callable[[DataFrame], DataFrame]] = {
    "repartition": lambda df: df.repartition(N, "k"),
    "and a sort of each partition": lambda df: df.repartition(N, "k").sortWithinPartitions("k"),
    "and columns are left out": lambda df: df.repartition(N, "k").select("k", F.size("vs").alias("n")),
    "without a number": lambda df: df.repartition("k"),
}


@pytest.mark.parametrize("exchange", BY_KEY)
@pytest.mark.parametrize("conf", [SPLIT, AUTO], ids=["split", "auto"])
def test_a_users_repartition_puts_rows_where_spark_does(
    spark: SparkSession, with_conf: WithConf, plan_that_ran: Callable[[], str], conf: dict[str, object], exchange: str
) -> None:
    # With little memory, auto sends rows as they are, and slices what they fill.
    with with_conf(LAYOUT | conf | {"spark.saltwise.local.memory": "4k"}):
        found = places(BY_KEY[exchange](lists(spark)))
        assert "SlicedPartitions" in plan_that_ran()
        assert "Union" not in plan_that_ran()
    assert len(found) == 97
    assert [key for key, partition, wanted in found if partition != wanted] == []


def test_a_result_that_nobody_repartitions_is_still_split_beside_whole_partitions(
    spark: SparkSession, with_conf: WithConf, plan_that_ran: Callable[[], str]
) -> None:
    with with_conf(LAYOUT | SPLIT):
        assert lists(spark).count() == 97
        lists(spark).collect()
        assert "Union" in plan_that_ran()


def test_a_number_of_partitions_in_the_hint_yields_to_a_users_repartition(
    spark: SparkSession, with_conf: WithConf
) -> None:
    with with_conf(LAYOUT):
        for strategy in ("split", "local"):
            grouped = spark.sql(SKEWED).skew_groupby("k", strategy=strategy, partitions=3)
            found = places(grouped.agg(F.collect_list("v").alias("vs")).repartition(N, "k"))
            assert [key for key, partition, wanted in found if partition != wanted] == [], strategy


@pytest.mark.classic("see an RDD")
def test_two_results_can_be_zipped_by_partition(spark: SparkSession, with_conf: WithConf) -> None:
    with with_conf(LAYOUT | SPLIT):
        left, right = (df.repartition(N, "k") for df in (lists(spark), medians(spark)))
        keys = [sorted(row.k for row in rows) for rows in left.rdd.glom().collect()]
        assert keys == [sorted(row.k for row in rows) for rows in right.rdd.glom().collect()]


@pytest.mark.parametrize("conf", [SPLIT, AUTO], ids=["split", "auto"])
def test_an_order_by_above_an_aggregate_keeps_its_tasks(
    spark: SparkSession, with_conf: WithConf, conf: dict[str, object], tmp_path: Path
) -> None:
    rows = spark.sql("SELECT id % 8 AS k, id AS v FROM range(0, 40000, 1, 8)")
    files = {}
    for name, toggle in (("stock", {}), ("ours", conf)):
        with with_conf(LAYOUT | toggle):
            path = str(tmp_path / name)
            rows.groupBy("k").agg(F.collect_list("v").alias("vs")).orderBy("k").write.parquet(path)
            files[name] = len(list(Path(path).glob("*.parquet")))
    assert files["stock"] > 1
    assert files["ours"] == files["stock"]


@pytest.mark.parametrize("columns", ["*", "k"])
def test_a_limit_that_drops_no_row_still_takes_no_range_exchange(
    spark: SparkSession, with_conf: WithConf, plan_that_ran: Callable[[], str], columns: str
) -> None:
    with with_conf(LAYOUT | AUTO):
        df = medians(spark).orderBy("k").limit(5000).select(columns)
        assert [row.k for row in df.collect()] == sorted(row.k for row in df.collect())
        assert "TakeOrderedAndProject" in plan_that_ran()
        assert "rangepartitioning" not in plan_that_ran()


@pytest.mark.parametrize("conf", [SPLIT, AUTO], ids=["split", "auto"])
def test_a_barrier_stage_above_an_aggregate_runs(
    spark: SparkSession, with_conf: WithConf, conf: dict[str, object]
) -> None:
    def same(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        yield from frames

    with with_conf(LAYOUT | {"spark.sql.shuffle.partitions": 2} | conf):
        sizes = lists(spark).select("k", F.size("vs").alias("n"))
        found = sizes.mapInPandas(same, "k bigint, n int", barrier=True).collect()
    assert sum(row.n for row in found) == 40_000


# An argument that the function does not evaluate for every row may fail for the others.
GUARDED = {
    "space_saving_agg": "space_saving_top(space_saving_agg(10 / v, 100, if(v = 0, 0, 1)), 3)",
    "percentile": "percentile(10 / v, 0.5, if(v = 0, 0, 1))",
    "percentile FILTER": "percentile(10 / v, 0.5) FILTER (WHERE v <> 0)",
    "regr_slope": "regr_slope(if(v = 0, NULL, t), 10 / v)",
}
FROM_4_2 = {
    "max_by": "max_by(10 / v, if(v = 0, NULL, t), 3)",
    "min_by": "min_by(10 / v, nullif(v, 0), 2)",
}
G = "(SELECT id % 5 AS k, id % 3 AS v, id AS t FROM range(0, 300, 1, 3))"


@pytest.mark.parametrize(("function", "strategy"), pairs([*GUARDED, *FROM_4_2], ["auto", "local", "split"]))
def test_an_argument_is_evaluated_for_the_rows_for_which_stock_evaluates_it(
    spark: SparkSession, with_conf: WithConf, version: tuple[int, ...], function: str, strategy: str
) -> None:
    if function in FROM_4_2 and version < (4, 2):
        pytest.skip("max_by has three arguments since Spark 4.2")
    query = f"SELECT k, {(GUARDED | FROM_4_2)[function]} AS x FROM {G} GROUP BY k"

    def outcome() -> Any:
        try:
            return sorted(map(str, spark.sql(query).collect()))
        except SPARK_ERRORS as error:
            return type(error).__name__

    ansi = {"spark.sql.ansi.enabled": True}
    with with_conf(ansi):
        stock = outcome()
    with with_conf(ansi | toggled({"strategy": strategy, "auto.smallInput": 0})):
        assert lines_of_saltwise(plan_text(spark.sql(query)))
        assert outcome() == stock


FEWER_ROWS = {
    "ties": "SELECT k FROM (SELECT k, row_number() OVER (PARTITION BY v % 100 ORDER BY v % 7) rn FROM t) WHERE rn <= 50",
    "a limit": "SELECT k FROM (SELECT k, v FROM t DISTRIBUTE BY v LIMIT 1000)",
    "a sample": "SELECT k FROM (SELECT k, v FROM t DISTRIBUTE BY v) TABLESAMPLE (10 PERCENT)",
    "chance": "SELECT k FROM (SELECT k, v FROM t DISTRIBUTE BY v) WHERE rand() < 0.5",
}


@pytest.mark.parametrize("rows", FEWER_ROWS)
def test_rows_that_another_run_may_not_keep_are_not_routed_by_earlier_rows(
    spark: SparkSession, with_conf: WithConf, saltwise_lines: Callable[[DataFrame], list[str]], rows: str
) -> None:
    spark.sql(SKEWED).createOrReplaceTempView("t")
    query = f"SELECT k, count(*) AS n FROM ({FEWER_ROWS[rows]}) GROUP BY k"
    with with_conf(toggled({"strategy": "dchoices"})):
        assert saltwise_lines(spark.sql(query)) == [
            "SkewGroupBy left alone: a task that runs again may keep other rows, and a strategy that looks at earlier "
            "rows would then choose other workers; use strategy hash, or hot="
        ]


def test_rows_that_a_window_only_adds_to_are_routed(agree: Agree, spark: SparkSession) -> None:
    spark.sql(SKEWED).createOrReplaceTempView("t")
    numbered = "SELECT k, row_number() OVER (PARTITION BY v % 100 ORDER BY v) rn FROM t"
    agree(f"SELECT k, count(*) AS n FROM ({numbered}) GROUP BY k", strategies=["dchoices"])
