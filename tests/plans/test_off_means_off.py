"""Off means off: plans are Spark's own, and a missing plugin is named."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import saltwise
from saltwise.spark.session import EXTENSION

pytestmark = pytest.mark.classic("start a session of another kind in a process of its own")

VIEWS = [
    "CREATE OR REPLACE TEMPORARY VIEW off_rows AS SELECT id, IF(id % 3 = 0, 0, id % 11) AS k, id % 2 = 0 AS t, "
    "id / 4D AS d, CAST(id AS STRING) AS s FROM range(0, 200, 1, 3)",
]

QUERIES = [
    "SELECT k, count(*), sum(d) FROM off_rows GROUP BY k",
    "SELECT k, array_sort(collect_list(s)), percentile(d, 0.5) FROM off_rows GROUP BY k HAVING count(*) > 2 ORDER BY k",
    "SELECT k, max(s) FILTER (WHERE t) FROM off_rows WHERE id > 5 GROUP BY k",
    "SELECT k, t, sum(d) FROM off_rows GROUP BY ROLLUP (k, t)",
    # One DISTINCT only: the order in which Spark expands several depends on the columns' ids.
    "SELECT k, count(DISTINCT s), sum(d) FROM off_rows GROUP BY k",
    "SELECT DISTINCT k FROM off_rows",
    "SELECT count(*) FROM off_rows",
    "SELECT id, s FROM off_rows WHERE t LIMIT 5",
    "SELECT c, count(*) FROM (SELECT k, count(*) AS c FROM off_rows GROUP BY k) GROUP BY c",
    "SELECT /*+ BROADCAST(b) */ a.k, sum(b.d) FROM off_rows a JOIN off_rows b ON a.id = b.id GROUP BY a.k",
    "SELECT /*+ MERGE(b), COALESCE(2) */ a.k, b.n FROM off_rows a "
    "JOIN (SELECT k, count(*) AS n FROM off_rows GROUP BY k) b ON a.k = b.k",
    "SELECT k, rank() OVER (ORDER BY sum(d)) FROM off_rows GROUP BY k",
    "SELECT id FROM off_rows o WHERE d > (SELECT avg(d) FROM off_rows i WHERE i.k = o.k)",
    "SELECT * FROM (SELECT k, t, d FROM off_rows) PIVOT (sum(d) FOR t IN (true, false))",
    "SELECT k FROM off_rows INTERSECT ALL SELECT id FROM off_rows",
]

# What a Python without the plugin does: it prints one JSON object.
WITHOUT_PLUGIN = """
import json, sys
from pyspark.sql import SparkSession
import saltwise

spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "4")
    .config("spark.sql.session.timeZone", "UTC")
    .getOrCreate()
)
asked = json.load(sys.stdin)
for view in asked["views"]:
    spark.sql(view)
answer = {"plans": [spark.sql("EXPLAIN EXTENDED " + query).first()[0] for query in asked["queries"]]}
answer["loaded"] = saltwise.status(spark).loaded
df = spark.table("off_rows")
calls = {
    "skew_groupby": lambda: df.skew_groupby("k"),
    "function": lambda: saltwise.skew_groupby(df, "k", strategy="pkg"),
    "skew_report": lambda: saltwise.skew_report(df, "k"),
    "configure": lambda: saltwise.configure(SparkSession.builder),
}
for name, call in calls.items():
    try:
        call()
    except saltwise.SaltwiseError as e:
        answer[name] = [type(e).__name__, str(e)]
print(json.dumps(answer))
"""

# What an application with the plugin does: it prints whether Saltwise listens after each query, and what it planned.
FOLLOWED = """
import json, sys
from pyspark.sql import SparkSession
import saltwise

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
for name in sys.argv[1:]:
    builder.config(name, "true")
spark = saltwise.configure(builder.config("spark.sql.shuffle.partitions", "4")).getOrCreate()
asked = json.load(sys.stdin)
for view in asked["views"]:
    spark.sql(view)
answer = {}
for query in asked["queries"]:
    df = spark.sql(query)
    df.collect()
    plan = str(df._jdf.queryExecution().executedPlan())
    listens = "saltwise" in str(spark.sparkContext._jsc.sc().listenerBus().activeQueues())
    answer[query] = [listens, any(name in plan for name in ("SkewRoute", "RepeatableOrder"))]
