"""explain shows both plans, gives the reason, runs nothing, and leaves the session as it was."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from saltwise.errors import SaltwiseError
from saltwise.spark.reports.explain import explain
from saltwise.strategies import STRATEGIES


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "4")
    session.range(9).selectExpr("id % 2 AS k", "id AS v").createOrReplaceTempView("t")
    return session


LISTS, COUNTS = "SELECT k, collect_list(v) FROM t GROUP BY k", "SELECT k, count(*) FROM t GROUP BY k"
DISTINCT_LISTS = (
    "SELECT m, count(DISTINCT all) FROM (SELECT k, v % 3 AS m, collect_list(v) AS all FROM t GROUP BY k, m) GROUP BY m"
)
SPLIT = "Rewritten: rows are shuffled once by key, and partitions that get too many are split, n=4."
DISTINCT = "Left alone: a DISTINCT aggregate has phases of its own."


@pytest.mark.parametrize(
    ("query", "options", "reason"),
    [
        (LISTS, {"strategy": "split"}, SPLIT),
        (f"{COUNTS};", {"strategy": "pkg", "partitions": 7}, "Rewritten: rows go to their worker by pkg, n=7."),
        (
            LISTS,
            {"strategy": "offgreedy"},
            "Rewritten: groups stay whole, and each key is placed on one worker, n=4.",
        ),
        (
            f"-- comment\n{COUNTS} -- another",
            {},
            "Left alone: the states of count have a fixed size, and the map side already combines them; "
            "name a strategy to rewrite all the same.",
        ),
        (DISTINCT_LISTS, {"strategy": "split"}, f"{SPLIT}\n{DISTINCT}"),
        ("SELECT * FROM t", {}, "Left alone: the query has no GROUP BY and no window."),
        (
            COUNTS.replace("SELECT", "SELECT /*+ SKEW_GROUPBY(pkg) */"),
            {},
            "Rewritten: rows go to their worker by pkg, n=4.",
        ),
    ],
)
def test_the_reason_says_what_was_rewritten_and_what_was_left_alone(
    session: SparkSession, query: str, options: dict[str, Any], reason: str
) -> None:
    found = explain(session, query, **options)
    assert found.reason == reason
    # Ours alone has nodes of Saltwise, with a hint in the query too.
    assert not any(node in found.stock for node in ("Skew", "placement("))
    assert any(node in found.ours for node in ("SkewSplit", "SkewRoute", "placement(")) == ("Rewritten" in reason)


@pytest.mark.parametrize(
    ("aggregate", "reason"),
    [
        (
            "t.v % 3, sum(s.v)",
            "Rewritten: map tasks combine rows where that pays, and send the others as they are, below the join, by k.\n"
            "Left alone: its rows are combined below the join, so nothing is left to do here.",
        ),
        (
            "t.k, sum(s.v * t.v)",
            "Rewritten: if a partition of the join below the aggregate is skewed, it is split.",
        ),
    ],
)
def test_the_reason_knows_what_is_done_around_a_join(session: SparkSession, aggregate: str, reason: str) -> None:
    key = aggregate.split(",")[0]
    query = (
        f"SELECT /*+ MERGE(t) */ {aggregate} FROM t JOIN (SELECT * FROM t WHERE v >= 0) s ON t.k = s.k GROUP BY {key}"
    )
    session.conf.set("spark.saltwise.auto.smallInput", "0")
    assert explain(session, query).reason == reason
    session.conf.unset("spark.saltwise.auto.smallInput")


def test_explain_leaves_the_confs_of_the_session_as_they_were(session: SparkSession) -> None:
    session.conf.set("spark.saltwise.partitions", "5")
    explain(session, COUNTS, strategy="pkg", partitions=7)
    assert session.conf.get("spark.saltwise.partitions") == "5"
    session.conf.unset("spark.saltwise.partitions")
    for name in ("spark.saltwise.enabled", "spark.sql.optimizer.disableHints"):
        assert session.conf.get(name, None) is None


@pytest.mark.parametrize(
    ("query", "options", "message"),
    [
        ("", {}, "the query is empty; it must be one SELECT."),
        ("SELECT k FROM t", {"partitions": 0}, "partitions is 0; it must be a whole number of at least 1."),
        ("SELECT kk FROM t", {}, "column is 'kk'; it must be one of k, v; did you mean 'k'?"),
        ("SELECT k FROM tt", {}, "table is 'tt'; it must be one of t; did you mean 't'?"),
        ("SELECT nope(k) FROM t", {}, None),
        ("SELECT count(k FROM t", {}, "Spark refuses the query: Syntax error at or near 'FROM'."),
        ("DROP VIEW t", {}, "Spark refuses the query: Syntax error at or near 'DROP'."),
        (
            "SELECT /*+ SKEW_GROUPBY(pgk) */ k, count(*) FROM t GROUP BY k",
            {},
            f"strategy is 'pgk'; it must be one of {', '.join(STRATEGIES)}; did you mean 'pkg'?",
        ),
    ],
)
def test_a_query_that_spark_cannot_plan_is_refused_in_one_sentence(
    session: SparkSession, query: str, options: dict[str, Any], message: str | None
) -> None:
    with pytest.raises(SaltwiseError) as error:
        explain(session, query, **options)
    assert "\n" not in str(error.value)
    assert message in (None, str(error.value))
    assert session.table("t").columns == ["k", "v"]
