"""Windows at the edges: of types, of one partition and of several keys, and of plans that rely on partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.agree import plan_text

if TYPE_CHECKING:
    from tests.agree import Agree, WithConf

ROWS = "range(0, 6000, 1, 3)"
LARGE = "id * 1000003 + 9007199254740993"
"""Averages of such numbers lose bits, so one task runs all of their rows."""
ANSI: dict[str, object] = {"spark.sql.ansi.enabled": True}
NO_ANSI: dict[str, object] = {"spark.sql.ansi.enabled": False}
HOT = f"(SELECT id, IF(id % 10 < 6, 7, id % 97) AS k FROM {ROWS})"
RANKS_BY_KEY = (
    "SELECT k, rank() OVER (PARTITION BY k ORDER BY x) AS r FROM (SELECT id % 3 AS k, id AS x FROM range(0, 300, 1, 3))"
)


@pytest.fixture(scope="module", autouse=True)
def sliced(with_conf: WithConf) -> Iterator[None]:
    with with_conf(
        {
            "spark.saltwise.auto.smallInput": 0,
            "spark.sql.leafNodeDefaultParallelism": 3,
            "spark.sql.shuffle.partitions": 7,
            "spark.sql.adaptive.coalescePartitions.enabled": False,
        }
    ):
        yield


SAME: dict[str, tuple[str, dict[str, object]]] = {
    "one function in two frames": (
        "SELECT id, max(-id) OVER (ORDER BY id ROWS 2 PRECEDING), max(-id) OVER (ORDER BY id ROWS 5 PRECEDING), "
        "last_value(id) OVER (ORDER BY id), last_value(id) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND "
        f"UNBOUNDED FOLLOWING) FROM {ROWS}",
        {},
    ),
    "one partition, and one task for all rows": (
        f"SELECT count(*), max(a) FROM (SELECT avg({LARGE}) OVER (ORDER BY id) AS a FROM {ROWS})",
        {"spark.sql.shuffle.partitions": 1},
    ),
    "two hot keys, each in one task, below another window": (
        "SELECT max(n), count(*) FROM (SELECT count(a) OVER (PARTITION BY k ORDER BY id) AS n FROM (SELECT id, k, "
        f"avg({LARGE}) OVER (PARTITION BY k ORDER BY id) AS a FROM (SELECT id, id % 2 AS k FROM {ROWS})))",
        {},
    ),
    "sums of frames that overflow if rows of others are among them": (
        "SELECT id, rank() OVER (ORDER BY id), sum(IF(id % 2 = 0, -9223372036854775000, 9223372036854775000)) "
        f"OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) FROM {ROWS}",
        ANSI,
    ),
    "frames of decimals with many digits": (
        "SELECT id, sum(IF(id % 3 = 0, -1, 0.5) * CAST('9E37' AS DECIMAL(38, 0))) OVER (ORDER BY id "
        f"ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM {ROWS}",
        NO_ANSI,
    ),
    "a semi join of a window": (
        "SELECT count(*) FROM range(6000) o WHERE EXISTS (SELECT * FROM (SELECT id, x, lag(v) OVER (ORDER BY x) AS l "
        f"FROM (SELECT id, 6000 - id AS x, id * 2 AS v FROM {ROWS})) s WHERE s.l = o.id)",
        {},
    ),
    "a window of which only the rank is read": (
        "SELECT count(*) FROM range(6000) WHERE id IN (SELECT r FROM (SELECT x, rank() OVER (ORDER BY x) AS r, "
        f"sum(v) OVER (ORDER BY x) AS t FROM (SELECT 6000 - id AS x, id * 2 AS v FROM {ROWS})) WHERE t > 0)",
        {},
    ),
    "a total whose parts have too many digits": (
        f"SELECT id, sum(IF(id < 3000, 1, -1) * CAST('9E37' AS DECIMAL(38, 0))) OVER () FROM {ROWS}",
        NO_ANSI,
    ),
    "the same under ANSI": (
        f"SELECT id, sum(IF(id < 3000, CAST('9E37' AS DECIMAL(38, 0)), CAST('-9E37' AS DECIMAL(38, 0)))) OVER () FROM {ROWS}",
        ANSI,
    ),
    "a running sum that comes back from too many digits": (
        "SELECT id, sum(IF(id < 4, 1, IF(id > 5995, -1, 0)) * CAST('3E37' AS DECIMAL(38, 0))) OVER (ORDER BY id) "
        f"FROM {ROWS}",
        NO_ANSI,
    ),
    "sums that try": (
        "SELECT id, try_sum(CASE WHEN id = 0 THEN -9223372036854775000 WHEN id IN (2400, 2401) THEN "
        f"4611686018427388000 ELSE 1 END) OVER (ORDER BY id) FROM {ROWS}",
        {},
    ),
    "a distance near the longest interval": (
        "SELECT id, count(*) OVER (ORDER BY timestamp_seconds(id * 3600) RANGE BETWEEN INTERVAL '106751991' DAY "
        f"PRECEDING AND CURRENT ROW) FROM {ROWS}",
        {},
    ),
    "frames that begin or end beyond the type": (
        "SELECT x, count(*) OVER (ORDER BY x RANGE BETWEEN CURRENT ROW AND 5 FOLLOWING), count(*) OVER (ORDER BY x "
        "RANGE BETWEEN 5 PRECEDING AND CURRENT ROW), count(*) OVER (ORDER BY x RANGE BETWEEN 3 PRECEDING AND 2 FOLLOWING)"
        f" FROM (SELECT CAST(IF(id % 5 < 2, pmod(id, 251) - 128, 123 + pmod(id DIV 5, 5)) AS TINYINT) AS x FROM {ROWS})",
        NO_ANSI | {"spark.sql.shuffle.partitions": 4},
    ),
    "frames without their row beyond the type": (
        "SELECT x, count(*) OVER (ORDER BY x RANGE BETWEEN 5 PRECEDING AND 2 PRECEDING) FROM "
        f"(SELECT CAST(pmod(id, 256) - 128 AS TINYINT) AS x FROM {ROWS})",
        NO_ANSI,
    ),
    "ranges of decimals with many digits": (
        "SELECT id, sum(IF(id % 11 IN (0, 3, 4, 7, 8), 1, IF(id % 11 = 10, 0, -1)) * CAST('9E37' AS DECIMAL(38, 0))) "
        f"OVER (ORDER BY id RANGE BETWEEN 10 PRECEDING AND CURRENT ROW) FROM {ROWS}",
        ANSI,
    ),
    "a repartition by the keys of a window": (
        "SELECT sum(CAST(p <> w AS INT)), max(r) FROM (SELECT spark_partition_id() AS p, pmod(hash(k), 7) AS w, r FROM "
        f"(SELECT /*+ REPARTITION(7, k) */ * FROM (SELECT k, rank() OVER (PARTITION BY k ORDER BY id) AS r FROM {HOT})))",
        {},
    ),
    "a union of windows below groups of their keys": (
        f"SELECT k, count(*), max(r) FROM ({RANKS_BY_KEY} UNION ALL {RANKS_BY_KEY.replace('id AS x', 'id * 7 % 100 AS x')}) "
        "GROUP BY k",
        {},
    ),
    "a union of a window and other rows by its keys": (
        f"SELECT k, count(*), max(r) FROM ({RANKS_BY_KEY} UNION ALL SELECT k, r FROM (SELECT /*+ REPARTITION(7, k) */ "
        "id % 3 AS k, id AS r FROM range(0, 300, 1, 3))) GROUP BY k",
        {},
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_at_the_edges_windows_give_the_same_answers(agree: Agree, with_conf: WithConf, name: str) -> None:
    query, confs = SAME[name]
    with with_conf(confs):
        agree.auto(f"{query} -- {name}")


@pytest.mark.parametrize("small_input", [0, "1m"])
def test_a_union_of_windows_is_grouped_once(agree: Agree, with_conf: WithConf, small_input: object) -> None:
    """Even where the groups themselves are left to Spark."""
    query, _ = SAME["a union of windows below groups of their keys"]
    stock = agree.stock(query)
    with with_conf({"spark.saltwise.enabled": True, "spark.saltwise.auto.smallInput": small_input}):
        assert plan_text(agree.spark.sql(query)).count("SkewWindow samples its keys") == 2
        assert sorted(map(tuple, agree.spark.sql(query).collect())) == sorted(map(tuple, stock.rows))


def left_whole(plan: str) -> bool:
    return "SkewWindow" not in plan


@pytest.mark.parametrize(
    ("calls", "confs"),
    [
        ("rank() OVER (ORDER BY id), sum(id) OVER (ORDER BY id ROWS 2 PRECEDING)", ANSI),
        ("sum(CAST(id AS DECIMAL(38, 0))) OVER (ORDER BY id ROWS 2 PRECEDING)", {}),
        ("try_sum(id) OVER (ORDER BY id)", {}),
        ("count(*) OVER (ORDER BY id RANGE BETWEEN 3 PRECEDING AND 1 PRECEDING)", NO_ANSI),
    ],
)
def test_what_could_differ_at_the_edges_stays_whole(
    agree: Agree, with_conf: WithConf, calls: str, confs: Mapping[str, object]
) -> None:
    with with_conf(confs):
        assert left_whole(agree.auto(f"SELECT {calls} FROM {ROWS} -- whole"))


@pytest.mark.parametrize(
    ("calls", "confs"),
    [
        ("rank() OVER (ORDER BY id), sum(CAST(id AS INT)) OVER (ORDER BY id ROWS 2 PRECEDING)", ANSI),
        ("sum(id) OVER (ORDER BY id ROWS 2 PRECEDING)", ANSI),
        ("rank() OVER (ORDER BY id), sum(id) OVER (ORDER BY id ROWS 2 PRECEDING)", NO_ANSI),
        ("sum(CAST(id AS DECIMAL(20, 0))) OVER (ORDER BY id ROWS 2 PRECEDING)", {}),
        ("count(*) OVER (ORDER BY id RANGE BETWEEN 3 PRECEDING AND 1 PRECEDING)", ANSI),
    ],
)
def test_what_cannot_differ_runs_in_slices(
    agree: Agree, with_conf: WithConf, calls: str, confs: Mapping[str, object]
) -> None:
    with with_conf(confs):
        assert not left_whole(agree.auto(f"SELECT {calls} FROM {ROWS} -- sliced"))


def test_rows_of_two_hot_keys_in_one_partition_are_written_by_key(
    spark: SparkSession, with_conf: WithConf, tmp_path: Path
) -> None:
    """A writer of partitions takes rows sorted by them, as a window leaves them."""
    a, b = (row.id for row in spark.sql("SELECT id FROM range(100) WHERE pmod(hash(id), 7) = 3 LIMIT 2").collect())
    key = f"CASE WHEN id % 10 < 4 THEN {a}L WHEN id % 10 < 8 THEN {b}L ELSE 1000 + id % 3 END AS k"
    with with_conf({"spark.saltwise.enabled": True}):
        rows = spark.sql(f"SELECT k, id, sum(id) OVER (PARTITION BY k) AS t FROM (SELECT {key}, id FROM {ROWS})")
        rows.write.partitionBy("k").parquet(str(tmp_path / "by_key"))
    written = spark.read.parquet(str(tmp_path / "by_key"))
    assert written.count() == 6000
    assert written.groupBy("k").agg((F.max("t") - F.sum("id")).alias("off")).where("off <> 0").count() == 0


@pytest.mark.parametrize(
    "call", ["rank() OVER (ORDER BY id)", "sum(id) OVER (PARTITION BY k ORDER BY id)", "sum(id) OVER ()"]
)
def test_a_thread_without_a_session_reads_slices(spark: SparkSession, with_conf: WithConf, call: str) -> None:
    with with_conf({"spark.saltwise.enabled": True}), ThreadPoolExecutor(1) as pool:
        rows = spark.sql(f"SELECT id, {call} AS r FROM {HOT}")
        assert pool.submit(lambda: rows.rdd.count()).result() == 6000


def test_a_barrier_above_a_window_has_no_more_tasks(agree: Agree) -> None:
    def same(frames: Iterator[Any]) -> Iterator[Any]:
        yield from frames

    def numbered(spark: SparkSession) -> Any:
        rows = spark.sql(f"SELECT id, row_number() OVER (ORDER BY id) AS n FROM {ROWS}")
        return rows.mapInPandas(same, "id bigint, n int", barrier=True)

    plan = agree.auto(numbered)
    assert "left alone: the barrier stage above it would have more tasks than in stock Spark" in plan


def test_a_window_that_a_query_has_twice_runs_once(
    agree: Agree, with_conf: WithConf, plan_that_ran: Callable[[], str]
) -> None:
    query = (
        f"WITH w AS (SELECT id, row_number() OVER (ORDER BY id % 70) AS r FROM {ROWS}) "
        "SELECT count(*), sum(CAST(a.id <> b.id AS INT)) FROM w a JOIN w b ON a.r = b.r"
    )
    with with_conf({"spark.sql.autoBroadcastJoinThreshold": -1}):
        agree.stock(query)
        reused = plan_that_ran().count("ReusedExchange")
        plan = agree.auto(query)
    assert "left alone: the query has it twice, and Spark computes its rows once" in plan
    assert plan_that_ran().count("ReusedExchange") == reused > 0


def test_a_total_is_that_of_the_rows_that_a_live_source_returned(spark: SparkSession, with_conf: WithConf) -> None:
    datasource = pytest.importorskip("pyspark.sql.datasource", reason="Spark 3.5 has no sources in Python")

    class Reader(datasource.DataSourceReader):  # type: ignore[misc,name-defined]
        def read(self, partition: object) -> Iterator[tuple[int]]:
            import time

            yield from ((i,) for i in range(1000 + time.time_ns() % 1000))

    class Live(datasource.DataSource):  # type: ignore[misc,name-defined]
        @classmethod
        def name(cls) -> str:
            return "live"

        def schema(self) -> str:
            return "i int"

        def reader(self, schema: object) -> Reader:
            return Reader()

    spark.dataSource.register(Live)
    with with_conf({"spark.saltwise.enabled": True}):
        rows = spark.read.format("live").load().selectExpr("i", "count(*) OVER () AS n").collect()
    assert {row.n for row in rows} == {len(rows)}
