"""Aggregates, placement and routing at the edges: orders that others need, subqueries, and confs that fit some queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.plans.test_off_means_off import run

from saltwise import SaltwiseValueError

if TYPE_CHECKING:
    from tests.agree import Agree, WithConf

PLACED: dict[str, object] = {"spark.saltwise.strategy": "offgreedy"}
SAME: dict[str, tuple[str, dict[str, object]]] = {
    "rows of a task that the user has sorted": (
        "SELECT count(*), sum(CAST(l = array_sort(l) AS INT)) FROM (SELECT k, collect_list(v) AS l FROM (SELECT "
        "id div 2000 * 10 + id % 10 AS k, pmod(hash(id), 100000) AS v FROM range(0, 4000, 1, 2) SORT BY v) GROUP BY k)",
        {},
    ),
    "a lateral join by an inequality": (
        "SELECT x, c, s FROM (SELECT id AS x FROM range(6)) t, LATERAL (SELECT u.y AS c, sum(v) AS s FROM "
        "(SELECT id % 4 AS y, id AS v FROM range(40)) u WHERE u.y < t.x GROUP BY u.y)",
        PLACED,
    ),
    "a cost of which this query knows nothing": (
        "SELECT id, sum(id) OVER (PARTITION BY k) FROM (SELECT id, id % 7 AS k FROM range(100))",
        {"spark.saltwise.placement.enabled": True, "spark.saltwise.placement.cost": "amount"},
    ),
    "costs whose sum no BIGINT holds": (
        "SELECT k, size(collect_list(v)), max(c) FROM (SELECT id % 7 AS k, id AS v, id + 9000000000000000 AS c "
        "FROM range(0, 4000, 1, 2)) GROUP BY k",
        PLACED | {"spark.saltwise.placement.cost": "c"},
    ),
    "a field with a quote in its name": (
        "SELECT k.`a\"b`, count(*) FROM (SELECT named_struct('a\"b', id % 3) AS k FROM range(100)) GROUP BY k",
        PLACED,
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_at_the_edges_plans_give_the_same_answers(agree: Agree, with_conf: WithConf, name: str) -> None:
    query, confs = SAME[name]
    stock = agree.stock(query)
    with with_conf({"spark.saltwise.enabled": True, "spark.saltwise.auto.smallInput": 0} | confs):
        assert sorted(map(tuple, agree.spark.sql(query).collect())) == sorted(stock.rows)


def test_a_worker_of_rows_leaves_them_in_their_order(spark: SparkSession) -> None:
    numbered = "SELECT k, id, row_number() OVER (PARTITION BY k ORDER BY id) AS n FROM (SELECT id % 5 AS k, id FROM range(200))"
    sums = spark.sql(
        "SELECT n, sum(n) OVER (PARTITION BY k ORDER BY id) AS s FROM "
        f"(SELECT k, id, n, skew_worker(4, 'pkg', k) AS w FROM ({numbered}))"
    )
    assert [row for row in sums.collect() if row.s != row.n * (row.n + 1) // 2] == []


@pytest.mark.parametrize("kept", ["k", "k, v"])
def test_rows_that_the_user_has_sorted_keep_their_order_below_a_worker(spark: SparkSession, kept: str) -> None:
    rows = spark.sql("SELECT id % 5 AS k, pmod(id * 7919, 2003) AS v FROM range(0, 2000, 1, 4)").orderBy("v")
    workers = rows.selectExpr(*kept.split(", "), "skew_worker(4, 'pkg', k) AS w")
    assert [row.k for row in workers.collect()] == [row.k for row in rows.collect()]


def test_weights_that_no_sketch_can_hold_are_refused(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="the sum of the weights is more than a BIGINT holds; give smaller weights"):
        spark.sql("SELECT space_saving_agg(id % 3, 10, 9000000000000000) FROM range(0, 2000, 1, 1)").collect()


@pytest.mark.parametrize("name", ["é", "\x1b\x7f", "\U0001f9c2"])
def test_a_partition_function_of_any_field_names_goes_both_ways(spark: SparkSession, name: str) -> None:
    rows = spark.range(1000).select(F.struct((F.col("id") % 7).alias(name)).alias("k"), "id")
    groups = rows.skew_groupby("k", strategy="level", partitions=4)
    assert groups.applyInPandas(lambda group: group[["id"]], "id long").count() == 1000


@pytest.mark.smoke
@pytest.mark.parametrize(("groups", "rows"), [(1000, 2000), (3, 3000)], ids=["few rows a group", "many rows a group"])
def test_functions_without_a_state_of_no_rows_are_combined(agree: Agree, groups: int, rows: int) -> None:
    if not agree.spark.catalog.functionExists("theta_intersection_agg"):
        pytest.skip("this Spark has no theta sketches")
    agree(
        f"SELECT p, theta_sketch_estimate(theta_intersection_agg(s)) FROM (SELECT id % {groups} AS p, id, "
        f"theta_sketch_agg(id % 7) AS s FROM range({rows}) GROUP BY id) GROUP BY p",
        strategies=["local", "auto"],
        options={"auto.smallInput": 0},
    )


def test_max_by_of_several_values_is_not_made_in_parts(spark: SparkSession) -> None:
    rows = spark.range(40).selectExpr("id % 2 AS k", "id AS v")
    with pytest.raises(SaltwiseValueError, match=r"agg got 'max_by\(v, v, 3\)'; with engine='arrow'"):
        rows.skew_groupby("k", engine="arrow", strategy="shuffle", partitions=2).agg(F.expr("max_by(v, v, 3)"))


def test_an_item_of_a_users_type_is_refused(spark: SparkSession) -> None:
    from pyspark.ml.linalg import Vectors

    rows = spark.createDataFrame([(Vectors.dense([1.0]),)], ["p"])
    with pytest.raises(Exception, match="has a user-defined type; cast it, or take a field of it"):
        rows.agg(F.expr("heavy_hitters(p)")).collect()


# It starts a Spark of its own.
OFF_HEAP = """
import json, sys
from pyspark.sql import SparkSession
import saltwise

confs = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "4", "spark.memory.offHeap.enabled": "true",
    "spark.memory.offHeap.size": "64m", "spark.saltwise.auto.smallInput": "0"}
builder = SparkSession.builder.master("local[2]")
for name, value in confs.items():
    builder = builder.config(name, value)
spark = saltwise.configure(builder).getOrCreate()
queries = json.load(sys.stdin)["queries"]
answer = []
for enabled in ("false", "true"):
    spark.conf.set("spark.saltwise.enabled", enabled)
    answer.append([sorted(map(list, spark.sql(query).collect())) for query in queries])
print(json.dumps({"answer": answer}))
"""


def test_rows_wait_off_the_heap_where_spark_has_its_rows_there() -> None:
    query = "SELECT k, percentile(v, 0.5), max(v) FROM (SELECT id % 1000 AS k, id % 101 AS v FROM range(0, 50000, 1, 2)) GROUP BY k"
    answer, _ = run(OFF_HEAP, queries=[query])
    stock, ours = answer["answer"]
    assert stock == ours
    assert len(ours[0]) == 1000
