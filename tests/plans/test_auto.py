"""auto: which aggregates it rewrites, which it leaves to Spark, and that planning touches no data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.plans.test_split import operators_below

from saltwise import skew_groupby

if TYPE_CHECKING:
    from tests.agree import Agree, WithConf
    from tests.conftest import SaltwiseLines

ROWS = 100_000
GROUPED = "SkewGroupBy left alone: its rows are already grouped by key, without another shuffle"


@pytest.fixture(autouse=True)
def small_input(with_conf: WithConf) -> Iterator[None]:
    with with_conf({"spark.saltwise.auto.smallInput": "100k"}):
        yield


def compares_rows(plan: Any) -> list[bool]:
    """Of each shuffle below, the last one first: whether Spark may end the job when a second run sends other rows."""
    own = [plan.shuffleDependency().checksumMismatchFullRetryEnabled()] if plan.nodeName() == "Exchange" else []
    return own + list(chain.from_iterable(map(compares_rows, operators_below(plan))))


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


@pytest.mark.parametrize("rows", ["explode", "mapInPandas"])
def test_few_rows_that_may_become_many_are_not_taken_for_few(
    spark: SparkSession, saltwise_lines: SaltwiseLines, rows: str
) -> None:
    few = spark.range(0, 100, 1, 2).selectExpr("id % 10 AS k", "id AS v")
    many = {
        "explode": lambda: few.selectExpr("k", "explode(sequence(1, 2000)) AS v"),
        "mapInPandas": lambda: few.mapInPandas(lambda batches: batches, few.schema),
    }[rows]()
    assert saltwise_lines(skew_groupby(many, "k").agg(F.collect_set("v"))) == [
        "SkewSplit [k], auto, n=4",
        "Combine [k], auto, n=4",
    ]


def test_a_native_engine_keeps_its_aggregates(
    spark: SparkSession, saltwise_lines: SaltwiseLines, with_conf: WithConf
) -> None:
    with with_conf({"spark.databricks.photon.enabled": True}):
        assert saltwise_lines(skew_groupby(keyed(spark), "k").agg(F.median("v"))) == [
            "SkewGroupBy left alone: Photon runs the aggregate outside of the JVM; name a strategy to rewrite all the same"
        ]


@pytest.mark.smoke
@pytest.mark.parametrize("below", ["an aggregate", "a window", "a repartition", "one partition"])
def test_where_spark_needs_no_shuffle_it_gets_none(
    spark: SparkSession, saltwise_lines: SaltwiseLines, agree: Agree, with_conf: WithConf, below: str
) -> None:
    rows = keyed(spark)
    grouped: dict[str, Callable[[], DataFrame]] = {
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


def test_the_list_of_a_hot_key_is_shuffled_once(
    spark: SparkSession, with_conf: WithConf, plan_that_ran: Callable[[], str]
) -> None:
    rows = keyed(spark, "if(id % 10 < 6, 7, id)")
    ids = F.sort_array(F.collect_list("w"))
    with with_conf({"spark.sql.adaptive.coalescePartitions.enabled": False}):
        ours = skew_groupby(rows, "k").agg(ids).collect()
    assert plan_that_ran().count("Exchange hashpartitioning") == 1
    assert "SlicedPartitions" not in plan_that_ran()
    assert sorted(ours) == sorted(rows.groupBy("k").agg(ids).collect())


@pytest.mark.parametrize(
    ("view", "rewritten"),
    [
        ("rows", True),
        ("(SELECT * FROM rows DISTRIBUTE BY v)", True),
        ("(SELECT r.k, r.v FROM rows r JOIN (SELECT DISTINCT k FROM rows) USING (k))", True),
        ("(SELECT k, sum(w / 7) AS v FROM rows GROUP BY k, w)", True),
        ("(SELECT k, v + 1 AS v FROM (SELECT * FROM rows DISTRIBUTE BY v) WHERE v % 3 = 0)", True),
        ("(SELECT k, avg(w / 7) OVER (PARTITION BY v) AS v FROM rows)", True),
        ("(SELECT k, sum(w / 7) OVER (PARTITION BY v ORDER BY w % 7) AS v FROM rows)", False),
        ("(SELECT k, row_number() OVER (PARTITION BY v ORDER BY w % 7) AS v FROM rows)", False),
        ("(SELECT k, rand(1) AS v FROM (SELECT * FROM rows DISTRIBUTE BY v))", False),
        ("(SELECT * FROM (SELECT k, v, sum(w / 7) AS s FROM rows GROUP BY k, v) DISTRIBUTE BY s)", False),
        ("(SELECT * FROM (SELECT * FROM rows LIMIT 50000) DISTRIBUTE BY v)", False),
        ("(SELECT k, v FROM (SELECT k, v, sum(w / 7) OVER (PARTITION BY v) AS s FROM rows) WHERE s > 1000)", False),
        ("(SELECT sum(w / 7) AS k, v FROM rows GROUP BY v)", False),
        ("(SELECT k, v FROM (SELECT * FROM rows DISTRIBUTE BY v) TABLESAMPLE (50 PERCENT))", False),
    ],
)
def test_where_a_second_run_may_read_other_rows_the_aggregate_is_left_to_spark(
    spark: SparkSession,
    version: tuple[int, ...],
    with_conf: WithConf,
    saltwise_lines: SaltwiseLines,
    view: str,
    rewritten: bool,
) -> None:
    keyed(spark).createOrReplaceTempView("rows")
    query = f"SELECT /*+ SKEW_GROUPBY */ k, percentile_approx(v, 0.5) FROM {view} GROUP BY k"
    with with_conf({"spark.saltwise.auto.smallInput": 0}):
        lines = saltwise_lines(spark.sql(query))
    # Before 4.2, Spark does not compare them.
    if rewritten or version < (4, 2):
        assert [line.split(" ")[0] for line in lines] == ["SkewSplit", "Combine"]
    else:
        assert lines == [
            "SkewGroupBy left alone: a task that runs again may read other rows, and Spark has to compare the two runs"
        ]


@pytest.mark.smoke
@pytest.mark.classic("look into the plan that ran")
def test_states_that_differ_in_a_second_run_end_no_job(
    spark: SparkSession, version: tuple[int, ...], with_conf: WithConf
) -> None:
    if version < (4, 2):
        pytest.skip("Spark 4.2 is the first to compare the rows of two runs")
    # No state of a median of doubles pays, so the rows of the hot key arrive as they are, and are sliced.
    rows = keyed(spark, "if(id % 10 < 6, 7, id % 499)").withColumn("v", F.col("w") / 7).repartition(3, "w")
    df = skew_groupby(rows, "k").agg(F.median("v"))
    with with_conf({"spark.sql.adaptive.coalescePartitions.enabled": False}):
        df.collect()
    compared = compares_rows(df._jdf.queryExecution().executedPlan())
    of_repartition, of_combine, of_slices = True, False, False
    assert compared == [of_combine, of_repartition, of_slices, of_combine, of_repartition]


def test_planning_runs_no_job(spark: SparkSession, saltwise_lines: SaltwiseLines) -> None:
    tracker = SparkContext.getOrCreate().statusTracker()
    before = len(tracker.getJobIdsForGroup(None) or [])
    assert saltwise_lines(skew_groupby(keyed(spark), "k").agg(F.median("v")))
    assert len(tracker.getJobIdsForGroup(None) or []) == before