print(json.dumps(answer))
"""


@pytest.fixture(scope="module")
def without_plugin() -> dict[str, Any]:
    answer, _ = run(WITHOUT_PLUGIN, queries=QUERIES)
    return answer


def run(script: str, *arguments: str, queries: list[str], home: Path | None = None) -> tuple[dict[str, Any], str]:
    """Run a script in a Python and a Spark of its own, or the one at `home`; return what it answers, and its log."""
    asked = json.dumps({"views": VIEWS, "queries": queries})
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, "SPARK_HOME": str(home)} if home else None,
        input=asked,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer, done.stderr


def numbered(plan: str) -> str:
    """Number the ids of a plan in the order in which they come, since they differ from session to session."""
    ids: dict[str, str] = {}
    return re.sub(r"#\d+|plan_id=\d+", lambda found: ids.setdefault(found[0], f"#id{len(ids)}"), plan)


@pytest.mark.smoke
def test_with_the_conf_off_plans_equal_those_without_the_extension(
    spark: SparkSession, without_plugin: dict[str, Any]
) -> None:
    for view in VIEWS:
        spark.sql(view)
    ours = [spark.sql(f"EXPLAIN EXTENDED {query}").collect()[0][0] for query in QUERIES]
    spark.catalog.dropTempView("off_rows")

    for plan, plan_without in zip(ours, without_plugin["plans"], strict=True):
        assert numbered(plan) == numbered(plan_without)


def test_the_comparison_of_plans_would_see_a_rewrite(spark: SparkSession, without_plugin: dict[str, Any]) -> None:
    for view in VIEWS:
        spark.sql(view)
    hinted = QUERIES[0].replace("SELECT", "SELECT /*+ SKEW_GROUPBY(pkg) */")
    ours = spark.sql(f"EXPLAIN EXTENDED {hinted}").collect()[0][0]
    spark.catalog.dropTempView("off_rows")

    assert numbered(ours) != numbered(without_plugin["plans"][0])


@pytest.mark.smoke
@pytest.mark.parametrize("call", ["skew_groupby", "function", "skew_report"])
def test_a_session_without_the_extension_is_told_how_to_get_it(
    spark: SparkSession, without_plugin: dict[str, Any], call: str
) -> None:
    assert without_plugin["loaded"] is False
    assert without_plugin[call] == [
        "PluginMissingError",
        "This session runs without the Saltwise extension: start it with "
        "saltwise.configure(SparkSession.builder).getOrCreate(), or with --jars "
        f"{saltwise.jar_path(spark.version)} --conf spark.sql.extensions={EXTENSION}.",
    ]


def test_configuring_a_spark_that_runs_already_is_refused(without_plugin: dict[str, Any]) -> None:
    assert without_plugin["configure"] == [
        "SaltwiseError",
        "This process has started Spark already, which reads spark.jars and spark.sql.extensions only when it starts: call "
        "saltwise.configure before the first session of this process (in a notebook: restart the kernel), or "
        f"start Spark with --jars {saltwise.jar_path()} --conf spark.sql.extensions={EXTENSION}.",
    ]


def test_nothing_listens_to_an_application_until_a_query_concerns_saltwise() -> None:
    plain, hinted = QUERIES[0], QUERIES[0].replace("SELECT", "SELECT /*+ SKEW_GROUPBY(pkg) */")
    answer, _ = run(FOLLOWED, queries=[plain, hinted])
    assert answer == {plain: [False, False], hinted: [True, True]}


def test_a_conf_that_is_none_of_ours_is_warned_of_once() -> None:
    answer, log = run(FOLLOWED, "spark.saltwise.enable", "spark.saltwise.ui.enabled", queries=QUERIES[:2])
    assert answer[QUERIES[0]] == [False, False]
    told = "spark.saltwise.enable is no conf of Saltwise, and has no effect; did you mean spark.saltwise.enabled?"
    assert log.count(told) == log.count("is no conf of Saltwise") == 1


def test_skew_worker_has_its_order_in_the_first_query_of_an_application() -> None:
    worker = "SELECT skew_worker(6, 'pkg', k) FROM (SELECT /*+ REPARTITION(4, id) */ * FROM off_rows)"
    answer, _ = run(FOLLOWED, queries=[worker])
    assert answer[worker][1]
