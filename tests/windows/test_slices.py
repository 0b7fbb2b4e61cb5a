"""A window without PARTITION BY runs in slices, and gives the answers of stock Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.windows.readings import FRAMES, ORDERS, QUERIES, WHOLE, ends, over

from saltwise.advise.advice import SLICED
from saltwise.advise.application import PlanNode
from saltwise.advise.fragments import functions_of
from saltwise.spark.reports.explain import explain

if TYPE_CHECKING:
    from tests.agree import Agree, WithConf

EVERYWHERE = {"lag and lead", "short frames", "row_number", "all ranks", "a running sum", "running extremes", "totals"}


@pytest.fixture(scope="module", autouse=True)
def sliced(readings: None, with_conf: WithConf) -> Iterator[None]:
    # Two cores leave dense_rank alone.
    with with_conf({"spark.saltwise.auto.smallInput": 0, "spark.sql.leafNodeDefaultParallelism": 3}):
        yield


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.smoke] if name in EVERYWHERE else []) for name in QUERIES]
)
def test_windows_in_slices_give_the_same_answers(agree: Agree, name: str) -> None:
    assert "SkewWindow [" in agree.auto(over(QUERIES[name]))


@pytest.mark.parametrize(
    ("calls", "carried"),
    [
        (
            "sum(v) OVER (ORDER BY x), rank() OVER (ORDER BY x)",
            r"\[x#\d+L? ASC NULLS FIRST\], slices, carry sum\(v#\d+L?\)",
        ),
        ("lag(v) OVER (ORDER BY id)", r"\[id#\d+L? ASC NULLS FIRST\], slices, with rows of their neighbours"),
        ("max(v) OVER ()", r"\[\], slices, carry max\(v#\d+L?\)"),
    ],
)
def test_the_plan_says_what_slices_carry(agree: Agree, calls: str, carried: str) -> None:
    assert re.search(rf"SkewWindow {carried}\n", agree.auto(over(calls)))


@pytest.mark.parametrize(
    "query",
    [
        over(QUERIES["totals beside running sums"], "readings WHERE x < 0"),
        over(QUERIES["totals"], "readings WHERE x < 0"),
        over(QUERIES["all ranks"], "readings WHERE id = 7"),
        over(QUERIES["short frames"], "readings WHERE x < 0"),
        over(QUERIES["short frames"], "readings WHERE id IN (7, 4000, 4001)"),
        over(QUERIES["near rows beside ranks"], "readings WHERE id IN (7, 4000, 4001)"),
        over(QUERIES["near rows beside ranks"], "readings WHERE id % 300 = 0"),
        over(QUERIES["first values beside ranks that tie"], "readings WHERE id % 300 = 0"),
        over(QUERIES["lag and lead"], "readings WHERE id % 150 = 0"),
        "SELECT x, lag(x) OVER (ORDER BY x), lead(x, 2) OVER (ORDER BY x) FROM readings",
        # Each row is the one before some other row, so no row comes twice.
        "SELECT count(l), count(DISTINCT l) FROM (SELECT lag(id) OVER (ORDER BY x) AS l FROM readings)",
        over("sum(v) OVER (ORDER BY x), rank() OVER (ORDER BY x)", "(SELECT * FROM readings UNION ALL TABLE readings)"),
        "SELECT x, rank() OVER (ORDER BY x), sum(id) OVER (ORDER BY x) FROM readings ORDER BY x, id LIMIT 100",
        "SELECT g, count(*), max(r) FROM (SELECT *, rank() OVER (ORDER BY x) AS r FROM readings) GROUP BY g",
        "SELECT a.id, r, n FROM (SELECT id, rank() OVER (ORDER BY x) AS r FROM readings) a "
        "JOIN (SELECT id, sum(v) OVER (ORDER BY id) AS n FROM readings) b ON a.id = b.id",
        "SELECT id, (SELECT max(r) FROM (SELECT rank() OVER (ORDER BY x) AS r FROM readings)) FROM readings",
    ],
    ids=[
        "no rows",
        "no rows and no order",
        "one row",
        "no rows near",
        "few rows near",
        "few rows near, beside ranks",
        "slices shorter than what is near, beside ranks",
        "slices shorter than what is near, beside first values",
        "slices shorter than what is near",
        "values that tie",
        "rows that tie",
        "a union",
        "an order above",
        "a group by",
        "a join",
        "a subquery",
    ],
)
def test_whatever_is_around_it_the_answers_are_the_same(agree: Agree, query: str) -> None:
    assert "SkewWindow [" in agree.auto(query)


@settings(max_examples=25)
@given(
    order=ORDERS,
    rows=st.sampled_from([1, 2, 37, 900]),
)
def test_in_any_order_the_answers_are_the_same(agree: Agree, order: str, rows: int) -> None:
    by = f"OVER (ORDER BY {order})"
    calls = ["rank()", "dense_rank()", "cume_dist()", "sum(v)", "count(g)", "max(d)"]
    agree.auto(over(", ".join(f"{call} {by}" for call in calls), f"readings WHERE id < {rows}"))


@pytest.mark.parametrize(
    "calls",
    [
        f"lag(v) OVER (ORDER BY id), sum(v) OVER (ORDER BY id {WHOLE})",
        "first_value(g) IGNORE NULLS OVER (ORDER BY id)",
        "nth_value(v, 101) OVER (ORDER BY id)",
        "lag(g) IGNORE NULLS OVER (ORDER BY id)",
        "lag(v, 101) OVER (ORDER BY id)",
        "max(v) OVER (ORDER BY id ROWS BETWEEN 101 PRECEDING AND CURRENT ROW)",
        "stddev(v) OVER (ORDER BY id)",
        "stddev(v) OVER (ORDER BY id RANGE BETWEEN 2 PRECEDING AND CURRENT ROW)",
        "max(v) OVER (ORDER BY d RANGE BETWEEN 2 PRECEDING AND CURRENT ROW)",
        "max(v) OVER (ORDER BY id RANGE BETWEEN 2 PRECEDING AND CURRENT ROW), rank() OVER (ORDER BY id)",
        "max(v) OVER (ORDER BY id RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
    ],
)
def test_what_neither_goes_on_from_a_state_nor_reads_near_rows_stays_whole(agree: Agree, calls: str) -> None:
    reason = "a function of this window cannot go on where the rows of another task ended"
    assert f"left alone: {reason}\n" in agree.auto(over(calls))


@pytest.mark.parametrize("name", ["totals below an order", "totals above an order"])
def test_totals_share_the_slices_of_an_order(agree: Agree, name: str) -> None:
    assert agree.auto(over(QUERIES[name])).count(" Window [") == 1


def test_a_window_that_reads_a_total_needs_it_first(agree: Agree) -> None:
    totals = "(SELECT *, sum(v) OVER () AS total FROM readings)"
    assert "SkewWindow []" in agree.auto(over("max(total) OVER (ORDER BY x)", totals))


FLOATS = [
    "sum(d) OVER (ORDER BY x)",
    "avg(d) OVER ()",
    "sum(d) OVER (ORDER BY x RANGE BETWEEN 2 PRECEDING AND 1 PRECEDING)",
]


@pytest.mark.parametrize("calls", FLOATS)
def test_sums_of_floats_run_in_slices_if_their_last_bits_may_differ(
    agree: Agree, with_conf: WithConf, calls: str
) -> None:
    assert "last bits of its sums" in agree.auto(over(calls))
    with with_conf({"spark.saltwise.window.floats": True}):
        assert "SkewWindow [" in agree.auto(over(calls))


def test_an_average_that_loses_bits_loses_those_that_stock_loses(
    agree: Agree, with_conf: WithConf, metric_that_ran: Callable[[str], int]
) -> None:
    agree.auto(over("avg(id * 1000003 + 9007199254740993) OVER (ORDER BY id)"))
    assert metric_that_ran("slices") == 1


def test_a_frame_whose_sums_are_just_not_too_large_is_no_error(agree: Agree, with_conf: WithConf) -> None:
    values = "IF(id % 2 = 0, -9223372036854775000, 9223372036854775000)"
    with with_conf({"spark.sql.ansi.enabled": True}):
        plan = agree.auto(over(f"sum({values}) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING)"))
    assert "SkewWindow [" in plan


def test_rows_that_are_too_wide_for_the_driver_go_to_one_task(
    agree: Agree, metric_that_ran: Callable[[str], int]
) -> None:
    wide = "(SELECT id, v, repeat(s, 10000) AS s FROM readings WHERE id < 600)"
    agree.auto(over("lag(v, 100) OVER (ORDER BY id), max(s) OVER (ORDER BY id ROWS 100 PRECEDING) = s", wide))
    assert metric_that_ran("slices") == 1


@settings(max_examples=25)
@given(
    by=st.sampled_from(["x, id", "g DESC NULLS LAST, id", "s, id DESC", "d, s, id"]),
    frame=FRAMES,
    rows=st.sampled_from([1, 2, 37, 900]),
)
def test_in_any_frame_the_answers_are_the_same(agree: Agree, by: str, frame: list[int], rows: int) -> None:
    rows_near = f"ROWS BETWEEN {ends(*frame)}"
    calls = f"lag(v, {frame[0]}) OVER (ORDER BY {by}), sum(d) OVER (ORDER BY {by} {rows_near}), max(s) OVER (ORDER BY {by} {rows_near})"
    agree.auto(over(calls, f"readings WHERE id < {rows}"))


@settings(max_examples=25)
@given(
    key=st.sampled_from(["", "PARTITION BY h ", "PARTITION BY g "]),
    by=st.sampled_from(["x", "x DESC", "day", "CAST(g AS SMALLINT) DESC NULLS FIRST", "IF(x > 650, x * 1000, x)"]),
    frame=FRAMES,
    rows=st.sampled_from([1, 37, 900, 6000]),
)
def test_in_any_range_the_answers_are_the_same(agree: Agree, key: str, by: str, frame: list[int], rows: int) -> None:
    window = f"OVER ({key}ORDER BY {by} RANGE BETWEEN {ends(*frame)})"
    agree.auto(over(f"sum(v) {window}, max(s) {window}, count(g) {window}", f"readings WHERE id < {rows}"))


def test_an_order_that_is_a_constant_stays_whole(agree: Agree) -> None:
    plan = agree.auto(over("count(*) OVER (ORDER BY 1), rank() OVER (ORDER BY 1)"))
    assert "left alone: its order is a constant, so all rows are equal\n" in plan


def test_values_of_chance_are_not_computed_twice(agree: Agree) -> None:
    chance = "(SELECT *, CAST(rand(3) * 100 AS INT) AS r FROM readings)"
    plan = agree.auto(over("sum(r) OVER ()", chance))
    assert "left alone: a second pass may find its rows in another order, or other values\n" in plan
    assert "SkewWindow [" in agree.auto(over("sum(r) OVER (ORDER BY id)", chance))


def test_two_cores_do_not_sort_twice(agree: Agree, with_conf: WithConf) -> None:
    with with_conf({"spark.sql.leafNodeDefaultParallelism": 2}):
        plan = agree.auto(over(QUERIES["dense_rank"]) + " -- two cores")
    assert "left alone: to count the values of its order takes a second sort" in plan


def test_without_adaptive_execution_rows_are_not_computed_twice(agree: Agree, with_conf: WithConf) -> None:
    with with_conf({"spark.sql.adaptive.enabled": False}):
        plan = agree.auto(
            "SELECT x, n, rank() OVER (ORDER BY n) FROM (SELECT x, count(*) AS n FROM readings GROUP BY x)"
        )
    assert "left alone: a pass over its order would compute its rows a second time; cache them first\n" in plan


@pytest.mark.parametrize(
    "conf", [{"spark.saltwise.window.slices": False}, {"spark.saltwise.auto.smallInput": "1g"}], ids=["off", "small"]
)
def test_a_window_stays_as_it_is_with(spark: SparkSession, with_conf: WithConf, conf: dict[str, Any]) -> None:
    with with_conf(conf):
        assert "SkewWindow" not in explain(spark, over(QUERIES["rank"])).ours


@pytest.mark.parametrize("name", ["all ranks", "totals beside running sums", "totals", "short frames"])
def test_without_adaptive_execution_the_answers_are_the_same(agree: Agree, with_conf: WithConf, name: str) -> None:
    with with_conf({"spark.sql.adaptive.enabled": False}):
        assert "SkewWindow [" in agree.auto(over(QUERIES[name]) + " -- not adaptive")


@pytest.mark.parametrize(
    "calls",
    [
        # The sum of the last rows alone is too large, and so is that of all rows but the first.
        "sum(CASE WHEN id = 0 THEN -9223372036854775000 WHEN id > 5997 THEN 4611686018427388000 ELSE 1 END) "
        "OVER (ORDER BY id)",
        f"sum(CASE WHEN id = 0 THEN -9223372036854775000 WHEN id > 5997 THEN 4611686018427388000 ELSE 1 END) "
        f"OVER (ORDER BY id {WHOLE})",
        "sum(CASE WHEN id % 3000 = 0 THEN -9223372036854775000 WHEN id % 3000 = 1 THEN 9223372036854775000 END) OVER ()",
    ],
    ids=["running", "of all", "without an order"],
)
def test_a_sum_that_overflows_in_a_slice_alone_is_no_error(agree: Agree, with_conf: WithConf, calls: str) -> None:
    with with_conf({"spark.sql.ansi.enabled": True}):
        assert "SkewWindow [" in agree.auto(over(calls))


@pytest.mark.parametrize(
    "calls",
    [
        "sum(10 / (v - 5)) OVER (ORDER BY id)",
        "max(10 / (v - 5)) OVER (ORDER BY id)",
        "sum(id + 9223372036854770000) OVER (ORDER BY id ROWS 2 PRECEDING)",
    ],
)
def test_an_error_is_that_of_spark(spark: SparkSession, with_conf: WithConf, calls: str) -> None:
    raised = []
    for enabled in (False, True):
        with (
            with_conf({"spark.sql.ansi.enabled": True, "spark.saltwise.enabled": enabled}),
            pytest.raises(PySparkException) as error,
        ):
            spark.sql(over(calls)).collect()
        raised.append(str(error.value).split("]")[0])
    assert raised[0] == raised[1]


def test_slices_have_about_as_many_rows_as_each_other(
    agree: Agree, with_conf: WithConf, metric_that_ran: Callable[[str], int]
) -> None:
    agree.auto(over("row_number() OVER (ORDER BY x, id)") + " -- slices")
    slices, longest = metric_that_ran("slices"), metric_that_ran("rows of the longest slice")
    assert slices == 4
    assert longest < 1.5 * 6000 / slices


def test_explain_says_that_a_window_runs_in_slices(spark: SparkSession) -> None:
    assert explain(spark, over(QUERIES["rank"])).reason == (
        "Rewritten: a window without PARTITION BY runs in slices, each on its own task."
    )


@pytest.mark.classic("look at a plan")
def test_advise_knows_the_functions_that_run_in_slices(spark: SparkSession) -> None:
    found = set()
    # A short frame may have any aggregate.
    for calls in {**QUERIES, "short frames": "count(*) OVER (ORDER BY id)"}.values():
        plan = spark.sql(over(calls))._jdf.queryExecution().sparkPlan().toString()
        for line in re.findall(r"Window \[.*", plan):
            found |= set(functions_of(PlanNode("Window", line, frozenset(), ())))
    assert found == SLICED


@pytest.mark.parametrize("call", ["cumsum", "cummax", "rank", "shift", "diff", "reset_index"])
def test_pandas_on_spark_gains_without_a_change_of_code(
    agree: Agree, metric_that_ran: Callable[[str], int], call: str
) -> None:
    def called(session: SparkSession) -> Any:
        frame = session.table("readings").pandas_api(index_col="id")
        return getattr(frame[["v"]], call)().to_spark(index_col="n")

    ps = pytest.importorskip("pyspark.pandas")
    # reset_index makes the default index. If that is to have no gaps, it takes a window.
    with ps.option_context("compute.default_index_type", "sequence"):
        assert "SkewWindow [" in agree.auto(called)
    assert metric_that_ran("slices") > 1
