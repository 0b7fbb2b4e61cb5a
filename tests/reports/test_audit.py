"""audit compares answers as Spark leaves them open, finds a wrong plan, and refuses what writes."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.agree import WithConf

import saltwise
from saltwise import SaltwiseError, SaltwiseValueError
from saltwise.cli import commands
from saltwise.spark.reports import audit as module
from saltwise.spark.reports.answers import compare
from saltwise.spark.session import confs

VALUES = st.recursive(
    st.none() | st.integers(-3, 3) | st.floats(width=32) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=1), inner, max_size=2),
    max_leaves=4,
)
ROWS = st.lists(st.tuples(st.integers(0, 5), VALUES), max_size=12)


@given(ROWS, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_count(rows: list[tuple[object, ...]], random: object) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert compare(rows, shuffled).same


@given(ROWS, st.tuples(st.integers(6, 9), st.integers()))
def test_a_row_more_is_found(rows: list[tuple[object, ...]], more: tuple[object, ...]) -> None:
    found = compare(rows, [*rows, more])
    assert found.different == 1
    assert found.differences == [("", repr(more))]


def test_the_last_bits_of_doubles_do_not_count_and_a_value_does() -> None:
    assert compare([(1, 0.1 + 0.2)], [(1, 0.3)]).same
    assert compare([(1, math.nan)], [(1, math.nan)]).same
    assert compare([(1, math.inf)], [(1, math.inf)]).same
    assert not compare([(1, math.inf)], [(1, 1e308)]).same
    assert not compare([(1, 0.0)], [(1, math.nan)]).same
    assert not compare([(1, 0.3001)], [(1, 0.3)]).same
    assert not compare([(1, None)], [(1, 0.0)]).same
    found = compare([(k, float(k)) for k in range(9)], [(k, float(k) + (k == 4)) for k in range(9)])
    assert found.differences == [("(4, 4.0)", "(4, 5.0)")]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([(1, 2.8e-17)], [(1, 0.0)]),  # a sum that cancels
        ([(1, 0.0)], [(1, 4.7e-9)]),  # the deviation of equal values
        ([(1, 5e9), (2, 3.0)], [(1, 5e9), (2, 3.0000001)]),  # a sum of large numbers that is small
        ([([2.8e-17], {"a": 0.0})], [([0.0], {"a": 2.8e-17})]),
    ],
)
def test_what_rounding_leaves_of_a_sum_that_cancels_does_not_count(
    one: list[tuple[object, ...]], other: list[tuple[object, ...]]
) -> None:
    found = compare(one, other)
    assert found.same
    assert 0 < found.rounding < 1.1e-7
    assert compare(one, one).rounding == 0


def test_a_large_column_hides_no_difference_in_another_column_and_none_in_a_small_group() -> None:
    assert not compare([(1e12, 0.0005)], [(1e12, 0.0005000005)]).same
    assert not compare([("hot", 1e9), ("rare", 4.0)], [("hot", 1e9), ("rare", 4.1)]).same


def test_floats_have_fewer_digits_than_doubles() -> None:
    one, other = [(1, 0.1), (2, 0.2)], [(1, 0.10000000894069672), (2, 0.2)]  # one float after the other
    assert not compare(one, other).same
    assert compare(one, other, floats=[1]).same
    assert not compare(one, [(1, 0.10001), (2, 0.2)], floats=[1]).same


def test_rows_without_a_key_find_their_partner_although_their_doubles_are_not_equal() -> None:
    assert compare([(0.1 + 0.2, 5.0), (0.3, 1.0)], [(0.3, 5.0), (0.1 + 0.2, 1.0)]).same
    assert compare([(2.8e-17, 5.0), (0.0, 1.0)], [(0.0, 5.0), (2.8e-17, 1.0)]).same
    assert compare([([(0.1 + 0.2, 5), (0.3, 1)],)], [([(0.3, 5), (0.1 + 0.2, 1)],)]).same


@given(
    st.lists(st.tuples(st.floats(1e-4, 1), st.integers(0, 2), st.floats(1, 1000)), min_size=1, max_size=12),
    st.data(),
)
def test_a_planted_difference_in_one_double_is_found(rows: list[tuple[float, int, float]], data: st.DataObject) -> None:
    planted = [list(row) for row in data.draw(st.permutations(rows))]
    row, column = data.draw(st.sampled_from(planted)), data.draw(st.sampled_from((0, 2)))
    row[column] *= 1 + 1e-6
    assert compare(rows, planted).different >= 1


def test_the_order_inside_arrays_is_told_and_does_not_count() -> None:
    found = compare([("a", [1, 2, 3])], [("a", [3, 1, 2])])
    assert (found.same, found.reordered) == (True, 1)
    assert not compare([("a", [1, 2, 3])], [("a", [3, 1, 1])]).same
    assert not compare([("a", [1, 2, 3])], [("a", [3, 1, 2])], ordered=True).same


def test_an_audit_of_a_query_that_is_rewritten(spark: SparkSession) -> None:
    names = [*module.COMPARED, *module.ALL_FIELDS]
    before = [spark.conf.get(name, None) for name in names]
    df = spark.range(20_000).groupBy((F.col("id") % 50).alias("k")).agg(F.collect_list("id"), F.avg("id"))
    found = saltwise.audit(df, rounds=1)
    assert found.same
    assert found.answers.rows == (50, 50)
    assert found.rewritten
    lines = " ".join(str(found).split())
    assert lines.startswith("The answers are the same, 50 rows.")
    assert "Rewritten: map tasks combine rows where that pays" in lines
    assert [spark.conf.get(name, None) for name in names] == before


def test_small_inputs_are_rewritten_for_the_comparison_and_timed_as_the_session_has_it(
    spark: SparkSession, with_conf: WithConf
) -> None:
    query = "SELECT id % 50 AS k, collect_list(id) FROM range(2000) GROUP BY 1"
    found = saltwise.audit(query, spark, rounds=1)
    assert found.rewritten
    assert re.search(
        r"The timed runs keep the confs of the session\. Nothing was rewritten: its input has about \d+ bytes, and "
        r"spark\.saltwise\.auto\.smallInput is 1048576\.",
        " ".join(str(found).split()),
    )
    with with_conf({"spark.saltwise.auto.smallInput": 0}):
        found = saltwise.audit(query, spark, rounds=1)
    assert found.reason == found.timed_reason
    assert "The timed runs" not in str(found)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT id FROM range(9)", "Nothing was rewritten: there is no GROUP BY in the query."),
        (
            "SELECT id % 3, count(*) FROM range(9) GROUP BY 1",
            "Nothing was rewritten: the states of count have a fixed size",
        ),
    ],
)
def test_it_is_told_that_nothing_was_rewritten_and_why(spark: SparkSession, query: str, reason: str) -> None:
    found = saltwise.audit(query, spark, rounds=1)
    assert found.same
    assert not found.rewritten
    assert reason in " ".join(str(found).split())


DOCS = Path(__file__).resolve().parents[2] / "docs"
DOCUMENTED = [
    *re.findall(r'saltwise audit "(.*)"', (DOCS / "reference" / "command-line.md").read_text()),
    *re.findall(r'saltwise audit "(.*)"', str(commands.audit.__doc__)),
]


@pytest.mark.parametrize("query", sorted(set(DOCUMENTED)))
def test_the_documented_queries_are_rewritten(spark: SparkSession, query: str) -> None:
    assert saltwise.audit(query, spark, rounds=1).rewritten


def test_the_documented_program_prints_what_was_rewritten_in_the_timed_runs_too(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (DOCS / "how-to" / "see-the-skew.md").read_text()
    [code] = [
        code for code in re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE) if "audit(" in code
    ]
    exec(code, {"spark": spark})
    printed = capsys.readouterr().out
    assert "Rewritten: " in printed
    assert "Nothing was rewritten" not in printed


def test_measuring_is_not_timed_and_each_side_is_first_in_every_other_round(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_a_hint_is_compared_with_spark_itself(spark: SparkSession) -> None:
    query = "SELECT /*+ SKEW_GROUPBY(pkg) */ id % 7 AS k, count(*) FROM range(1000) GROUP BY 1"
    found = saltwise.audit(query, spark, rounds=1)
    assert found.answers.rows == (7, 7)
    assert found.reason == "Rewritten: rows go to their worker by pkg, n=4."


def both_ways(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, query: str, stock: str, ours: str) -> module.Audit:
    """Audit a query of the view `audited`, which the side with Saltwise reads with other rows."""
    spark.sql(stock).createOrReplaceTempView("audited")

    def switching(session: SparkSession, values: dict[str, str]) -> AbstractContextManager[None]:
        session.sql(ours if values.get(module.MODE) == "on" else stock).createOrReplaceTempView("audited")
        return confs(session, values)

    monkeypatch.setattr(module, "confs", switching)
    return saltwise.audit(query, spark, rounds=1)


def test_a_wrong_plan_is_found(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The side with Saltwise reads another table."""
    found = both_ways(
        spark,
        monkeypatch,
        "SELECT k, sum(v) FROM audited GROUP BY k",
        "SELECT 1 AS k, 1 AS v",
        "SELECT 1 AS k, 2 AS v",
    )
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
    ],
)
def test_the_order_inside_arrays_counts_where_the_query_gives_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, query: str, same: bool
) -> None:
    rows = "SELECT /*+ REPARTITION(1) */ 1 AS k, v, w FROM VALUES {} AS t(v, w)"
    found = both_ways(spark, monkeypatch, query, rows.format("(1, 2), (2, 1)"), rows.format("(1, 1), (2, 2)"))
    assert found.same is same


