"""What auto knows of the keys, what it predicts, and what it chooses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from saltwise import skew_groupby

if TYPE_CHECKING:
    from tests.conftest import Agree, SaltwiseLines, WithConf

ROWS = 400_000


@pytest.fixture(autouse=True)
def small_input(with_conf: WithConf) -> Iterator[None]:
    with with_conf({"spark.saltwise.auto.smallInput": "100k"}):
        yield


def keyed(spark: SparkSession, key: str) -> DataFrame:
    """Rows in an order that says nothing about their keys."""
    return spark.range(0, ROWS, 1, 4).selectExpr(f"{key} AS k", "id % 1000 AS v")


NOISE = "pmod(xxhash64(id), {})"
MILLION = NOISE.format(1_000_000)


def choice(lines: list[str]) -> str:
    """What auto chose: a strategy, or stock."""
    text = " ".join(lines)
    assert "left alone" in text or "auto predicts" in text, text
    found = re.search(r"\], (\w+), n=", text)
    return found[1] if found else "stock"


@pytest.mark.parametrize(
    ("key", "call", "chosen"),
    [
        (MILLION, "collect_list(v)", "split"),
        (f"if(id % 10 < 6, 7, {MILLION})", "collect_list(v)", "local"),
        (f"if(id % 10 < 6, NULL, {MILLION})", "median(v)", "local"),
        (NOISE.format(20), "collect_list(v)", "stock"),
        (NOISE.format(100), "percentile_approx(v, 0.5)", "stock"),
        (f"if(id % 10 < 6, 7, {MILLION})", "max(CAST(v AS STRING))", "local"),
        (MILLION, "approx_count_distinct(v)", "split"),
        (NOISE.format(100), "approx_count_distinct(v)", "local"),
        (f"if(id % 10 < 6, 7, {MILLION})", "sum(v)", "stock"),
    ],
)
def test_the_choice_follows_the_keys_and_the_function(
    spark: SparkSession, saltwise_lines: SaltwiseLines, key: str, call: str, chosen: str
) -> None:
    df = skew_groupby(keyed(spark, key), "k", partitions=8).agg(F.expr(call))
    assert choice(saltwise_lines(df)) == chosen, saltwise_lines(df)


def test_auto_gives_the_same_answers(agree: Agree) -> None:
    query = f"SELECT k, count(*), sort_array(collect_list(v)) FROM (SELECT {MILLION} AS k, id % 9 AS v FROM range(0, {ROWS}, 1, 4)) GROUP BY k"
    agree.pair(query, query.replace("SELECT k", "SELECT /*+ SKEW_GROUPBY */ k", 1), routes=1)


def test_the_plan_says_what_was_known_and_predicted(spark: SparkSession, saltwise_lines: SaltwiseLines) -> None:
    df = skew_groupby(keyed(spark, f"if(id % 10 < 6, 7, {MILLION})"), "k").agg(F.median("v"))
    line = next(line for line in saltwise_lines(df) if "SkewLocal" in line)
    found = re.fullmatch(
        r"SkewLocal \[k\], local, n=4, capacity=2048; auto predicts stock ([\d.]+), split ([\d.]+), local ([\d.]+) "
        r"microseconds a row, from a sample of 4000 rows: about 400,000 rows in 4 tasks, ([\d,]+) keys, one with (\d+\.\d)%",
        line,
    )
    assert found, line
    assert float(found[3]) < float(found[1])
    assert float(found[5]) == pytest.approx(60, abs=4)


@pytest.mark.parametrize(
    "key",
    [MILLION, NOISE.format(50_000), f"CAST(pow(({MILLION} + 1) / 1000000, -2) AS BIGINT)"],
    ids=["many", "some", "zipf"],
)
def test_a_sample_tells_about_how_many_keys_there_are(
    spark: SparkSession, saltwise_lines: SaltwiseLines, key: str
) -> None:
    rows = keyed(spark, key)
    lines = " ".join(saltwise_lines(skew_groupby(rows, "k").agg(F.collect_list("v"))))
    found = re.search(r"about 400,000 rows in 4 tasks, ([\d,]+) keys", lines)
    assert found, lines
    keys = rows.select("k").distinct().count()
    assert keys / 2 < int(found[1].replace(",", "")) < keys * 2


def test_few_rows_are_left_alone(spark: SparkSession, saltwise_lines: SaltwiseLines) -> None:
    df = spark.range(5000).selectExpr("id % 7 AS k", "id AS v")
    assert saltwise_lines(skew_groupby(df, "k").agg(F.median("v"))) == [
        "SkewGroupBy left alone: its input has about 60000 bytes, and spark.saltwise.auto.smallInput is 102400"
    ]


def test_without_adaptive_execution_nothing_is_split(
    spark: SparkSession, saltwise_lines: SaltwiseLines, with_conf: WithConf
) -> None:
    with with_conf({"spark.sql.adaptive.enabled": False}):
        df = skew_groupby(keyed(spark, MILLION), "k").agg(F.median("v"))
        assert choice(saltwise_lines(df)) == "local"


def test_local_is_not_taken_where_rows_may_come_in_another_order(
    spark: SparkSession, saltwise_lines: SaltwiseLines, with_conf: WithConf
) -> None:
    key = f"if(id % 10 < 6, 7, {MILLION})"

    def lines(df: DataFrame) -> list[str]:
        return saltwise_lines(skew_groupby(df, "k").agg(F.median("v")))

    assert choice(lines(keyed(spark, key))) == "local"
    assert "], split, n=4; auto knows nothing of the keys" in " ".join(lines(keyed(spark, key).repartition(4, "v")))
    with with_conf({"spark.sql.adaptive.enabled": False}):
        assert lines(keyed(spark, key).repartition(4, "v")) == [
            "SkewGroupBy left alone: its rows come out of a shuffle, and without adaptive execution nothing is split"
        ]


def test_a_key_is_followed_to_its_scan_through_projections_filters_and_joins(
    spark: SparkSession, saltwise_lines: SaltwiseLines, tmp_path: Path
) -> None:
    keyed(spark, f"if(id % 10 < 6, 7, {MILLION})").write.parquet(str(tmp_path / "rows"))
    spark.range(1000).selectExpr("id AS v", "id % 3 AS w").write.parquet(str(tmp_path / "names"))
    rows, names = (spark.read.parquet(str(tmp_path / name)) for name in ("rows", "names"))
    joined = rows.where("v > 10").join(names, "v").selectExpr("concat('key ', k) AS name", "w")
    lines = saltwise_lines(skew_groupby(joined, "name").agg(F.collect_list("w")))
    assert "from a sample of " in " ".join(lines)
    share = re.search(r"one with ([\d.]+)%", " ".join(lines))
    assert share
    assert float(share[1]) == pytest.approx(60, abs=4)


def test_what_would_have_to_be_computed_is_not_sampled(spark: SparkSession, saltwise_lines: SaltwiseLines) -> None:
    rows = keyed(spark, MILLION).mapInArrow(lambda batches: batches, "k long, v long")
    assert "auto knows nothing of the keys" in " ".join(saltwise_lines(skew_groupby(rows, "k").agg(F.median("v"))))
    assert saltwise_lines(skew_groupby(rows, "k").agg(F.max(F.col("v").cast("string")))) == [
        "SkewGroupBy left alone: nothing is known of its keys; name a strategy to rewrite all the same"
    ]


def test_no_time_means_no_sample(spark: SparkSession, saltwise_lines: SaltwiseLines, with_conf: WithConf) -> None:
    with with_conf({"spark.saltwise.auto.sampleTimeout": 0}):
        df = skew_groupby(keyed(spark, f"{MILLION} + 3"), "k").agg(F.median("v"))
        assert "from a sample" not in " ".join(saltwise_lines(df))


def test_a_sample_is_taken_once(spark: SparkSession, saltwise_lines: SaltwiseLines) -> None:
    def jobs() -> int:
        return len(SparkContext.getOrCreate().statusTracker().getJobIdsForGroup(None) or [])

    def planned() -> int:
        before = jobs()
        saltwise_lines(skew_groupby(keyed(spark, f"{MILLION} + 17"), "k").agg(F.median("v")))
        return jobs() - before

    assert [planned(), planned()] == [1, 0]
