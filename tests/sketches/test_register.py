"""saltwise.register: the SQL functions of a session without the plugin, held against the plugin's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession

import saltwise
from saltwise import SaltwiseValueError
from saltwise.sketches.space_saving import SpaceSaving
from saltwise.spark.sql_functions.udfs import udfs
from saltwise.strategies import ROUTING

# Runs queries in a session without the plugin; prints what each of them returns, or why it is refused.
WITHOUT_PLUGIN = """
import json, re, sys
from pyspark.sql import SparkSession, functions as F
import saltwise

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.ui.showConsoleProgress", "false")
# One shuffle partition is quicker; Saltwise is told of four, as many as the session of the tests has.
builder = builder.config("spark.sql.shuffle.partitions", "1").config("spark.saltwise.partitions", "4")
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
queries = json.load(sys.stdin)
answers = {"": [saltwise.register(spark), saltwise.status(spark).loaded]}
for query in queries:
    try:
        answers[query] = sorted(str(tuple(row)) for row in spark.sql(query).collect())
    except Exception as error:
        answers[query] = re.search(r"SaltwiseValueError: (.*)", str(error))[1]
rows = spark.range(900).select((F.col("id") % 10 % 4).alias("k"), "id")
grouped = rows.skew_groupby("k", engine="arrow", strategy="wchoices").agg(F.count("*"), F.avg("id"))
answers["engine"] = [sorted(map(str, grouped.collect())), sorted(map(str, rows.groupBy("k").agg(F.count("*"), F.avg("id")).collect()))]
print(json.dumps(answers))
"""

WORDS = (
    "(SELECT IF(id % 11 = 0, NULL, concat('w', pmod(xxhash64(id), 1 + id % 40))) AS k, id FROM range(0, 3000, 1, 2))"
)
LONGS = "(SELECT CAST(pmod(xxhash64(id), 1 + id % 40) AS BIGINT) AS k, id FROM range(0, 3000, 1, 2))"

# What both sessions answer alike.
ALIKE = [
    f"SELECT heavy_hitters(k, 3, 500), heavy_hitters(k), base64(space_saving_agg(k, 50)) FROM {WORDS}",
    f"SELECT id % 3, heavy_hitters(k, 2) FROM {WORDS} GROUP BY 1",
    f"SELECT base64(space_saving_agg(k)), base64(space_saving_agg(k, 50)), base64(space_saving_agg(INT(k), 50)), "
    f"base64(space_saving_agg(INT(k), 50, id % 7)), base64(space_saving_agg(INT(k), 50, (id % 7) / 2.0D)) FROM {LONGS}",
    f"SELECT base64(space_saving_merge(s)) FROM (SELECT id % 5, space_saving_agg(k, 45) AS s FROM {WORDS} GROUP BY 1)",
    "SELECT s, space_saving_top(s) FROM (SELECT space_saving_merge(s) AS s FROM VALUES (CAST(NULL AS BINARY)) AS t(s))",
    f"SELECT space_saving_top(s, 4), space_saving_top(s), space_saving_estimate(s, 1) FROM "
    f"(SELECT space_saving_agg(k, 500) AS s FROM {LONGS})",
    f"SELECT space_saving_estimate(s, 'w0'), space_saving_estimate(s, 7), space_saving_estimate(s, NULL) FROM "
    f"(SELECT space_saving_agg(k, 500) AS s FROM {WORDS})",
]


def routed(key: str) -> str:
    """Return the query for the worker of each row, by each strategy that routes."""
    workers = ", ".join(f"skew_worker(12, '{strategy}', {key})" for strategy in ROUTING)
    return f"SELECT id, {workers} FROM {WORDS}"


CONSTANT = "it must be a constant whole number from 1 to"
ITEMS = (
    "items are of type double; they must be strings, or whole numbers (below 2^53 among NULLs): cast them to string."
)
CALL = "call it as skew_worker(n, strategy, xxhash64(key, ...)), where n and strategy are constants."
# How a function is called, and why it is refused. Spark starts its Python worker anew after each, so one goes there.
REFUSED_BY_SPARK = f"SELECT heavy_hitters(k, 0) FROM {WORDS}"
REFUSED: list[tuple[str, list[list[Any]], str]] = [
    ("heavy_hitters", [["a", "b"], [0, 0]], f"k is 0; {CONSTANT} 80."),
    ("heavy_hitters", [["a", "b"], [20, 20], [10, 10]], f"k is 20; {CONSTANT} 10."),
    ("heavy_hitters", [["a", "b"], [1, 2]], f"k is not constant; {CONSTANT} 80."),
    ("heavy_hitters", [["a"], [2], [0]], f"capacity is 0; {CONSTANT} 16777216."),
    ("space_saving_agg", [["a", "b"], [1.5, 1.5]], f"capacity is 1.5; {CONSTANT} 16777216."),
    ("space_saving_agg", [["a"], [5], [-1.0]], "the weight of a row is -1.0; it must be a number from 0 to 2^53."),
    ("space_saving_agg", [[1.5, 2.0]], ITEMS),
    ("space_saving_agg", [[9007199254740993, None]], ITEMS),
    ("space_saving_agg", [[0.5, None]], ITEMS),
    (
        "space_saving_top",
        [[b"\0"]],
        "these 1 bytes are not a SpaceSaving sketch; give the binary result of space_saving_agg or of to_bytes.",
    ),
    (
        "space_saving_estimate",
        [[SpaceSaving(5).to_bytes()], ["a"]],
        "the sketch counts items of type bigint, not string; look up items of that type only.",
    ),
    ("skew_worker", [[4], ["hash"], ["a"]], f"skew_worker got 4, hash, a; {CALL}"),
    ("skew_worker", [[4], ["hash"], [1], [2]], f"skew_worker got 4, hash, 1, 2; {CALL}"),
    ("skew_worker", [[4, 5], ["hash", "hash"], [1, 2]], f"skew_worker got 4, hash, 1; {CALL}"),
    (
        "skew_worker",
        [[4], ["auto"], [1]],
        f"strategy is 'auto'; it must be one of {', '.join(ROUTING)}.",
    ),
]
NULLS_AMONG_NUMBERS = "SELECT heavy_hitters(k, 2) FROM VALUES (7L), (NULL), (7L) AS t(k)"
TWO_PHASES = (
    "SELECT k, sum(n) FROM (SELECT k, worker, count(*) AS n FROM (SELECT k, skew_worker(8, 'pkg', xxhash64(k)) AS worker "
    f"FROM (SELECT * FROM {WORDS} SORT BY xxhash64(k, id))) GROUP BY k, worker) GROUP BY k"
)


@pytest.fixture(scope="module")
def without_plugin() -> dict[str, Any]:
    """What a session without the plugin answers, by query."""
    saltwise._java.ensure_java()
    queries = [*ALIKE, routed("xxhash64(k)"), REFUSED_BY_SPARK, NULLS_AMONG_NUMBERS, TWO_PHASES]
    # It is a classic session, whatever the one of the tests is.
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_CONNECT_MODE_ENABLED"}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PLUGIN],
        input=json.dumps(queries),
        env=environment | {"PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answers


def test_the_functions_are_registered(without_plugin: dict[str, Any]) -> None:
    names = ["heavy_hitters", "skew_worker", "space_saving_agg", "space_saving_estimate", "space_saving_merge"]

    assert without_plugin[""] == [[*names, "space_saving_top"], False]


def test_where_the_plugin_is_loaded_its_functions_stay(spark: SparkSession) -> None:
    assert saltwise.register(spark) == ()
    assert spark.sql("SELECT skew_worker(4, 'hash', 'a')").first() == (2,)


def answer(spark: SparkSession, query: str) -> list[str]:
    return sorted(str(tuple(row)) for row in spark.sql(query).collect())


def test_both_sessions_answer_alike(spark: SparkSession, without_plugin: dict[str, Any]) -> None:
    for query in ALIKE:
        assert without_plugin[query] == answer(spark, query), query


def test_each_row_has_the_worker_that_the_plugin_gives_it(spark: SparkSession, without_plugin: dict[str, Any]) -> None:
    assert without_plugin[routed("xxhash64(k)")] == answer(spark, routed("k"))


@pytest.mark.parametrize(("name", "arguments", "message"), REFUSED)
def test_wrong_arguments_are_refused(spark: SparkSession, name: str, arguments: list[list[Any]], message: str) -> None:
    columns = tuple(map(pd.Series, arguments))
    function = udfs({"partitions": "4"})[name].func
    with pytest.raises(SaltwiseValueError) as refused:
        list(function(iter([columns])) if name == "skew_worker" else function(*columns))

    assert str(refused.value) == message


def test_spark_says_why_arguments_are_refused(without_plugin: dict[str, Any]) -> None:
    assert without_plugin[REFUSED_BY_SPARK] == f"k is 0; {CONSTANT} 80."


def test_numbers_among_nulls_are_counted_as_whole_numbers(without_plugin: dict[str, Any]) -> None:
    assert (
        "[Row(item='7', count=2, error=0), Row(item=None, count=1, error=0)]" in without_plugin[NULLS_AMONG_NUMBERS][0]
    )


def test_two_phases_by_hand_count_as_one_does(spark: SparkSession, without_plugin: dict[str, Any]) -> None:
    assert without_plugin[TWO_PHASES] == answer(spark, f"SELECT k, count(*) FROM {WORDS} GROUP BY k")


def test_the_arrow_engine_needs_no_plugin(without_plugin: dict[str, Any]) -> None:
    ours, stock = without_plugin["engine"]

    assert ours == stock
