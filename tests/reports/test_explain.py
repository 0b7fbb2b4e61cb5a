"""explain shows both plans, gives the reason, runs nothing, and leaves the session as it was."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from saltwise.errors import SaltwiseError, SaltwiseValueError
from saltwise.spark.reports.explain import Explanation, explain
from saltwise.strategies import STRATEGIES


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "4")
    session.range(9).selectExpr("id % 2 AS k", "id AS v").createOrReplaceTempView("t")
    return session


def test_rewritten(session: SparkSession) -> None:
    found = explain(session, "SELECT k, collect_list(v) FROM t GROUP BY k", strategy="split")
    assert "Skew" not in found.stock
    assert "SkewSplit" in found.ours
    assert found.reason == "Rewritten: rows are shuffled once by key, and partitions that get too many are split, n=4."


def test_strategy_and_partitions(session: SparkSession) -> None:
    found = explain(session, "SELECT k, count(*) FROM t GROUP BY k;", strategy="pkg", partitions=7)
    assert found.reason == "Rewritten: rows go to their worker by pkg, n=7."


def test_placed(session: SparkSession) -> None:
    found = explain(session, "SELECT k, collect_list(v) FROM t GROUP BY k", strategy="offgreedy")
    assert found.reason == "Rewritten: groups stay whole, and each key is placed on one worker, n=4."


def test_left_alone(session: SparkSession) -> None:
    found = explain(session, "-- comment\nSELECT k, count(*) FROM t GROUP BY k -- another")
    assert found.reason == (
        "Left alone: the states of count have a fixed size, and the map side already combines them; "
        "name a strategy to rewrite all the same."
    )
    assert "SkewRoute" not in found.ours


def test_several_aggregates_have_several_reasons(session: SparkSession) -> None:
    inner = "SELECT k, v % 3 AS m, collect_list(v) AS all FROM t GROUP BY k, m"
    found = explain(session, f"SELECT m, count(DISTINCT all) FROM ({inner}) GROUP BY m", strategy="split")
    assert [line.split(":")[0] for line in found.reason.split("\n")] == ["Rewritten", "Left alone"]


def test_no_group_by(session: SparkSession) -> None:
    found = explain(session, "SELECT * FROM t")
    assert found.reason == "Left alone: there is no GROUP BY in the query."


def test_a_hint_counts_only_on_our_side(session: SparkSession) -> None:
    found = explain(session, "SELECT /*+ SKEW_GROUPBY(pkg) */ k, count(*) FROM t GROUP BY k")
    assert "Skew" not in found.stock
    assert found.reason == "Rewritten: rows go to their worker by pkg, n=4."


def test_session_stays_as_it_was(session: SparkSession) -> None:
    session.conf.set("spark.saltwise.partitions", "5")
    explain(session, "SELECT k, count(*) FROM t GROUP BY k", strategy="pkg", partitions=7)
    assert session.conf.get("spark.saltwise.partitions") == "5"
    for name in ("spark.saltwise.enabled", "spark.sql.optimizer.disableHints"):
        assert session.conf.get(name, None) is None


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", "the query is empty; it must be one SELECT."),
        ("SELECT kk FROM t", "column is 'kk'; it must be one of k, v; did you mean 'k'?"),
        ("SELECT k FROM tt", "table is 'tt'; it must be one of t; did you mean 't'?"),
        ("SELECT nope(k) FROM t", None),
        ("SELECT count(k FROM t", "Spark refuses the query: Syntax error at or near 'FROM'."),
        ("DROP VIEW t", "Spark refuses the query: Syntax error at or near 'DROP'."),
        (
            "SELECT /*+ SKEW_GROUPBY(pgk) */ k, count(*) FROM t GROUP BY k",
            f"strategy is 'pgk'; it must be one of {', '.join(STRATEGIES)}; did you mean 'pkg'?",
        ),
    ],
)
def test_refused(session: SparkSession, query: str, message: str | None) -> None:
    with pytest.raises(SaltwiseError) as error:
        explain(session, query)
    assert "\n" not in str(error.value)
    if message is not None:
        assert str(error.value) == message
    assert session.table("t").count() == 9


def test_options_are_checked_first(session: SparkSession) -> None:
    with pytest.raises(SaltwiseValueError, match="partitions is 0; it must be a whole number"):
        explain(session, "SELECT k FROM t", partitions=0)


def test_prints_side_by_side() -> None:
    stock = "== Physical Plan ==\nHashAggregate(keys=[k#1L])\n+- Exchange a\n   +- *(1) Scan [k#1L] Batched: x"
    ours = "== Physical Plan ==\nHashAggregate(keys=[k#1L])\n+- SkewRoute [k#1L], pkg, n=4\n   +- *(1) Scan"
    found = Explanation(stock, ours, "Rewritten: because.")
    lines = str(found).split("\n")
    assert [cell.strip() for cell in lines[1].strip("┃").split("┃")] == ["stock Spark", "Saltwise"]
    assert [[cell.rstrip() for cell in line.strip("│").split("│")] for line in lines[3:6]] == [
        [" HashAggregate(keys=[k])", " HashAggregate(keys=[k])"],
        [" +- Exchange a", " +- SkewRoute [k], pkg, n=4"],
        ["  +- Scan [k]", "  +- Scan"],
    ]
    assert lines[-1] == "Rewritten: because."
    assert "<pre>HashAggregate(keys=[k])\n+- Exchange a" in found._repr_html_()
    assert found._repr_html_().endswith("<p>Rewritten: because.</p>")
