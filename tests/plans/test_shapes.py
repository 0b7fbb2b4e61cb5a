"""Queries of every shape around an aggregate give stock answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.plans.events import all_but, pairs

if TYPE_CHECKING:
    from tests.agree import Agree

pytestmark = pytest.mark.usefixtures("events")

SHAPES = {
    "filter": (
        "SELECT k, sum(d) FILTER (WHERE i > 0), count(*) FILTER (WHERE t), max(s) FILTER (WHERE false), "
        "array_sort(collect_list(i) FILTER (WHERE d < 9)) FROM events GROUP BY k",
        1,
    ),
    "having": ("SELECT k, sum(d) FROM events GROUP BY k HAVING count(i) > 20 AND max(s) < 'FF'", 1),
    "rollup": ("SELECT k, t, grouping(t), sum(d), count(*) FROM events GROUP BY ROLLUP (k, t)", 1),
    "cube": ("SELECT k, t, grouping_id(), array_sort(collect_list(i)) FROM events GROUP BY CUBE (k, t)", 1),
    "grouping sets": (
        "SELECT k, t, i % 3, sum(d) FILTER (WHERE i > 0) FROM events GROUP BY GROUPING SETS ((k, t), (k), (i % 3), ())",
        1,
    ),
    "rollup and plain keys": ("SELECT k, t, i % 2, count(*) FROM events GROUP BY k, ROLLUP (t, i % 2) HAVING k > 0", 1),
    "rollup over a column gid": ("SELECT gid, count(*) FROM (SELECT k AS gid FROM events) GROUP BY ROLLUP (gid)", 1),
    "group by all": ("SELECT k, t, k + 1, sum(d), count(*) / 2 FROM events GROUP BY ALL", 1),
    "ordinals": ("SELECT t, k, sum(d) FROM events GROUP BY 2, 1", 1),
    "alias": ("SELECT k % 3 AS third, sum(d) FROM events GROUP BY third", 1),
    "no keys in the result": ("SELECT sum(d), count(*) FROM events GROUP BY k", 1),
    "expressions over aggregates": (
        "SELECT k + count(*), sum(i) / count(i), CASE WHEN max(d) > 30 THEN 'high' END, "
        "concat_ws(',', array_sort(collect_set(s))) FROM events GROUP BY k",
        1,
    ),
    "expressions below aggregates": (
        "SELECT k, sum(i * 2 + 1), max(upper(s) || k), sum(CASE WHEN t THEN d END) FROM events GROUP BY k",
        1,
    ),
    "order and limit": ("SELECT k, sum(l) AS total FROM events GROUP BY k ORDER BY total DESC LIMIT 3", 1),
    "limit below": ("SELECT k, count(*) FROM (SELECT * FROM events ORDER BY id LIMIT 500) GROUP BY k", 1),
    "over an aggregate": (
        "SELECT c, count(*), sum(total) FROM "
        "(SELECT k, count(*) AS c, sum(i) AS total FROM events GROUP BY k) GROUP BY c",
        2,
    ),
    "over an aggregate by the same key": (
        "SELECT k, max(c), array_sort(collect_list(t)) FROM "
        "(SELECT k, t, count(*) AS c FROM events GROUP BY k, t) GROUP BY k",
        2,
    ),
    "over a global aggregate": ("SELECT c, sum(c) FROM (SELECT count(*) AS c FROM events) GROUP BY c", 1),
    "below a global aggregate": (
        "SELECT sum(c), max(m) FROM (SELECT k, count(*) AS c, max(s) AS m FROM events GROUP BY k)",
        1,
    ),
    "over a union": (
        "SELECT k, sum(n) FROM (SELECT k, i AS n FROM events UNION ALL SELECT i, k FROM events) GROUP BY k",
        1,
    ),
    "below a union": ("SELECT k, count(*) FROM events GROUP BY k UNION ALL SELECT i, sum(k) FROM events GROUP BY i", 2),
    "union by name": ("SELECT k, max(i) AS m FROM events GROUP BY k UNION SELECT k, min(i) FROM events GROUP BY k", 2),
    "over a broadcast join": (
        "SELECT /*+ BROADCAST(b) */ b.k, count(*), sum(a.d) FROM events a "
        "JOIN (SELECT DISTINCT k FROM events) b ON a.k = b.k GROUP BY b.k",
        1,
    ),
    "over a sort-merge join": (
        "SELECT /*+ MERGE(b) */ a.k, count(*), sum(b.l) FROM events a "
        "LEFT JOIN events b ON a.id = b.id + 1 GROUP BY a.k",
        1,
    ),
    "over a join by the group key": (
        "SELECT /*+ MERGE(b) */ a.k, count(*), array_sort(collect_list(a.i)) FROM events a "
        "JOIN (SELECT k FROM events GROUP BY k) b ON a.k = b.k GROUP BY a.k",
        1,
    ),
    "below a broadcast join": (
        "SELECT /*+ BROADCAST(b) */ a.id, b.total FROM events a "
        "JOIN (SELECT k, sum(d) AS total FROM events GROUP BY k) b ON a.k <=> b.k",
        1,
    ),
    "below a sort-merge join": (
        "SELECT /*+ MERGE(b) */ a.k, a.total, b.n FROM "
        "(SELECT k, sum(d) AS total FROM events GROUP BY k) a FULL OUTER JOIN "
        "(SELECT k, count(*) AS n FROM events WHERE t GROUP BY k) b ON a.k = b.k",
        2,
    ),
    "below a shuffled hash join": (
        "SELECT /*+ SHUFFLE_HASH(b) */ a.id, b.total FROM events a "
        "JOIN (SELECT k, array_sort(collect_list(i)) AS total FROM events GROUP BY k) b ON a.k = b.k",
        1,
    ),
    "joined with itself": (
        "WITH g AS (SELECT k, count(*) AS n FROM events GROUP BY k) "
        "SELECT a.k, a.n, b.n FROM g a JOIN g b ON a.n = b.n",
        None,
    ),
    "over a window": (
        "SELECT k, max(t) FROM (SELECT k, t, row_number() OVER (PARTITION BY t ORDER BY id) AS r FROM events) "
        "WHERE r < 9 GROUP BY k",
        1,
    ),
    "below a window": (
        "SELECT k, sum(d), rank() OVER (ORDER BY sum(d) DESC, k), sum(count(*)) OVER () FROM events GROUP BY k",
        1,
    ),
    "over distinct rows": (
        "SELECT k, array_sort(collect_list(i)) FROM (SELECT DISTINCT k, i, t FROM events) GROUP BY k",
        1,
    ),
    "over an explode": ("SELECT x, count(*), sum(d) FROM events LATERAL VIEW explode(a) AS x GROUP BY x", 1),
    "pivot": (
        "SELECT * FROM (SELECT k, t, d, i FROM events) "
        "PIVOT (sum(d) AS total, max(i) AS highest FOR t IN (true, false))",
        None,
    ),
    "cte": (
        "WITH few AS (SELECT k, d FROM events WHERE i > 0), g AS (SELECT k, sum(d) AS total FROM few GROUP BY k) "
        "SELECT * FROM g WHERE total > 3",
        1,
    ),
    "scalar subquery": (
        "SELECT k, count(*) FROM events WHERE i > (SELECT max(n) FROM "
        "(SELECT k, count(*) / 10 AS n FROM events GROUP BY k)) GROUP BY k",
        None,
    ),
    "correlated scalar subquery": (
        "SELECT id, (SELECT sum(e.d) FROM events e WHERE e.k = o.k) FROM events o WHERE id < 50",
        1,
    ),
    "in subquery": ("SELECT id FROM events WHERE k IN (SELECT k FROM events GROUP BY k HAVING count(*) > 50)", 1),
    "not in subquery": (
        "SELECT id FROM events WHERE i NOT IN (SELECT max(l) FROM events WHERE k IS NOT NULL GROUP BY k)",
        1,
    ),
    "exists subquery": (
        "SELECT o.id FROM events o WHERE EXISTS "
        "(SELECT sum(e.d) FROM events e WHERE e.k = o.k GROUP BY e.t HAVING sum(e.d) > 100)",
        1,
    ),
    "intersect all": ("SELECT k, i FROM events INTERSECT ALL SELECT i, k FROM events", None),
    "except all": ("SELECT k, t FROM events EXCEPT ALL SELECT k, t FROM events WHERE id < 300", None),
    "local rows": (
        "SELECT a, count(*), sum(b) FROM VALUES (1, 2), (1, NULL), (NULL, 3), (1, 5) AS v(a, b) GROUP BY a",
        1,
    ),
    "several aggregates in one query": (
        "SELECT (SELECT count(*) FROM (SELECT k, max(i) FROM events GROUP BY k)) AS groups, "
        "s.k, s.n, m.total FROM (SELECT k, count(*) AS n FROM events GROUP BY k) s "
        "JOIN (SELECT i, sum(d) AS total FROM events GROUP BY i) m ON s.n > m.i",
        None,
    ),
}
"""Each query, and how many of its aggregates are rewritten; None where that depends on the plan."""


@pytest.mark.parametrize(("shape", "plan"), pairs(SHAPES))
def test_query_shapes_give_the_same_answers(agree: Agree, shape: str, plan: str) -> None:
    query, routes = SHAPES[shape]

    # The other plans need no repeatable order of the rows, so they may rewrite more.
    agree(query, strategies=[plan], routes=routes if plan == "dchoices" else None)


@pytest.mark.full
@pytest.mark.parametrize("shape", SHAPES)
def test_query_shapes_give_the_same_answers_whatever_routes_them(agree: Agree, shape: str) -> None:
    query, routes = SHAPES[shape]

    agree(query, strategies=["shuffle", "pkg", "wchoices", "roundrobin"], routes=routes)


GROWING = [shape for shape, (query, _) in SHAPES.items() if "collect_" in query or "max(s)" in query]
"""Shapes with a state that grows: auto leaves the others to Spark."""


@pytest.mark.parametrize("shape", all_but(GROWING, SHAPES))
def test_query_shapes_give_the_same_answers_under_auto(agree: Agree, shape: str) -> None:
    agree.auto(SHAPES[shape][0])
