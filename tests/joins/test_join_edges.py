"""Aggregates over joins at the edges: subqueries, joins and repartitions above, and shuffles that several joins share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.agree import Agree, WithConf
    from tests.joins.conftest import Ran

L = "l AS (SELECT id % 7 AS k, id % 5 AS g, id AS v FROM range(0, 20000, 1, 2))"
R = "r AS (SELECT id AS k, id % 3 AS c FROM range(0, 7, 1, 2))"
A = "a AS (SELECT id % 50 AS k, id % 7 AS g, id AS v FROM range(0, 20000, 1, 2))"
B = "b AS (SELECT id AS k, id + 1 AS w FROM range(0, 50, 1, 2))"
PRODUCTS = "SELECT a.k, a.g, sum(a.v * b.w) AS s FROM a JOIN b ON a.k = b.k GROUP BY a.k, a.g"


@pytest.fixture(scope="module", autouse=True)
def shuffled(with_conf: WithConf) -> Iterator[None]:
    with with_conf(
        {
            "spark.saltwise.auto.smallInput": 0,
            "spark.sql.autoBroadcastJoinThreshold": -1,
            "spark.sql.shuffle.partitions": 4,
            "spark.sql.adaptive.coalescePartitions.enabled": False,
        }
    ):
        yield


SAME = {
    "a join above by more keys than the join below": (
        f"WITH {A}, {B}, c AS ({PRODUCTS}), d AS (SELECT k, g, max(v) AS m FROM a GROUP BY k, g) "
        "SELECT count(*), sum(c.s), sum(d.m) FROM c JOIN d ON c.k = d.k AND c.g = d.g"
    ),
    "a join above of sides with other numbers of partitions": (
        "WITH a AS (SELECT /*+ REPARTITION(10, k) */ id % 50 AS k, id AS v FROM range(0, 20000, 1, 2)), "
        "b AS (SELECT /*+ REPARTITION(10, k) */ id AS k, id + 1 AS w FROM range(0, 50, 1, 2)), "
        "c AS (SELECT a.k, sum(a.v * b.w) AS s FROM a JOIN b ON a.k = b.k GROUP BY a.k), "
        "d AS (SELECT id % 50 AS k, max(id) AS m FROM range(0, 20000, 1, 2) GROUP BY 1) "
        "SELECT c.k, c.s, d.m FROM c JOIN d ON c.k = d.k"
    ),
    "a repartition above by more keys than the join below": (
        f"WITH {A}, {B}, c AS ({PRODUCTS}) SELECT p, count(*), sum(s) FROM (SELECT spark_partition_id() AS p, s "
        "FROM (SELECT /*+ REPARTITION(4, k, g) */ k, g, s FROM c)) GROUP BY p"
    ),
    "a repartition above by the keys of the join": (
        f"WITH {A}, {B}, c AS ({PRODUCTS.replace('a.k, a.g,', 'a.k,').replace(', a.g', '')}) SELECT p, count(*), sum(s) "
        "FROM (SELECT spark_partition_id() AS p, s FROM (SELECT /*+ REPARTITION(4, k) */ k, s FROM c)) GROUP BY p"
    ),
    "a correlated count": (
        f"WITH {L}, {R} SELECT o.id, (SELECT count(*) FROM l JOIN r ON l.k = r.k WHERE r.c = o.id) FROM range(6) o"
    ),
    "a lateral join that drops an aggregate": (
        f"WITH {L}, {R} SELECT o.id, t.n FROM range(6) o, LATERAL (SELECT l.g, sum(l.v) AS s, count(*) AS n "
        "FROM l JOIN r ON l.k = r.k WHERE r.c = o.id GROUP BY l.g) t"
    ),
    "a subquery that exists": (
        f"WITH {L}, {R} SELECT o.id FROM range(6) o WHERE EXISTS "
        "(SELECT sum(l.v) FROM l JOIN r ON l.k = r.k WHERE r.c = o.id GROUP BY l.g)"
    ),
    "zeros of both signs among the keys of the groups": (
        "WITH a AS (SELECT id % 50 AS k, IF((id div 50) % 2 = 0, -0D, 0D) AS f, id AS v FROM range(0, 20000, 1, 2)), "
        f"{B} SELECT a.k, a.f, sum(a.v * b.w), count(*) FROM a JOIN b ON a.k = b.k GROUP BY a.k, a.f"
    ),
    "zeros in structs, in a plan that sorts": (
        "WITH a AS (SELECT id % 50 AS k, named_struct('f', IF((id div 50) % 2 = 0, -0D, 0D)) AS f, CAST(id AS STRING) AS v "
        f"FROM range(0, 20000, 1, 2)), {B} "
        "SELECT a.k, a.f, max(concat(a.v, b.w)) FROM a JOIN b ON a.k = b.k GROUP BY a.k, a.f"
    ),
    "a subquery with a list": (
        f"WITH {L}, {R} SELECT o.id FROM range(6) o WHERE o.id IN "
        "(SELECT count(*) % 6 FROM l JOIN r ON l.k = r.k GROUP BY r.c, l.g)"
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_at_the_edges_joins_give_the_same_answers(agree: Agree, name: str) -> None:
    agree.auto(SAME[name])


def combined(plan: str) -> int:
    return plan.count(", below a join")


JOINED = "FROM l JOIN r ON l.k = r.k"
UNION = f"WITH {L}, {R} SELECT c, v, count(*) {JOINED} GROUP BY c, v UNION ALL SELECT c, max(v), 0 {JOINED} GROUP BY c"
ABOVE_MEAN = f"WITH {L}, {R} SELECT c, sum(v) {JOINED} GROUP BY c HAVING sum(v) > (SELECT avg(v) {JOINED})"
TWICE = f"WITH {L}, {R} SELECT c, sum(v) {JOINED} GROUP BY c UNION ALL SELECT c, {{}} {JOINED} GROUP BY c"


@pytest.mark.parametrize(
    ("query", "times"),
    [
        (TWICE.format("max(v)"), 0),
        (TWICE.format("max(v)").replace("max(v) FROM l JOIN", "max(v) FROM (SELECT * FROM l WHERE v > 9) l JOIN"), 2),
        (UNION, 0),
        (ABOVE_MEAN, 0),
        (f"WITH {L}, {R} SELECT c, sum(l.v) {JOINED} JOIN l AS m ON l.k = m.k AND m.v < 9 GROUP BY c", 1),
    ],
    ids=["other functions", "other rows", "the other side", "a subquery", "a join with itself"],
)
def test_a_shuffle_that_two_joins_share_stays_one(agree: Agree, ran: Ran, query: str, times: int) -> None:
    plan = agree.auto(query)
    assert combined(plan) == times
    assert ran(query).count("ReusedExchange") == ran(query, enabled=False).count("ReusedExchange")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT /*+ REPARTITION(4, k) */ k, sum(n) FROM (SELECT k, g, size(collect_list(v)) AS n FROM "
        "(SELECT id % 50 AS k, id % 7 AS g, id AS v FROM range(0, 20000, 1, 2)) GROUP BY k, g) GROUP BY k",
        f"WITH {A}, {B} SELECT /*+ REPARTITION(4, kk) */ kk, s FROM "
        "(SELECT a.k AS kk, sum(a.v * b.w) AS s FROM a JOIN b ON a.k = b.k GROUP BY a.k)",
        f"WITH {A}, {B}, c AS (SELECT id AS k, id % 3 AS c FROM range(0, 50, 1, 2)) "
        "SELECT c.c, sum(a.v * b.w), count(b.k), max(b.k) FROM a JOIN b ON a.k = b.k JOIN c ON a.k = c.k GROUP BY c.c",
    ],
    ids=["a repartition above two aggregates", "a repartition by another name", "a join of a join"],
)
def test_there_is_no_exchange_more(agree: Agree, ran: Ran, query: str) -> None:
    agree.auto(query)
    ours, stock = (shuffles(ran(query, enabled)) for enabled in (True, False))
    assert ours == stock


def shuffles(plan: str) -> int:
    """Count the exchanges of rows, without those of states that split a skewed partition."""
    return plan.count("Exchange hashpartitioning") - plan.count("ReusedExchange")


def test_subqueries_that_spark_makes_one_stay_one(agree: Agree, ran: Ran) -> None:
    query = f"WITH {L}, {R} SELECT (SELECT sum(v) {JOINED} WHERE c = 1), (SELECT max(v) {JOINED} WHERE c = 1)"
    plan = agree.auto(query)
    assert combined(plan) > 0
    assert ran(query).count("Exchange hashpartitioning") == ran(query, enabled=False).count("Exchange hashpartitioning")


def test_an_even_join_with_texts_is_not_sorted_twice(agree: Agree, ran: Ran) -> None:
    query = (
        f"WITH {A}, {B} SELECT a.k, max(concat(CAST(a.v AS STRING), CAST(b.w AS STRING))) FROM a JOIN b ON a.k = b.k "
        "GROUP BY a.k"
    )
    agree.auto(query)
    ours, stock = (ran(query, enabled) for enabled in (True, False))
    assert ours.count("Sort [") == stock.count("Sort [")
