"""An aggregate over a join is made in two steps, below the join and above it, and gives the answers of stock Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.agree import lines_of_saltwise, plan_text

if TYPE_CHECKING:
    from tests.agree import Agree, WithConf
    from tests.joins.conftest import Tables

SALES = """
    SELECT IF(id % 10 < 5, 7, pmod(xxhash64(id), 900)) AS k, IF(id % 11 = 0, NULL, id % 13) AS g, id % 1000 AS v,
        CAST(id % 97 AS STRING) AS s, id / 8D AS d, CAST(id % 1000 / 10 AS DECIMAL(7, 2)) AS price,
        CAST(pmod(id, 7) AS INT) AS i, id % 2 = 0 AS t, IF(id % 17 = 0, NULL, id % 5) AS j
    FROM range(0, 20000, 1, 3)
    UNION ALL SELECT NULL, id % 3, id, 'null', 1D, 2, 3, true, NULL FROM range(0, 50, 1, 1)"""
SHOPS = """
    SELECT IF(id % 50 = 0, NULL, id % 800) AS k, id % 6 AS c, concat('name', id % 20) AS name, id % 3 AS x
    FROM range(0, 1200, 1, 2)"""
DAYS = "SELECT id AS j, id % 2 AS week FROM range(0, 4, 1, 1)"


@pytest.fixture(scope="module", autouse=True)
def tables(shuffled_tables: Tables) -> Iterator[None]:
    views = {"sales": SALES, "shops": SHOPS, "days": DAYS}
    with shuffled_tables(views):
        yield


def combined(plan: str) -> set[str]:
    """The keys by which a plan combines rows below joins."""
    return {line.split("]")[0] + "]" for line in lines_of_saltwise(plan) if line.endswith("below a join")}


def combined_by_auto(spark: SparkSession, query: str, with_conf: WithConf) -> set[str]:
    with with_conf({"spark.saltwise.enabled": True}):
        return combined(plan_text(spark.sql(query)))


JOINED = "FROM sales JOIN shops ON sales.k = shops.k"
# Each with the keys of the lower step.
QUERIES = {
    "a column of the other side": (f"SELECT c, sum(v), count(*), count(g) {JOINED} GROUP BY c", "[k]"),
    "the key of the join": (f"SELECT sales.k, sum(v), count(*) {JOINED} GROUP BY sales.k", "[k]"),
    "the key of the other side": (f"SELECT shops.k, max(s) {JOINED} GROUP BY shops.k", "[k]"),
    "columns of both sides": (f"SELECT c, g, avg(v), min(s) {JOINED} GROUP BY c, g", "[k, g]"),
    "a computed key": (f"SELECT c + i AS ci, sum(v) {JOINED} GROUP BY c + i", "[k, i]"),
    "no key": (f"SELECT sum(v), count(*), max(d) {JOINED}", "[k]"),
    "no key, no rows": (f"SELECT sum(v), count(*), max(d) {JOINED} WHERE c > 100", "[k]"),
    "count alone": (f"SELECT c, count(*) {JOINED} GROUP BY c", "[k]"),
    "constants": (f"SELECT c, sum(1), max('x'), count(1), avg(2), min(v) {JOINED} GROUP BY c", "[k]"),
    "computed arguments": (f"SELECT c, sum(v * 2 + i), max(upper(s)) {JOINED} GROUP BY c", "[k]"),
    "filters": (
        f"SELECT c, sum(v) FILTER (WHERE t), count(*) FILTER (WHERE g > 3), min(s) FILTER (WHERE NOT t) {JOINED} "
        "GROUP BY c",
        "[k]",
    ),
    "having": (f"SELECT c, sum(v) AS total {JOINED} GROUP BY c HAVING count(*) > 10 AND max(i) > 2", "[k]"),
    "an argument that is a key too": (f"SELECT c, g, sum(g), max(sales.k) {JOINED} GROUP BY c, g", "[k, g]"),
    "decimals": (f"SELECT c, sum(price), avg(price), max(price), sum(price * i) {JOINED} GROUP BY c", "[k]"),
    "moments": (f"SELECT c, round(stddev(v), 6), round(corr(v, i), 6) {JOINED} GROUP BY c", "[k]"),
    "bits": (f"SELECT c, bit_and(i), bit_or(i), bit_xor(i), bool_and(t), every(t), any(t) {JOINED} GROUP BY c", "[k]"),
    "sets": (f"SELECT c, sort_array(collect_set(s)), sum(v) {JOINED} GROUP BY c", "[k]"),
    "lists": (f"SELECT c, sort_array(collect_list(i)) {JOINED} GROUP BY c", "[k]"),
    "percentiles": (f"SELECT c, percentile(v, 0.3), percentile_approx(v, 0.5, 100000) {JOINED} GROUP BY c", "[k]"),
    "a sketch": (f"SELECT c, approx_count_distinct(v) {JOINED} GROUP BY c", "[k]"),
    "max_by": (f"SELECT c, max_by(v, d), min_by(s, d) {JOINED} GROUP BY c", "[k]"),
    "mode": (f"SELECT c, mode(IF(v < 3, 1, 2)) {JOINED} GROUP BY c", "[k]"),
    "left outer": ("SELECT c, sum(v), count(*) FROM sales LEFT JOIN shops ON sales.k = shops.k GROUP BY c", "[k]"),
    "left outer with a condition": (
        "SELECT c, sum(v), count(*) FROM sales LEFT JOIN shops ON sales.k = shops.k AND x > 0 AND i < c GROUP BY c",
        "[k, i]",
    ),
    "right outer": ("SELECT c, sum(v), count(*) FROM shops RIGHT JOIN sales ON sales.k = shops.k GROUP BY c", "[k]"),
    "semi": ("SELECT g, sum(v), count(*) FROM sales LEFT SEMI JOIN shops ON sales.k = shops.k GROUP BY g", "[k, g]"),
    "anti": ("SELECT g, sum(v), count(*) FROM sales LEFT ANTI JOIN shops ON sales.k = shops.k GROUP BY g", "[k, g]"),
    "exists": (
        "SELECT g, sum(v) FROM sales WHERE EXISTS (SELECT 1 FROM shops WHERE shops.k = sales.k AND c > 1) GROUP BY g",
        "[k, g]",
    ),
    "not in": ("SELECT g, sum(v) FROM sales WHERE j NOT IN (SELECT j FROM days) GROUP BY g", None),
    "two keys": ("SELECT c, sum(v) FROM sales JOIN shops ON sales.k = shops.k AND i = x GROUP BY c", "[k, i]"),
    "another condition": (f"SELECT c, sum(v) {JOINED} AND i < x + 2 GROUP BY c", "[k, i]"),
    "a filter above": (f"SELECT c, sum(v) {JOINED} WHERE i > c OR name = 'name3' GROUP BY c", "[k, i]"),
    "two joins": (
        f"SELECT c, week, sum(v), count(*) {JOINED} JOIN days ON sales.j = days.j GROUP BY c, week",
        "[k, j]",
    ),
    "a join of the other side": (
        "SELECT week, sum(v) FROM sales JOIN (SELECT k, days.week FROM shops JOIN days ON shops.c = days.j) o "
        "ON sales.k = o.k GROUP BY week",
        "[k]",
    ),
    "a table with itself": (
        "SELECT b.g, sum(a.v) FROM sales a JOIN (SELECT * FROM sales WHERE d < 20) b ON a.k = b.k GROUP BY b.g",
        "[k]",
    ),
    "an aggregate below": (
        "SELECT m, count(*), sum(n) FROM (SELECT k, i, sum(v) AS m, count(*) AS n FROM sales GROUP BY k, i) a "
        "JOIN shops ON a.k = shops.k GROUP BY m",
        "[k, m]",
    ),
    "an aggregate above": (
        f"SELECT total % 3, count(*) FROM (SELECT c, sales.k, sum(v) AS total {JOINED} GROUP BY c, sales.k) "
        "GROUP BY total % 3",
        "[k]",
    ),
    "a union above": (
        f"SELECT c, sum(v) {JOINED} GROUP BY c UNION ALL SELECT x, max(v) {JOINED} WHERE v > 9 GROUP BY x",
        "[k]",
    ),
    "a column of a generator": (
        "SELECT c, sum(e) FROM (SELECT k, explode(array(v, i)) AS e FROM sales) s JOIN shops ON s.k = shops.k GROUP BY c",
        "[k]",
    ),
    "texts as keys": (
        "SELECT c, sum(v) FROM sales JOIN (SELECT CAST(k AS STRING) AS k, c FROM shops) o ON sales.s = o.k GROUP BY c",
        "[s]",
    ),
    "floats as keys": (
        "SELECT c, sum(v) FROM (SELECT IF(i = 0, -0D, k / 1D) AS f, v FROM sales) a "
        "JOIN (SELECT k / 1D AS f, c FROM shops) o ON a.f = o.f GROUP BY c",
        "[f]",
    ),
    "a window above": (
        f"SELECT c, total, rank() OVER (ORDER BY total) FROM (SELECT c, sum(v) AS total {JOINED} GROUP BY c)",
        "[k]",
    ),
    "chance below": (
        "SELECT c, count(r > 0) FROM (SELECT *, rand(1) AS r FROM sales) a JOIN shops ON a.k = shops.k GROUP BY c",
        "[k]",
    ),
    "rollup": (f"SELECT c, x, sum(v), grouping(c) {JOINED} GROUP BY ROLLUP (c, x)", None),
}
LEFT = {
    "DISTINCT": f"SELECT c, count(DISTINCT v), sum(v) {JOINED} GROUP BY c",
    "arguments of both sides": f"SELECT c, sum(v + x) {JOINED} GROUP BY c",
    "functions of both sides": f"SELECT c, sum(v), max(x) {JOINED} GROUP BY c",
    "the side with NULLs": "SELECT x, sum(v), count(*) FROM shops LEFT JOIN sales ON sales.k = shops.k GROUP BY x",
    "both sides with NULLs": "SELECT c, sum(v) FROM shops FULL JOIN sales ON sales.k = shops.k GROUP BY c",
    "the first row": f"SELECT c, count(first) FROM (SELECT c, first(v) AS first {JOINED} GROUP BY c) GROUP BY c",
    "unique rows": "SELECT c, sum(n) FROM (SELECT k, count(*) AS n FROM sales GROUP BY k) a JOIN shops ON a.k = shops.k "
    "GROUP BY c",
    "a map above": "SELECT c, sum(v) FROM (SELECT *, map(s, i) AS m FROM sales) a JOIN shops ON a.k = shops.k "
    "WHERE size(m) < c + 1 GROUP BY c",
    "no equal columns": "SELECT c, count(*) FROM sales JOIN days ON sales.v < days.j JOIN shops ON x = c GROUP BY c",
}


EVERYWHERE = {
    "a column of the other side",
    "columns of both sides",
    "filters",
    "decimals",
    "sets",
    "left outer",
    "semi",
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.smoke] if name in EVERYWHERE else []) for name in QUERIES]
)
def test_rows_are_combined_by_all_that_the_plan_reads_above_and_give_the_same_answers(agree: Agree, name: str) -> None:
    query, keys = QUERIES[name]
    assert combined(agree.auto(query)) == ({f"Combine {keys}"} if keys else set())


@pytest.mark.parametrize("name", LEFT)
def test_what_may_not_be_aggregated_below_a_join_is_not(agree: Agree, name: str) -> None:
    assert not combined(agree.auto(LEFT[name]))


@pytest.mark.parametrize("name", ["a column of the other side", "left outer", "two joins"])
def test_without_adaptive_execution_the_answers_are_the_same(agree: Agree, with_conf: WithConf, name: str) -> None:
    with with_conf({"spark.sql.adaptive.enabled": False}):
        agree.auto(QUERIES[name][0] + " -- not adaptive")


@pytest.mark.parametrize(
    "conf",
    [
        {"spark.saltwise.join.combine": False},
        {"spark.saltwise.strategy": "split"},
        {"spark.saltwise.auto.smallInput": "1g"},
        {"spark.sql.autoBroadcastJoinThreshold": "1g"},
        {"spark.sql.execution.bypassPartialAggregation": True},
        {"spark.databricks.photon.enabled": True},
    ],
    ids=["off", "another strategy", "a small input", "a broadcast", "no partial aggregation", "a native engine"],
)
def test_nothing_is_combined_below_a_join_with(spark: SparkSession, with_conf: WithConf, conf: dict[str, Any]) -> None:
    with with_conf(conf):
        assert not combined_by_auto(spark, QUERIES["a column of the other side"][0], with_conf)


@pytest.mark.parametrize(
    ("key", "waiting", "combined_rows"),
    [
        pytest.param("xxhash64(id)", 2 * 4096, 0, id="all distinct"),
        pytest.param("id % 5000", 2 * 36_000, 2 * 35_000, id="in turn"),
        pytest.param("IF(id % 2 = 0, 7, xxhash64(id))", 2 * 4096, 2 * 18_000, id="one of them hot"),
    ],
)
def test_rows_wait_below_a_join_only_where_the_first_ones_share_keys(
    agree: Agree, metric_that_ran: Callable[[str], int], key: str, waiting: int, combined_rows: int
) -> None:
    rows = f"(SELECT {key} AS k, id % 9 AS v FROM range(0, 80000, 1, 2))"
    agree.auto(f"SELECT c, sum(v), count(*) FROM {rows} l JOIN shops ON l.k = shops.k GROUP BY c")
    assert metric_that_ran("rows") == 80_000
    assert metric_that_ran("rows taken as all") == pytest.approx(waiting, rel=0.1)
    assert metric_that_ran("rows combined") == pytest.approx(combined_rows, rel=0.15)


# Stock Spark never computes these for the rows of key 7, which meet no shop.
ABSENT = "JOIN (SELECT * FROM shops WHERE k <> 7) o ON sales.k = o.k"


@pytest.mark.parametrize(
    "call",
    [
        "sum(10 / IF(sales.k = 7, 0, 1))",
        "sum(CAST(IF(sales.k = 7, 'x', s) AS INT))",
        "sum(IF(sales.k = 7, 9223372036854775807, v))",
        "max(element_at(array(1), IF(sales.k = 7, 5, 1)))",
        "sort_array(collect_set(10 / IF(sales.k = 7, 0, i + 1)))",
        "count(*) FILTER (WHERE 10 / IF(sales.k = 7, 0, 1) > 1)",
    ],
)
def test_an_error_in_rows_that_the_join_drops_is_none(agree: Agree, with_conf: WithConf, call: str) -> None:
    with with_conf({"spark.sql.ansi.enabled": True}):
        agree.auto(f"SELECT c, {call} FROM sales {ABSENT} GROUP BY c")


def test_an_error_in_rows_that_the_join_keeps_is_that_of_spark(spark: SparkSession, with_conf: WithConf) -> None:
    query = f"SELECT c, sum(10 / (v - 5)) {JOINED} GROUP BY c"
    raised = []
    for enabled in (False, True):
        with (
            with_conf({"spark.sql.ansi.enabled": True, "spark.saltwise.enabled": enabled}),
            pytest.raises(PySparkException) as error,
        ):
            spark.sql(query).collect()
        raised.append(str(error.value).split("]")[0])
    assert raised[0] == raised[1]


@pytest.mark.parametrize("adaptive", [True, False])
def test_rows_that_lie_by_the_key_of_the_join_are_not_combined(
    agree: Agree, spark: SparkSession, with_conf: WithConf, adaptive: bool
) -> None:
    for name in ("sales", "shops"):
        by_key = spark.table(name).write.bucketBy(4, "k").sortBy("k").mode("overwrite")
        by_key.saveAsTable(f"{name}_by_key")
    query = QUERIES["a column of the other side"][0].replace("sales", "sales_by_key").replace("shops", "shops_by_key")
    with with_conf({"spark.sql.adaptive.enabled": adaptive}):
        plan = agree.auto(query)
        assert not combined(plan)
        assert "Exchange hashpartitioning(k" not in plan
    for name in ("sales", "shops"):
        spark.sql(f"DROP TABLE {name}_by_key")


@pytest.mark.parametrize(
    ("hint", "threshold"),
    [
        ("BROADCAST(shops)", -1),
        ("MERGE(shops)", "1g"),
        ("MERGE(sales)", "1g"),
        ("SHUFFLE_HASH(shops)", "1g"),
        ("SHUFFLE_HASH(sales)", -1),
    ],
)
def test_the_hint_of_a_join_tells_whether_rows_are_combined(
    agree: Agree, with_conf: WithConf, hint: str, threshold: object
) -> None:
    query = QUERIES["a column of the other side"][0].replace("SELECT", f"SELECT /*+ {hint} */")
    with with_conf({"spark.sql.autoBroadcastJoinThreshold": threshold}):
        assert bool(combined(agree.auto(query))) == ("BROADCAST" not in hint)


APPROVED = Path(__file__).with_name("approved_plans.txt")
SHAPES = [
    "a column of the other side",
    "the key of the join",
    "columns of both sides",
    "no key",
    "computed arguments",
    "filters",
    "sets",
    "left outer with a condition",
    "right outer",
    "semi",
    "two joins",
    "a join of the other side",
]


# What differs between the lines of Spark, and is the same in all plans here.
DIFFERS_BY_LINE = {
    # 4.3 aggregates rows that a join has sorted in their order.
    "spark.sql.execution.replaceHashWithSortAgg": False,
    # 4.3 makes one aggregate of two where no exchange is between them.
    "spark.sql.execution.combineAdjacentAggregation": False,
    # 4.2 and 4.3 compare the rows of a map task that runs twice. With a FILTER above the join, these may differ, so the
    # rows are combined below the join alone.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": False,
}


def operators(plan: str) -> list[str]:
    """The operators of a plan, indented, with the keys of ours, of exchanges and of joins."""
    lines = []
    for line in plan.splitlines():
        found = re.match(r"([ :+-]*)(?:\*\(\d+\) )?(\w+)(.*)", re.sub(r"#\d+L?", "", line))
        if found and found[2] not in ("AdaptiveSparkPlan", "ColumnarToRow"):
            shown = found[2] in ("Combine", "Exchange", "SortMergeJoin", "Sort")
            keys = re.sub(r", (plan_id|ENSURE|\[plan_id).*|, false, 0", "", found[3]) if shown else ""
            lines.append("  " * (len(found[1]) // 3) + found[2] + keys)
    return lines


@pytest.mark.smoke
def test_plans_are_those_that_were_approved(
    spark: SparkSession, with_conf: WithConf, pytestconfig: pytest.Config
) -> None:
    made = []
    with with_conf({"spark.saltwise.enabled": True} | DIFFERS_BY_LINE):
        for name in SHAPES:
            query = QUERIES[name][0]
            made += [f"-- {name}", f"-- {query}", *operators(plan_text(spark.sql(query))), ""]
    if pytestconfig.getoption("--regenerate"):
        APPROVED.write_text("\n".join(made))
    assert made == APPROVED.read_text().split("\n")
