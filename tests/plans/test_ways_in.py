"""The hint, skew_groupby and their options give stock answers, and rewrite the aggregate that they name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.plans.events import ONLINE, all_but

import saltwise

if TYPE_CHECKING:
    from tests.agree import Agree

pytestmark = pytest.mark.usefixtures("events")


@pytest.mark.parametrize(
    "hint",
    [
        pytest.param("SKEW_GROUPBY(split)", marks=pytest.mark.smoke),
        "skew_groupby(pkg)",
        "SKEW_GROUPBY(DChoices, 'partitions=3')",
        "SKEW_GROUPBY(local, 'theta=0.2', 'epsilon=0.01', 'sketch.capacity=8')",
        "SKEW_GROUPBY(dchoices, 'choices=2')",
        "SKEW_GROUPBY(wchoices), COALESCE(2)",
    ],
)
def test_the_hint_in_sql_gives_the_same_answers(agree: Agree, hint: str) -> None:
    query = "SELECT {} k, count(*), sum(d), array_sort(collect_list(i)) FROM events GROUP BY k HAVING count(*) > 3"

    agree.pair(query.format(""), query.format(f"/*+ {hint} */"), routes=1)


@pytest.mark.parametrize(
    ("query", "routes"),
    [
        ("SELECT c, count(*) FROM (SELECT {hint} k, count(*) AS c FROM events GROUP BY k) GROUP BY c", 1),
        ("SELECT {hint} c, count(*) FROM (SELECT k, count(*) AS c FROM events GROUP BY k) GROUP BY c", 1),
        ("SELECT {hint} c, count(*) FROM (SELECT {hint} k, count(*) AS c FROM events GROUP BY k) GROUP BY c", 2),
        ("SELECT {hint} k, count(*) FROM events GROUP BY k UNION ALL SELECT i, sum(k) FROM events GROUP BY i", 1),
        ("WITH g AS (SELECT {hint} k, sum(d) AS total FROM events GROUP BY k) SELECT * FROM g WHERE total > 3", 1),
        ("SELECT id FROM events WHERE k IN (SELECT {hint} k FROM events GROUP BY k HAVING count(*) > 50)", 1),
        (
            "SELECT a.k, a.n FROM (SELECT {hint} k, count(*) AS n FROM events GROUP BY k) a "
            "JOIN (SELECT i, count(*) AS n FROM events GROUP BY i) b ON a.n = b.n",
            1,
        ),
        ("SELECT {hint} k, t, sum(d) FROM events GROUP BY CUBE (k, t)", 1),
        ("SELECT {hint} k, sum(d), rank() OVER (ORDER BY sum(d), k) FROM events GROUP BY k ORDER BY k LIMIT 9", 1),
        ("SELECT {hint} b.k, count(*) FROM events a JOIN events b ON a.id = b.id GROUP BY b.k", 1),
        ("SELECT {hint} /*+ BROADCAST(b) */ b.k, count(*) FROM events a JOIN events b ON a.id = b.id GROUP BY b.k", 1),
    ],
)
def test_the_hint_rewrites_the_aggregate_of_its_own_block_alone(agree: Agree, query: str, routes: int) -> None:
    agree.pair(query.format(hint=""), query.format(hint="/*+ SKEW_GROUPBY(dchoices) */"), routes=routes)


def test_a_view_keeps_its_hint(agree: Agree) -> None:
    agree.spark.sql(
        "CREATE TEMPORARY VIEW hinted AS SELECT /*+ SKEW_GROUPBY(pkg) */ k, sum(d) AS total FROM events GROUP BY k"
    )
    try:
        agree.pair(
            "SELECT * FROM (SELECT k, sum(d) AS total FROM events GROUP BY k) WHERE total > 1",
            "SELECT * FROM hinted WHERE total > 1",
            routes=1,
        )
    finally:
        agree.spark.catalog.dropTempView("hinted")


@pytest.mark.parametrize(
    "strategy",
    [
        pytest.param("local", marks=pytest.mark.smoke),
        *all_but(("dchoices", "hash"), [name for name in ONLINE if name != "local"]),
    ],
)
def test_the_hint_on_a_dataframe_gives_the_same_answers(agree: Agree, strategy: str) -> None:
    def grouped(df: DataFrame) -> DataFrame:
        return df.where("i > 0").groupBy("k").agg(F.sum("d"), F.sort_array(F.collect_list("s")))

    agree.pair(
        lambda spark: grouped(spark.table("events")),
        lambda spark: grouped(spark.table("events").hint("skew_groupby", strategy, "partitions=3")),
        routes=1,
    )


GROUPED: dict[str, Callable[[Any], DataFrame]] = {
    "agg": lambda g: g.agg(F.sum("d"), F.max("s"), F.expr("count(*) FILTER (WHERE t)")),
    "agg by names": lambda g: g.agg({"d": "sum", "i": "max"}),
    "avg": lambda g: g.avg("d", "i"),
    "count": lambda g: g.count(),
    "max": lambda g: g.max("i"),
    "mean": lambda g: g.mean("d"),
    "min": lambda g: g.min("i"),
    "pivot": lambda g: g.pivot("t", [True, False]).sum("d"),
    "pivot without values": lambda g: g.pivot("t").agg(F.max("i")),
    "product": lambda g: g.agg(F.product(F.expr("IF(i > 0, 1D, -1D)"))),
    "sum": lambda g: g.sum("d", "i"),
}


@pytest.mark.parametrize(
    "method", [pytest.param(name, marks=pytest.mark.smoke if name == "agg" else ()) for name in GROUPED]
)
def test_skew_groupby_has_the_methods_and_answers_of_groupby(agree: Agree, method: str) -> None:
    agree.pair(
        lambda spark: GROUPED[method](spark.table("events").groupBy("k")),
        lambda spark: GROUPED[method](saltwise.skew_groupby(spark.table("events"), "k", strategy="pkg")),
        routes=1,
    )


def test_an_aggregate_that_is_no_sql_function_gives_the_same_answers(agree: Agree) -> None:
    from pyspark.ml.feature import VectorAssembler
    from pyspark.ml.stat import Summarizer

    def summed_up(spark: SparkSession) -> DataFrame:
        vectors = VectorAssembler(inputCols=["l", "f"], outputCol="v").transform(spark.table("events"))
        summary = Summarizer.metrics("count", "max", "min", "numNonZeros").summary(vectors["v"])
        return vectors.groupBy("k").agg(summary.alias("s")).select("k", F.col("s").cast("string"))

    agree(summed_up, routes=1)


def test_skew_groupby_takes_the_columns_that_groupby_takes(version: tuple[int, ...], agree: Agree) -> None:
    by_number = [[2, "t"]] if version >= (4, 0) else []
    for columns in (["k", "t"], [["k", "t"]], [F.col("k") % 3, F.upper("s").alias("u")], *by_number):
        agree.pair(
            lambda spark, c=columns: spark.table("events").groupBy(*c).count(),  # type: ignore[misc]
            lambda spark, c=columns: spark.table("events").skew_groupby(*c, strategy="shuffle").count(),  # type: ignore[misc]
            routes=1,
        )


@pytest.mark.classic("ask for the fingerprint of a plan")
def test_savings_take_a_query_with_a_hint_and_without_for_the_same(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    fingerprint = jvm.org.apache.spark.sql.saltwise.report.GroupByListener.fingerprint
    hints = ("", "/*+ SKEW_GROUPBY(pkg) */")
    plain, hinted = (spark.sql(f"SELECT {hint} k, max(s) FROM events GROUP BY k") for hint in hints)
    other = spark.sql("SELECT k, min(s) FROM events GROUP BY k")
    assert fingerprint(hinted._jdf.queryExecution()) == fingerprint(plain._jdf.queryExecution())
    assert fingerprint(hinted._jdf.queryExecution()) != fingerprint(other._jdf.queryExecution())