def test_floats_that_differ_by_their_last_bit_are_the_same(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = "SELECT 1 AS k, {} AS v"
    query = "SELECT k, max(v) FROM audited GROUP BY k"
    assert both_ways(spark, monkeypatch, query, rows.format("0.1F"), rows.format("0.10000001F")).same
    assert not both_ways(spark, monkeypatch, query, rows.format("0.1D"), rows.format("0.10000001D")).same


def test_what_counts_as_rounding_is_told(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = "SELECT 1 AS k, {} AS v"
    query = "SELECT k, max(v) FROM audited GROUP BY k"
    found = both_ways(spark, monkeypatch, query, rows.format("0.0D"), rows.format("2.8e-17D"))
    assert "Where sums cancel, doubles differ by up to 3e-17, which counts as rounding." in " ".join(str(found).split())


def test_a_query_that_answers_anew_each_time_is_told(spark: SparkSession) -> None:
    found = saltwise.audit(
        "SELECT id % 3 AS k, max(r) FROM (SELECT id, rand() AS r FROM range(9)) GROUP BY 1", spark, rounds=1
    )
    assert not found.same
    assert not found.steady
    assert "gives another answer each time" in str(found)


def test_what_spark_leaves_open_is_named_where_answers_differ(spark: SparkSession) -> None:
    query = "SELECT id % 3 AS k, first(v) AS f, percentile_approx(v, 0.5) FROM opened GROUP BY 1"
    spark.sql("SELECT id, id AS v FROM range(9)").createOrReplaceTempView("opened")
    found = saltwise.audit(query, spark, rounds=1)
    assert found.open == ("first", "percentile_approx")
    assert found.same
    assert "leaves open" not in str(found)
    differing = replace(found, answers=compare([(0, 1)], [(0, 2)]))
    assert (
        "The query has first and percentile_approx. Their answers depend on the order of rows or of merges, which Spark "
        "leaves open, so they can differ where nothing is wrong."
    ) in " ".join(str(differing).split())


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
    ("SELECT k, array_join(sort_array(collect_list(string(v))), ',') FROM opened GROUP BY k", []),
    ("SELECT concat_ws(',', string(k), string(v)) FROM opened", []),
    ("SELECT k, approx_percentile(v, 0.5), any_value(v) FROM opened GROUP BY k", ["any_value", "approx_percentile"]),
    ("SELECT row_number() OVER w, ntile(2) OVER w, lag(v) OVER w, lead(v) OVER w, nth_value(v, 2) OVER w, "
     "rank() OVER w FROM opened WINDOW w AS (PARTITION BY k ORDER BY v)",
     ["lag", "lead", "nth_value", "ntile", "row_number"]),
    ("SELECT monotonically_increasing_id() AS id, k FROM opened", ["monotonically_increasing_id"]),
    (f"SELECT {', '.join(f'max(v + {i}) AS v{i}' for i in range(30))}, last(v) FROM opened GROUP BY k", ["last"]),
]  # fmt: skip


@pytest.mark.parametrize(("query", "found"), OPENED)
def test_what_spark_leaves_open_is_found_in_the_plan(spark: SparkSession, query: str, found: list[str]) -> None:
    spark.sql("SELECT id % 3 AS k, id AS v FROM range(9)").createOrReplaceTempView("opened")
    assert saltwise.audit(query, spark, rounds=1).open == tuple(found)


def test_listagg_is_left_open(spark: SparkSession, version: tuple[int, ...]) -> None:
    if version < (4, 0):
        pytest.skip("Spark has listagg since 4.0")
    query = "SELECT id % 3 AS k, listagg(string(id), ','), string_agg(string(id)) FROM range(9) GROUP BY 1"
    assert saltwise.audit(query, spark, rounds=1).open == ("listagg", "string_agg")


def test_the_plan_of_a_session_that_is_not_the_active_one_is_read_as_a_whole(spark: SparkSession) -> None:
    session = spark.newSession()
    wide = [F.max(F.col("id") + i).alias(f"v{i}") for i in range(30)]
    df = session.range(9).groupBy((F.col("id") % 3).alias("k")).agg(*wide, F.first("id"))
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
def test_what_writes_is_refused(spark: SparkSession, query: str) -> None:
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
        assert spark.table("written").count() == 1
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
def test_semicolons_and_comments_at_the_end_of_a_query_are_passed_over(spark: SparkSession, query: str) -> None:
    assert saltwise.audit(query, spark, rounds=1).answers.rows == (1, 1)


@pytest.mark.parametrize("query", ["", " ;", "-- SELECT 1"])
def test_an_empty_query_is_refused(spark: SparkSession, query: str) -> None:
    with pytest.raises(SaltwiseValueError, match=r"^the query is empty; it must be one SELECT\.$"):
        saltwise.audit(query, spark)


def test_rounds_out_of_range(spark: SparkSession) -> None:
    with pytest.raises(SaltwiseValueError) as error:
        saltwise.audit("SELECT 1", spark, rounds=0)
    assert str(error.value) == "rounds is 0; it must be a whole number of at least 1."
