"""A skewed join below an aggregate by its keys is split by Spark, and an even one keeps its plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.agree import Agree, WithConf
    from tests.joins.conftest import Ran, Tables

EVEN = "no partition of the join below is skewed, and its rows are grouped by key"
SKEWED = {
    "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "20k",
    "spark.sql.adaptive.skewJoin.skewedPartitionFactor": 1.5,
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "10k",
}
QUERIES = {
    "inner": "SELECT a.k, sum(a.v * b.w), count(*), max(b.w) FROM a JOIN b ON a.k = b.k GROUP BY a.k",
    "the other key": "SELECT b.k, sum(a.v * b.w) FROM a JOIN b ON a.k = b.k GROUP BY b.k",
    "more keys": "SELECT a.k, b.w, sum(a.v + b.w) FROM a JOIN b ON a.k = b.k GROUP BY a.k, b.w",
    "objects": "SELECT a.k, sort_array(collect_set(a.v + b.w)), percentile(a.v - b.w, 0.5) FROM a JOIN b ON a.k = b.k "
    "GROUP BY a.k",
    "texts": "SELECT a.k, max(concat(a.s, b.w)) FROM a JOIN b ON a.k = b.k GROUP BY a.k",
    "left outer": "SELECT a.k, sum(a.v + b.w), count(b.w), count(*) FROM a LEFT JOIN b ON a.k = b.k GROUP BY a.k",
    "right outer": "SELECT a.k, sum(a.v + b.w), count(b.w) FROM b RIGHT JOIN a ON a.k = b.k GROUP BY a.k",
    "having": "SELECT a.k, sum(a.v + b.w) FROM a JOIN b ON a.k = b.k GROUP BY a.k HAVING count(*) > 100",
    "an order above": "SELECT a.k, sum(a.v + b.w) AS n FROM a JOIN b ON a.k = b.k GROUP BY a.k ORDER BY n, k LIMIT 7",
    "a join above": "SELECT c.k, n, m FROM (SELECT a.k, sum(a.v + b.w) AS n FROM a JOIN b ON a.k = b.k GROUP BY a.k) c "
    "JOIN (SELECT k, max(w) AS m FROM b GROUP BY k) d ON c.k = d.k",
}


@pytest.fixture(scope="module", autouse=True)
def tables(shuffled_tables: Tables) -> Iterator[None]:
    views = {
        "a": "SELECT IF(id % 10 < 6, 7, pmod(xxhash64(id), 900)) AS k, pmod(xxhash64(id, 1), 1000000) AS v, "
        "CAST(id % 97 AS STRING) AS s FROM range(0, 40000, 1, 4)",
        "b": "SELECT id % 900 AS k, id AS w FROM range(0, 1200, 1, 2)",
    }
    with shuffled_tables(views):
        yield


def exchanges(plan: str) -> int:
    return plan.count("- Exchange ")


EVERYWHERE = {"inner", "objects", "left outer"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.smoke] if name in EVERYWHERE else []) for name in QUERIES]
)
def test_a_skewed_join_below_an_aggregate_is_split(
    agree: Agree, with_conf: WithConf, plan_that_ran: Callable[[], str], name: str
) -> None:
    with with_conf(SKEWED):
        agree.auto(QUERIES[name] + " -- skewed")
        plan = plan_that_ran()
    assert "SkewJoinSplit auto" in plan
    assert "SortMergeJoin(skew=true)" in plan


@pytest.mark.parametrize("name", [name for name in QUERIES if name != "a join above"])
def test_an_even_join_keeps_its_plan(agree: Agree, plan_that_ran: Callable[[], str], name: str) -> None:
    agree.stock(QUERIES[name])
    stock = plan_that_ran()
    agree.auto(QUERIES[name])
    plan = plan_that_ran()
    assert EVEN in plan
    assert exchanges(plan) == exchanges(stock)


@pytest.mark.parametrize("conf", [{"spark.saltwise.join.split": False}, {"spark.saltwise.auto.smallInput": "1g"}])
def test_a_skewed_join_stays_as_it_is_with(with_conf: WithConf, ran: Ran, conf: dict[str, object]) -> None:
    with with_conf({**SKEWED, **conf}):
        assert "skew=true" not in ran(QUERIES["inner"])


def test_without_adaptive_execution_nothing_is_marked(agree: Agree, with_conf: WithConf) -> None:
    with with_conf({"spark.sql.adaptive.enabled": False}):
        agree.auto(QUERIES["inner"] + " -- not adaptive")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT b.w, sum(a.v + b.w) FROM a JOIN b ON a.k = b.k GROUP BY b.w",
        "SELECT b.k, sum(a.v + b.w) FROM a LEFT JOIN b ON a.k = b.k GROUP BY b.k",
        "SELECT a.k, sum(a.v + b.w) FROM a FULL JOIN b ON a.k = b.k GROUP BY a.k",
        "SELECT a.k, sum(a.v) FROM a JOIN b ON a.k = b.k GROUP BY a.k",
    ],
    ids=["another key", "the key with NULLs", "a full join", "combined below"],
)
def test_what_needs_no_split_is_not_marked(agree: Agree, with_conf: WithConf, query: str) -> None:
    with with_conf(SKEWED):
        assert "SkewJoinSplit" not in agree.auto(query + " -- skewed")
