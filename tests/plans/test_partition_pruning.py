"""Spark prunes the partitions of a table by the rows of a broadcast side, also where that side has a rewritten group."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession
from tests.plans.test_split import rows

if TYPE_CHECKING:
    from tests.agree import Agree, WithConf

PRUNED = "dynamicpruning#"
NOT_PRUNED = "dynamicpruningexpression(true)"
DIM = "SELECT k, {} FROM dim WHERE c = 1 GROUP BY k"
FACTS = "SELECT f.p, d.m, count(*) FROM fact f JOIN ({}) d ON f.p = d.k GROUP BY f.p, d.m"


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    contents = {
        "fact": spark.range(0, 2000, 1, 2).selectExpr("id % 10 AS p", "id AS v"),
        "dim": spark.range(0, 400, 1, 2).selectExpr(
            "id % 10 AS k", "CAST(id AS STRING) AS s", "CAST(id % 5 = 2 AS INT) AS c"
        ),
        "l": spark.range(0, 20000, 1, 2).selectExpr("id % 7 AS k", "id AS v"),
        "r": spark.range(0, 7, 1, 2).selectExpr("id AS k", "id % 3 AS c"),
    }
    for name, table in contents.items():
        path = str(tmp_path_factory.mktemp(name))
        writer = table.write.mode("overwrite")
        (writer.partitionBy("p") if name == "fact" else writer).parquet(path)
        spark.read.parquet(path).createOrReplaceTempView(name)
    yield
    for name in contents:
        spark.catalog.dropTempView(name)


QUERIES = {
    "texts": FACTS.format(DIM.format("max(s) AS m")),
    "sets": FACTS.format(DIM.format("size(collect_set(s)) AS m")),
    "an aggregate over a join": (
        "WITH d AS (SELECT /*+ MERGE(l) */ r.c AS k, sum(l.v) AS m FROM l JOIN r ON l.k = r.k WHERE r.c < 2 GROUP BY r.c) "
        "SELECT /*+ BROADCAST(d) */ f.p, d.m, count(*) FROM fact f JOIN d ON f.p = d.k GROUP BY f.p, d.m"
    ),
    "a join that is broadcast below an aggregate": (
        "WITH d AS (SELECT /*+ MERGE(l) */ r.c AS k, l.v AS m FROM l JOIN r ON l.k = r.k WHERE r.c < 2) "
        "SELECT /*+ BROADCAST(d) */ f.p, sum(d.m) FROM fact f JOIN d ON f.p = d.k GROUP BY f.p"
    ),
    "the products of a join": (
        "WITH d AS (SELECT /*+ MERGE(l) */ l.k, sum(l.v * r.c) AS m FROM l JOIN r ON l.k = r.k WHERE r.c = 1 GROUP BY l.k) "
        "SELECT /*+ BROADCAST(d) */ f.p, d.m, count(*) FROM fact f JOIN d ON f.p = d.k GROUP BY f.p, d.m"
    ),
    "ranks": (
        "WITH d AS (SELECT k, rank() OVER (ORDER BY s) AS m FROM dim WHERE c = 1) "
        "SELECT /*+ BROADCAST(d) */ f.p, d.m, count(*) FROM fact f JOIN d ON f.p = d.k GROUP BY f.p, d.m"
    ),
    "totals": (
        "WITH d AS (SELECT k, sum(length(s)) OVER () AS m FROM dim WHERE c = 1) "
        "SELECT /*+ BROADCAST(d) */ f.p, d.m, count(*) FROM fact f JOIN d ON f.p = d.k GROUP BY f.p, d.m"
    ),
}


@pytest.mark.parametrize("adaptive", [True, False])
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_partitions_are_pruned_as_in_stock_spark(
    agree: Agree, with_conf: WithConf, plan_that_ran: Callable[[], str], query: str, adaptive: bool
) -> None:
    with with_conf({"spark.sql.adaptive.enabled": adaptive}):
        stock = agree.stock(query, {"spark.sql.adaptive.enabled": adaptive})
        pruned = plan_that_ran()
        with with_conf({"spark.saltwise.enabled": True, "spark.saltwise.auto.smallInput": 0}):
            ours = agree.spark.sql(query).collect()
    assert PRUNED in pruned
    assert NOT_PRUNED not in pruned
    assert PRUNED in plan_that_ran()
    assert NOT_PRUNED not in plan_that_ran()
    assert sorted(map(tuple, ours)) == sorted(stock.rows)


@pytest.mark.parametrize(("where", "split"), [("WHERE v > 9", False), ("", True)], ids=["pruned", "not pruned"])
def test_a_skewed_side_is_split_where_spark_does_not_prune_by_it(
    spark: SparkSession, with_conf: WithConf, plan_that_ran: Callable[[], str], where: str, split: bool
) -> None:
    rows(spark).createOrReplaceTempView("skewed")
    query = (
        "SELECT /*+ BROADCAST(d) */ f.p, size(d.m), count(*) FROM fact f JOIN "
        f"(SELECT k, collect_set(v) AS m FROM skewed {where} GROUP BY k) d ON f.p = d.k GROUP BY ALL"
    )
    with with_conf(
        {"spark.saltwise.enabled": True, "spark.saltwise.strategy": "split", "spark.saltwise.partitions": 8}
    ):
        spark.sql(query).collect()
    assert ("SlicedPartitions" in plan_that_ran()) == split
    assert (PRUNED in plan_that_ran()) != split
