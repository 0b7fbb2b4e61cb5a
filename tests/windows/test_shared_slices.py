"""Windows over the same keys and the same order share slices, and the answers are those of stock Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.agree import Agree, WithConf

SESSIONS = """
    SELECT id, sum(starts) OVER ({keys} ORDER BY x, id) AS session
    FROM (SELECT *, IF(x - lag(x) OVER ({keys} ORDER BY x, id) > 0, 1, 0) AS starts FROM readings)"""
STACKS = {
    "sessions": SESSIONS,
    "a filter between": """
        SELECT id, row_number() OVER ({keys} ORDER BY x, id) AS n, lag(place) OVER ({keys} ORDER BY x, id) AS before
        FROM (SELECT *, rank() OVER ({keys} ORDER BY x, id) AS place FROM readings) WHERE place % 3 = 0""",
    "three": """
        SELECT id, max(session) OVER ({keys} ORDER BY x, id ROWS BETWEEN 2 PRECEDING AND 5 FOLLOWING) AS near
        FROM (SELECT *, sum(starts) OVER ({keys} ORDER BY x, id) AS session
              FROM (SELECT *, IF(v > lead(v) OVER ({keys} ORDER BY x, id), 1, 0) AS starts FROM readings))""",
    "ties": """
        SELECT id, sum(place) OVER ({keys} ORDER BY s) AS total, first_value(s) OVER ({keys} ORDER BY s) AS first
        FROM (SELECT *, rank() OVER ({keys} ORDER BY s) AS place FROM readings)""",
    "few rows left": """
        SELECT id, count(*) OVER ({keys} ORDER BY x, id) AS n
        FROM (SELECT *, row_number() OVER ({keys} ORDER BY x, id) AS place FROM readings) WHERE place IN (2, 3, 1700)""",
}


@pytest.fixture(scope="module", autouse=True)
def sliced(readings: None, with_conf: WithConf) -> Iterator[None]:
    confs = {
        "spark.saltwise.auto.smallInput": 0,
        "spark.sql.adaptive.coalescePartitions.enabled": False,
        # Two cores leave stacks alone.
        "spark.sql.leafNodeDefaultParallelism": 3,
    }
    with with_conf(confs):
        yield


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.smoke] * (name == "sessions")) for name in STACKS]
)
def test_windows_over_all_rows_share_slices(agree: Agree, name: str) -> None:
    plan = agree.auto(STACKS[name].format(keys=""))
    assert plan.count("SkewWindow [") == STACKS[name].count("SELECT")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.smoke] * (name == "sessions")) for name in STACKS]
)
def test_windows_of_a_hot_key_share_slices(agree: Agree, plan_that_ran: Callable[[], str], name: str) -> None:
    agree.auto(STACKS[name].format(keys="PARTITION BY h"))
    plan = plan_that_ran()
    assert plan.count("slices of 1 keys") == plan.count("SkewWindow [") > 1


def test_a_window_below_one_that_needs_one_task_stays_there(agree: Agree) -> None:
    plan = agree.auto("""
        SELECT id, last_value(before) IGNORE NULLS OVER (ORDER BY id) AS last
        FROM (SELECT id, lag(g) OVER (ORDER BY id) AS before FROM readings)""")
    assert "a window above it needs all rows in one task" in plan
    assert "SkewWindow [" not in plan
    assert plan.count("Exchange") == 1


def test_two_cores_do_not_shuffle_twice(agree: Agree, with_conf: WithConf) -> None:
    with with_conf({"spark.sql.leafNodeDefaultParallelism": 2}):
        assert "SkewWindow [" not in agree.auto(SESSIONS.format(keys="") + " -- two cores")


def test_rows_that_may_differ_when_a_task_runs_again_are_not_shared(agree: Agree) -> None:
    rows = "(SELECT *, CAST(rand(3) * 0 AS INT) AS zero FROM readings)"
    plan = agree.auto(SESSIONS.format(keys="").replace("readings", rows).replace("1, 0)", "1, zero)"))
    assert "a window above it needs all rows in one task" in plan


def test_a_window_in_another_order_gathers_the_rows_of_the_slices(agree: Agree) -> None:
    plan = agree.auto("""
        SELECT id, rank() OVER (ORDER BY v, id) AS other
        FROM (SELECT *, lag(v) OVER (ORDER BY id) AS before FROM readings)""")
    assert plan.count("SkewWindow [") == 1


def test_rows_that_tie_keep_one_order_in_all_windows(agree: Agree) -> None:
    """A sum by rows of what row_number counted is that of 1, 2, 3 and so on, in whatever order ties come."""
    for keys in ("", "PARTITION BY h"):
        agree.auto(f"""
            SELECT sum(n * (n + 1) DIV 2 - total) AS off, count(*) AS rows
            FROM (SELECT n, sum(n) OVER ({keys} ORDER BY s ROWS UNBOUNDED PRECEDING) AS total
                  FROM (SELECT *, row_number() OVER ({keys} ORDER BY s) AS n FROM readings))""")
