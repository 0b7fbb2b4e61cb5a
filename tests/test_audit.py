"""audit compares answers as Spark leaves them open, finds a wrong plan, and refuses what writes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import saltwise
from saltwise import SaltwiseError, SaltwiseValueError
from saltwise.spark import audit as module
from saltwise.spark import explain
from saltwise.spark.answers import compare

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
    assert not compare([(1, 0.3001)], [(1, 0.3)]).same
    assert not compare([(1, None)], [(1, 0.0)]).same
    found = compare([(k, float(k)) for k in range(9)], [(k, float(k) + (k == 4)) for k in range(9)])
    assert found.differences == [("(4, 4.0)", "(4, 5.0)")]


def test_the_order_inside_arrays_is_told_and_does_not_count() -> None:
    found = compare([("a", [1, 2, 3])], [("a", [3, 1, 2])])
    assert (found.same, found.reordered) == (True, 1)
    assert not compare([("a", [1, 2, 3])], [("a", [3, 1, 1])]).same


def test_an_audit_of_a_query_that_is_rewritten(spark: SparkSession) -> None:
    df = spark.range(20_000).groupBy((F.col("id") % 50).alias("k")).agg(F.collect_list("id"), F.avg("id"))
    found = saltwise.audit(df, rounds=1)
    assert found.same
    assert found.answers.rows == (50, 50)
    assert str(found).startswith("The answers are the same, 50 rows.")
    assert spark.conf.get("spark.saltwise.mode", None) is None


def test_a_hint_is_compared_with_spark_itself(spark: SparkSession) -> None:
    query = "SELECT /*+ SKEW_GROUPBY(pkg) */ id % 7 AS k, count(*) FROM range(1000) GROUP BY 1"
    assert saltwise.audit(query, spark, rounds=1).answers.rows == (7, 7)


def test_a_wrong_plan_is_found(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The side with Saltwise reads another table."""
    spark.sql("SELECT 1 AS k, 1 AS v").createOrReplaceTempView("audited")
    real = explain.confs

    def switching(session: SparkSession, values: dict[str, str]):  # type: ignore[no-untyped-def]
        wrong = 2 if values["spark.saltwise.mode"] == "on" else 1
        session.sql(f"SELECT 1 AS k, {wrong} AS v").createOrReplaceTempView("audited")
        return real(session, values)

    monkeypatch.setattr(module, "confs", switching)
    found = saltwise.audit("SELECT k, sum(v) FROM audited GROUP BY k", spark, rounds=1)
    assert not found.same
    assert found.answers.differences == [("(1, 1)", "(1, 2)")]
    assert "The answers differ: 1 row without Saltwise, 1 with it, 1 difference." in str(found)


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
    assert "The query calls first and percentile_approx: what they answer depends on the order of rows" in str(
        differing
    )


@pytest.mark.parametrize("query", ["INSERT INTO t VALUES (1)", "CREATE TABLE u AS SELECT 1", "DROP TABLE t", "SET a=1"])
def test_what_writes_is_refused(spark: SparkSession, query: str) -> None:
    with pytest.raises(SaltwiseError):
        saltwise.audit(query, spark)


def test_rounds_out_of_range(spark: SparkSession) -> None:
    with pytest.raises(SaltwiseValueError) as error:
        saltwise.audit("SELECT 1", spark, rounds=0)
    assert str(error.value) == "rounds is 0; it must be a whole number of at least 1."
