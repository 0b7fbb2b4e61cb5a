"""audit compares answers as Spark leaves them open, finds a wrong plan, and refuses what writes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.agree import WithConf

import saltwise
from saltwise import SaltwiseError, SaltwiseValueError
from saltwise.cli import commands
from saltwise.spark.reports import audit as module
from saltwise.spark.reports.answers import compare
from saltwise.spark.session import confs

Compared = Callable[[str], module.Audit]


@pytest.fixture
def compared(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Compared:
    """Audits a query, but runs nothing where it would take the time."""
    monkeypatch.setattr(module, "_timed", lambda session, made, values: module._Run(1.0))
    return lambda query: saltwise.audit(query, spark, rounds=1)


@pytest.fixture
def planned(compared: Compared, monkeypatch: pytest.MonkeyPatch) -> Compared:
    """Audits a query, but runs nothing at all."""
    monkeypatch.setattr(module, "_collected", lambda session, made, values: [])
    return compared


def words(audit: module.Audit) -> str:
    """Return what an audit prints, in one line."""
    return " ".join(str(audit).split())


def test_an_audit_compares_times_and_leaves_the_confs_as_they_were(spark: SparkSession) -> None:
    names = [*module.COMPARED, *module.ALL_FIELDS]
    before = [spark.conf.get(name, None) for name in names]
    df = spark.range(20_000).groupBy((F.col("id") % 50).alias("k")).agg(F.collect_list("id"), F.avg("id"))
    found = saltwise.audit(df, rounds=1)
    assert found.same
    assert found.answers.rows == (50, 50)
    assert found.rewritten
    assert words(found).startswith("The answers are the same, 50 rows.")
    assert "Rewritten: map tasks combine rows where that pays" in words(found)
    assert [spark.conf.get(name, None) for name in names] == before


def test_a_small_input_is_rewritten_where_answers_are_compared(compared: Compared, with_conf: WithConf) -> None:
    query = "SELECT id % 50 AS k, collect_list(id) FROM range(2000) GROUP BY 1"
    found = compared(query)
    assert found.rewritten
    assert re.search(
        r"The timed runs keep the confs of the session\. Nothing was rewritten: its input has about \d+ bytes, and "
        r"spark\.saltwise\.auto\.smallInput is 1048576\.",
        words(found),
    )
    with with_conf({"spark.saltwise.auto.smallInput": 0}):
        found = compared(query)
    assert found.reason == found.timed_reason
    assert "The timed runs" not in str(found)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT id FROM range(9)", "Nothing was rewritten: the query has no GROUP BY and no window."),
        (
            "SELECT id % 3, count(*) FROM range(9) GROUP BY 1",
            "Nothing was rewritten: the states of count have a fixed size",
        ),
    ],
)
def test_an_audit_says_why_nothing_was_rewritten(compared: Compared, query: str, reason: str) -> None:
    found = compared(query)
    assert found.same
    assert not found.rewritten
    assert reason in words(found)


def test_the_documented_queries_are_rewritten(compared: Compared) -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "command-line.md"
    queries = set(re.findall(r'saltwise audit "(.*)"', page.read_text() + str(commands.audit.__doc__)))
    assert queries
    assert [query for query in queries if not compared(query).rewritten] == []


def test_the_sides_take_turns_and_measuring_takes_no_time(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count()
    sides = []
    real = module._timed

    def timed(session: SparkSession, made: Callable[[], DataFrame], values: dict[str, str]) -> module._Run:
        sides.append(values[module.MODE])
        return real(session, made, values)

    def measured(session: SparkSession, action: Callable[[], object]) -> list[list[dict[str, int]]]:
        action()
        for _ in range(100):
            next(ticks)
        return []

    monkeypatch.setattr(module, "perf_counter", lambda: float(next(ticks)))
    monkeypatch.setattr(module, "measured_tasks", measured)
    monkeypatch.setattr(module, "_timed", timed)
    found = saltwise.audit("SELECT id FROM range(9)", spark, rounds=3)
    assert found.seconds == (1, 1)
    assert sides == ["observe", "on", "on", "observe", "observe", "on"]


def test_a_query_with_a_hint_is_compared_with_spark_itself(compared: Compared) -> None:
    found = compared("SELECT /*+ SKEW_GROUPBY(pkg) */ id % 7 AS k, count(*) FROM range(1000) GROUP BY 1")
    assert found.answers.rows == (7, 7)
    assert found.reason == "Rewritten: rows go to their worker by pkg, n=4."


@pytest.fixture
def both_ways(
    spark: SparkSession, compared: Compared, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, str, str], module.Audit]:
    """Audits a query of the view `audited`, which the side with Saltwise reads with other rows."""
    views = {"stock": "", "ours": ""}

    def switching(session: SparkSession, values: dict[str, str]) -> AbstractContextManager[None]:
        rows = views["ours" if values.get(module.MODE) == "on" else "stock"]
        session.sql(rows).createOrReplaceTempView("audited")
        return confs(session, values)

    def audit(query: str, stock: str, ours: str) -> module.Audit:
        views.update(stock=stock, ours=ours)
        spark.sql(stock).createOrReplaceTempView("audited")
        return compared(query)

    monkeypatch.setattr(module, "confs", switching)
    return audit


def test_a_wrong_plan_is_found(both_ways: Any) -> None:
    found = both_ways("SELECT k, sum(v) FROM audited GROUP BY k", "SELECT 1 AS k, 1 AS v", "SELECT 1 AS k, 2 AS v")
    assert not found.same
    assert found.answers.differences == [("(1, 1)", "(1, 2)")]
    assert "The answers differ: 1 row without Saltwise, 1 with it, 1 difference." in str(found)


@pytest.mark.parametrize(
    ("query", "same"),
    [
        ("SELECT k, collect_list(v) FROM audited GROUP BY k", True),
        ("SELECT k, collect_list(v) OVER (PARTITION BY k) FROM audited", True),
        ("SELECT k, collect_list(v) OVER (PARTITION BY k ORDER BY w) FROM audited", False),
        ("SELECT k, array(max(v), min(v)) FROM audited GROUP BY k", True),
        ("SELECT k, sort_array(collect_list(struct(w, v))).v FROM audited GROUP BY k", False),
        ("SELECT k, xs FROM (SELECT k, array(v, w) AS xs FROM audited)", False),
        ("SELECT k, sort_array(collect_list(v)), collect_list(w) FROM audited GROUP BY k", True),
        ("SELECT k, sort_array(collect_list(struct(w, v))).v, collect_list(v) FROM audited GROUP BY k", False),
        ("SELECT k, array_sort(collect_list(v), (x, y) -> 0) FROM audited GROUP BY k", True),
        ("SELECT k, array(array_sort(collect_list(struct(w, v))).v) FROM audited GROUP BY k", False),
        (
            "SELECT a.xs, sort_array(a.ys).v FROM (SELECT collect_list(w) AS xs, collect_list(struct(w, v)) AS ys FROM "
            "audited) AS a",
            False,
        ),
    ],
)
def test_the_order_inside_arrays_counts_where_the_query_gives_it(both_ways: Any, query: str, same: bool) -> None:
    rows = "SELECT /*+ REPARTITION(1) */ 1 AS k, v, w FROM VALUES {} AS t(v, w)"
    assert both_ways(query, rows.format("(1, 2), (2, 1)"), rows.format("(1, 1), (2, 2)")).same is same


REFUSED = "SELECT 1 AS k, CAST(raise_error('broken') AS INT) AS v"


@pytest.mark.parametrize(
    ("stock", "ours", "side"),
    [
        ("SELECT 1 AS k, 1 AS v", REFUSED, "with Saltwise, and answers it without Saltwise"),
        (REFUSED, "SELECT 1 AS k, 1 AS v", "without Saltwise, and answers it with Saltwise"),
        (REFUSED, REFUSED, "without Saltwise and with Saltwise"),
    ],
)
def test_a_query_that_fails_says_on_which_side(both_ways: Any, stock: str, ours: str, side: str) -> None:
    with pytest.raises(SaltwiseError) as error:
        both_ways("SELECT k, max(v) FROM audited GROUP BY k", stock, ours)
    assert str(error.value) == f"Spark refuses the query {side}: broken."


def test_a_run_that_fails_on_the_clock_says_on_which_side(spark: SparkSession) -> None:
    broken = spark.sql(REFUSED)
    for values, side in ((module.STOCK, "without Saltwise"), (module.OURS, "with Saltwise")):
        with pytest.raises(SaltwiseError) as error:
            module._timed(spark, lambda: broken, values)
        assert str(error.value) == f"Spark refuses the query {side}: broken."


def test_the_runs_of_an_audit_are_under_a_conf_that_says_so(spark: SparkSession) -> None:
    seen = []

    def made() -> DataFrame:
        seen.append(spark.conf.get("spark.saltwise.measured", None))
        return spark.range(1)

    module._collected(spark, made, module.STOCK)
    module._timed(spark, made, module.OURS)
    assert seen == ["true", "true"]


def test_the_ratios_are_those_of_the_medians_that_are_shown(compared: Compared) -> None:
    found = replace(
        compared("SELECT 1"),
        timed_reason="Rewritten: by a rule.",
        seconds=(0.890, 0.905),
        longest_task=(0.0044, 0.0046),
        memory=(3 << 20, 6 << 20),
    )
    shown = [line.strip("│ ").split() for line in str(found).splitlines()]
    assert ["seconds", "│", "0.890", "│", "0.905", "│", "1.02"] in shown
    assert ["longest", "task,", "seconds", "│", "0.004", "│", "0.005", "│", "1.25"] in shown
    assert ["peak", "memory", "of", "a", "task,", "MB", "│", "3.0", "│", "6.0", "│", "2.00"] in shown
    assert found.ratio == pytest.approx(0.905 / 0.890)
    assert "peak memory" not in str(replace(found, memory=(0, 0)))


def test_times_of_two_plans_of_spark_have_no_ratio(compared: Compared) -> None:
    found = compared("SELECT 1")
    assert "ratio" not in str(found)
    assert words(found).endswith("Both sides of this table are Spark's own plan, so only chance makes them differ.")
    rewritten = str(replace(found, timed_reason="Rewritten: by a rule."))
    assert "ratio" in rewritten
    assert "on as many cores as there are tasks, the longest one does." in " ".join(rewritten.split())


@pytest.mark.parametrize("query", [3, None, ["SELECT 1"]])
def test_an_audit_takes_a_dataframe_or_a_text(spark: SparkSession, query: Any) -> None:
    with pytest.raises(SaltwiseValueError) as error:
        saltwise.audit(query, spark)
    assert str(error.value) == f"query is {query!r}; it must be a DataFrame of Spark, or one SELECT in SQL."


def test_the_last_bit_of_a_float_is_rounding(both_ways: Any) -> None:
    query, rows = "SELECT k, max(v) FROM audited GROUP BY k", "SELECT 1 AS k, {} AS v"
    assert both_ways(query, rows.format("0.1F"), rows.format("0.10000001F")).same
    assert not both_ways(query, rows.format("0.1D"), rows.format("0.10000001D")).same
    rows = "SELECT 1 AS k, named_struct('float_rate', {}) AS v"
    assert both_ways(query, rows.format("0.1F"), rows.format("0.10000001F")).same
    assert not both_ways(query, rows.format("0.1D"), rows.format("0.10000001D")).same
    rows = "SELECT 1 AS k, {} AS v"
    cancelled = both_ways(query, rows.format("0.0D"), rows.format("2.8e-17D"))
    assert "Where sums cancel, doubles differ by up to 3e-17, which counts as rounding." in words(cancelled)


def test_an_audit_says_where_a_query_answers_anew_each_time(compared: Compared) -> None:
    found = compared("SELECT id % 3 AS k, max(r) FROM (SELECT id, rand() AS r FROM range(9)) GROUP BY 1")
    assert not found.same
    assert not found.steady
    assert "gives another answer each time" in str(found)


def test_what_spark_leaves_open_is_named_where_answers_differ(compared: Compared) -> None:
    found = compared("SELECT id % 3 AS k, first(id) AS f, percentile_approx(id, 0.5) FROM range(9) GROUP BY 1")
    assert found.open == ("first", "percentile_approx")
    assert found.same
    assert "leaves open" not in str(found)
    assert (
        "The query has first and percentile_approx. Their answers depend on the order of rows or of merges, which Spark "
        "leaves open, so they can differ where nothing is wrong."
    ) in words(replace(found, answers=compare([(0, 1)], [(0, 2)])))


OPENED = [
    ("SELECT * FROM opened LIMIT 3", ["LIMIT without ORDER BY"]),
    ("SELECT v FROM (SELECT * FROM opened OFFSET 3) ORDER BY v", ["LIMIT without ORDER BY"]),
    ("SELECT max(v) FROM (SELECT v FROM opened LIMIT 3)", ["LIMIT without ORDER BY"]),
    ("SELECT * FROM opened WHERE v > (SELECT max(v) FROM (SELECT v FROM opened LIMIT 3))", ["LIMIT without ORDER BY"]),
    ("SELECT k FROM opened ORDER BY v LIMIT 3 OFFSET 1", []),
    ("SELECT * FROM (SELECT * FROM opened ORDER BY v) AS sorted WHERE k > 0 LIMIT 3", []),
    ("SELECT k, count(*) FROM opened GROUP BY k HAVING count(*) > 0 ORDER BY 2 LIMIT 2", []),
    ("SELECT * FROM opened TABLESAMPLE (50 PERCENT) REPEATABLE (1)", ["TABLESAMPLE"]),
    ("SELECT k, concat_ws(',', collect_list(string(v))) FROM opened GROUP BY k", ["concat_ws over collected arrays"]),
    ("SELECT k, array_join(xs, ',') FROM (SELECT k, array_agg(string(v)) AS xs FROM opened GROUP BY k)",
     ["array_join over collected arrays"]),
    ("SELECT k, array_join(sort_array(collect_list(string(v))), ','), collect_list(v) FROM opened GROUP BY k", []),
    ("SELECT k, collect_list(v) OVER (PARTITION BY k ORDER BY v) FROM opened",
     ["arrays of a window whose order may have ties"]),
    ("SELECT k, array_join(sort_array(collect_list(string(v))), ',') FROM opened GROUP BY k", []),
    ("SELECT concat_ws(',', string(k), string(v)) FROM opened", []),
    ("SELECT k, approx_percentile(v, 0.5), any_value(v) FROM opened GROUP BY k", ["any_value", "approx_percentile"]),
    ("SELECT row_number() OVER w, ntile(2) OVER w, lag(v) OVER w, lead(v) OVER w, nth_value(v, 2) OVER w, "
     "rank() OVER w FROM opened WINDOW w AS (PARTITION BY k ORDER BY v)",
     ["lag", "lead", "nth_value", "ntile", "row_number"]),
    ("SELECT monotonically_increasing_id() AS id, k FROM opened", ["monotonically_increasing_id"]),
    (f"SELECT {', '.join(f'max(v + {i}) AS v{i}' for i in range(30))}, last(v) FROM opened GROUP BY k", ["last"]),
    ("SELECT k, listagg(string(v), ','), string_agg(string(v)) FROM opened GROUP BY k", ["listagg", "string_agg"]),
]  # fmt: skip


def test_what_spark_leaves_open_is_found_in_the_plan(spark: SparkSession, planned: Compared) -> None:
    spark.sql("SELECT id % 3 AS k, id AS v FROM range(9)").createOrReplaceTempView("opened")
    assert [(query, [*planned(query).open]) for query, _ in OPENED] == OPENED


def test_the_plan_of_another_session_is_read_as_a_whole(spark: SparkSession, planned: Compared) -> None:
    wide = [F.max(F.col("id") + i).alias(f"v{i}") for i in range(30)]
    df = spark.newSession().range(9).groupBy((F.col("id") % 3).alias("k")).agg(*wide, F.first("id"))
    assert saltwise.audit(df, rounds=1).open == ("first",)


@pytest.mark.parametrize(
    "query",
    [
        "INSERT INTO t VALUES (1)",
        "CREATE TABLE u AS SELECT 1",
        "DROP TABLE t",
        "SET a=1",
        "FROM t INSERT INTO a SELECT * INSERT INTO b SELECT *",
        "WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x",
        "SELECT 1; SELECT 2",
    ],
)
def test_a_query_that_writes_is_refused(spark: SparkSession, query: str) -> None:
    with pytest.raises(SaltwiseError, match=r"^Spark refuses the query: Syntax error at or near "):
        saltwise.audit(query, spark)


def test_a_dataframe_that_a_command_answered_is_refused(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE written (k INT) USING parquet")
    try:
        df = spark.sql("INSERT INTO written VALUES (1)")
        with pytest.raises(SaltwiseValueError) as error:
            saltwise.audit(df)
        assert str(error.value) == (
            "the query is the answer of a command, which has run already; it must be one SELECT: give the one that the "
            "command reads."
        )
        assert saltwise.audit(spark.table("written"), rounds=1).answers.rows == (1, 1)
    finally:
        spark.sql("DROP TABLE written")


def test_a_stream_is_refused(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load()
    stream.createOrReplaceTempView("streamed")
    for query in (stream, "SELECT count(*) FROM streamed"):
        with pytest.raises(SaltwiseValueError) as error:
            saltwise.audit(query, spark)
        assert str(error.value) == "the query is a stream; it must be a batch: read its source with spark.read."


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1 AS one; -- done",
        "SELECT 1 AS one ; /* done;\n */ ;\n-- it's done",
        "-- begin;\nSELECT 1 AS one -- no semicolon",
        "SELECT 1 AS one WHERE '; -- done' = \"; -- done\"",
    ],
)
def test_semicolons_and_comments_at_the_end_are_passed_over(compared: Compared, query: str) -> None:
    assert compared(query).answers.rows == (1, 1)


@pytest.mark.parametrize(
    ("query", "rounds", "message"),
    [
        *((query, 1, "the query is empty; it must be one SELECT.") for query in ("", " ;", "-- SELECT 1")),
        ("SELECT 1", 0, "rounds is 0; it must be a whole number of at least 1."),
    ],
)
def test_an_empty_query_and_no_rounds_are_refused(spark: SparkSession, query: str, rounds: int, message: str) -> None:
    with pytest.raises(SaltwiseValueError) as error:
        saltwise.audit(query, spark, rounds)
    assert str(error.value) == message
