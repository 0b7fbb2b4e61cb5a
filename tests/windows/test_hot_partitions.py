"""The hot keys of a window with PARTITION BY run in slices, and the answers are those of stock Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.windows.readings import ORDERS, QUERIES, over

if TYPE_CHECKING:
    from tests.agree import Agree, WithConf

Ran = Callable[[str], str]
EVERYWHERE = {"row_number", "all ranks", "a running sum", "running extremes", "totals", "lag and lead", "short frames"}
WHOLE = {"running counts", "an order of one value", "nulls alone"}
"""Functions in two orders, of which the second one needs the rows by key, and orders with one value."""
MANY_TASKS = {
    "spark.saltwise.auto.smallInput": 0,
    "spark.sql.adaptive.coalescePartitions.enabled": False,
    # Two cores leave dense_rank alone.
    "spark.sql.leafNodeDefaultParallelism": 3,
}


@pytest.fixture(scope="module", autouse=True)
def sliced(readings: None, with_conf: WithConf) -> Iterator[None]:
    with with_conf(MANY_TASKS):
        yield


@pytest.fixture
def ran(agree: Agree, plan_that_ran: Callable[[], str]) -> Callable[[str], str]:
    """Compares auto with stock Spark, and returns the plan that auto came to."""

    def plan(query: str) -> str:
        assert "SkewWindow samples its keys" in agree.auto(query)
        return plan_that_ran()

    return plan


def by(key: str, calls: str) -> str:
    """Put PARTITION BY into each of the calls."""
    return calls.replace("OVER (", f"OVER (PARTITION BY {key} ")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.smoke] if name in EVERYWHERE else [])
        for name in QUERIES
        if name not in WHOLE
    ],
)
def test_hot_keys_in_slices_give_the_same_answers(ran: Ran, name: str) -> None:
    plan = ran(over(by("h", QUERIES[name])))
    assert "slices of 1 keys" in plan or "slices of a range of hot keys" in plan


@pytest.mark.parametrize(
    ("key", "keys"),
    [
        ("IF(h = 7, NULL, h)", 1),
        ("IF(h = 7, DOUBLE('NaN'), IF(h % 2 = 0, 0D, -0D))", 2),
        ("IF(id % 10 < 4, 'one', IF(id % 10 < 8, 'other', s))", 2),
        ("h, id % 10 = 0", 1),
        ("named_struct('a', h, 'b', CAST(h AS STRING))", 1),
        ("IF(h = 7, 7, id)", 1),
        ("1 + h * 0 + id * 0", 1),
    ],
    ids=["NULL", "NaN and -0.0", "two keys", "two columns", "a struct", "keys with one row", "one key"],
)
def test_keys_of_every_kind_run_in_slices(ran: Ran, key: str, keys: int) -> None:
    calls = "rank() OVER (ORDER BY x), sum(v) OVER (ORDER BY x), percent_rank() OVER (ORDER BY x)"
    assert f"slices of {keys} keys" in ran(over(by(key, calls)))
    assert f"slices of {keys} keys" in ran(over(by(key, "sum(v) OVER (), min(d) OVER (), count(g) OVER ()")))
    assert f"slices of {keys} keys" in ran(over(by(key, "lag(v) OVER (ORDER BY x, id)")))


@pytest.mark.parametrize(
    "query",
    [
        over("rank() OVER (PARTITION BY h ORDER BY x) AS r") + " ORDER BY id LIMIT 100",
        "SELECT g, count(*), max(r) FROM (SELECT *, rank() OVER (PARTITION BY h ORDER BY x) AS r FROM readings) GROUP BY g",
        "SELECT id, r FROM (SELECT *, rank() OVER (PARTITION BY h ORDER BY x) AS r FROM readings) WHERE r % 2 = 0",
        over("sum(v) OVER (PARTITION BY h ORDER BY x)", "(SELECT * FROM readings UNION ALL TABLE readings)"),
        over(
            "sum(v) OVER (PARTITION BY h ORDER BY x)", "(SELECT * FROM readings JOIN range(0, 9000, 2, 3) USING (id))"
        ),
        "SELECT id, r, n FROM (SELECT id, rank() OVER (PARTITION BY h ORDER BY x) AS r FROM readings) "
        "JOIN (SELECT id, sum(v) OVER (PARTITION BY h ORDER BY id) AS n FROM readings) USING (id)",
        "SELECT id, rank() OVER (PARTITION BY h ORDER BY x), sum(v) OVER (PARTITION BY g ORDER BY id) FROM readings",
        "SELECT id, (SELECT max(r) FROM (SELECT rank() OVER (PARTITION BY h ORDER BY x) AS r FROM readings)) FROM readings",
        over("count(*) OVER (PARTITION BY h)", "(SELECT h, count(*) AS id FROM readings GROUP BY h, readings.id)"),
    ],
    ids=[
        "a limit",
        "a group by",
        "a filter",
        "a union",
        "rows of a join",
        "a join",
        "other windows",
        "a subquery",
        "groups",
    ],
)
def test_whatever_is_around_it_the_answers_are_the_same(ran: Ran, query: str) -> None:
    assert "slices of 1 keys" in ran(query)


@pytest.mark.parametrize(
    "query",
    [
        over(by("h", QUERIES["running counts"])),
        "SELECT h, max(r) FROM (SELECT h, rank() OVER (PARTITION BY h ORDER BY x) AS r FROM readings) GROUP BY h",
    ],
    ids=["another window", "a group by"],
)
def test_where_an_operator_above_needs_rows_by_key_they_stay(ran: Ran, query: str) -> None:
    assert "SkewWindow [" not in ran(query)


@pytest.mark.parametrize("name", ["all ranks", "totals", "totals below an order", "near rows beside ranks", "ranges"])
def test_the_rows_of_a_join_have_one_key_where_there_is_none(ran: Ran, name: str) -> None:
    plan = ran(over(QUERIES[name], "(SELECT a.* FROM readings a JOIN readings b USING (id))"))
    assert "slices of 1 keys" in plan or "slices of a range of hot keys" in plan


def test_the_rows_of_an_aggregate_have_one_key_where_there_is_none(ran: Ran) -> None:
    groups = "(SELECT x AS id, count(*) AS n, max(v) AS v FROM readings GROUP BY x)"
    assert "slices of 1 keys" in ran(over("rank() OVER (ORDER BY n), sum(v) OVER (ORDER BY n)", groups))


def test_the_rows_of_a_join_are_not_shuffled_for_each_of_two_orders(agree: Agree) -> None:
    """The row numbers of rows that tie would depend on the run, and other tasks might see those of another run."""
    rows = "(SELECT a.* FROM readings a JOIN readings b USING (id))"
    plan = agree.auto(
        f"SELECT sum(m - n), sum(n) FROM ({over('row_number() OVER (ORDER BY x, id) AS n, rank() OVER (ORDER BY id) AS m', rows)})"
    )
    assert "a window above it needs all rows in one task" in plan
    assert "SkewWindow" not in plan


def test_keys_that_are_not_hot_stay_whole(ran: Ran) -> None:
    assert "SkewWindow [" not in ran(over("rank() OVER (PARTITION BY id % 300 ORDER BY x)"))


@pytest.mark.parametrize("name", ["an order of one value", "nulls alone"])
def test_a_key_with_one_value_of_its_order_stays_whole(ran: Ran, name: str) -> None:
    assert "SkewWindow [" not in ran(over(by("h", QUERIES[name])))


def test_a_small_input_stays_whole(spark: SparkSession, with_conf: WithConf, plan_that_ran: Callable[[], str]) -> None:
    with with_conf({"spark.saltwise.enabled": True, "spark.saltwise.auto.smallInput": "10m"}):
        spark.sql(over("rank() OVER (PARTITION BY h ORDER BY x)")).collect()
    assert "SkewWindow [" not in plan_that_ran()


@pytest.mark.parametrize(
    ("calls", "reason"),
    [
        ("sum(d) OVER (PARTITION BY h ORDER BY id)", "the last bits of its sums"),
        ("stddev(v) OVER (PARTITION BY h)", "a function of this window cannot go on"),
        ("sum(v) OVER (PARTITION BY h ORDER BY CAST(rand(3) * 9 AS INT))", "may differ when a task runs again"),
    ],
)
def test_what_cannot_run_in_slices_says_why(agree: Agree, calls: str, reason: str) -> None:
    assert reason in agree.auto(over(calls))


def test_only_the_rows_of_hot_keys_are_in_slices(
    agree: Agree, spark: SparkSession, metric_that_ran: Callable[[str], int]
) -> None:
    hot = spark.sql("SELECT * FROM readings WHERE h = 7").count()
    agree.auto(over("row_number() OVER (PARTITION BY h ORDER BY x, id)"))
    assert metric_that_ran("rows") == hot
    assert 3 <= metric_that_ran("slices") <= 4


def test_an_overflow_is_raised_where_stock_raises_it_and_only_there(ran: Ran, with_conf: WithConf) -> None:
    values = "IF(id % 10 < 6, IF(id % 2 = 0, -9223372036854775000, 9223372036854775000), 0)"
    with with_conf({"spark.sql.ansi.enabled": True}):
        plan = ran(over(f"sum({values}) OVER (PARTITION BY h ORDER BY id)"))
    assert "slices of 1 keys" in plan


@settings(max_examples=25)
@given(
    key=st.sampled_from(["h", "h, t", "g", "IF(h = 7, 'a', s)", "IF(x < 350, -1, d)"]),
    order=ORDERS,
    rows=st.sampled_from([1, 2, 37, 900, 6000]),
)
def test_for_any_keys_and_order_the_answers_are_the_same(agree: Agree, key: str, order: str, rows: int) -> None:
    window = f"OVER (PARTITION BY {key} ORDER BY {order})"
    calls = ["rank()", "dense_rank()", "cume_dist()", "percent_rank()", "sum(v)", "count(g)", "max(d)"]
    agree.auto(over(", ".join(f"{call} {window}" for call in calls), f"readings WHERE id < {rows}"))
