"""The sketch functions: what they return of few rows and of NULL, in any order, what they refuse, and their documentation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from tests.sketches.refused import refusal, type_refusal

if TYPE_CHECKING:
    from tests.agree import WithConf

FUNCTIONS = json.loads((Path(__file__).parents[2] / "sql" / "functions.json").read_text())


def test_no_rows_make_an_empty_sketch(spark: SparkSession) -> None:
    [row] = spark.sql("""
        SELECT heavy_hitters(id) AS top, space_saving_top(space_saving_agg(id)) AS stored,
          space_saving_estimate(space_saving_agg(id), 7L) AS estimate,
          space_saving_merge(CAST(IF(id > 0, X'00', NULL) AS BINARY)) AS merged
        FROM range(10) WHERE id < 0""").collect()

    assert (row.top, row.stored, row.merged) == ([], [], None)
    assert tuple(row.estimate) == (0, 0, 0)


def test_null_sketches_are_passed_over(spark: SparkSession) -> None:
    [row] = spark.sql("""
        SELECT space_saving_top(space_saving_merge(IF(id > 1, NULL, sketch))) AS top,
          space_saving_top(CAST(NULL AS BINARY)) AS of_null,
          space_saving_estimate(CAST(NULL AS BINARY), 7) AS estimate_of_null
        FROM (SELECT id, space_saving_agg(id) AS sketch FROM range(4) GROUP BY id)""").collect()

    assert sorted(tuple(item) for item in row.top) == [("0", 1, 0), ("1", 1, 0)]
    assert (row.of_null, row.estimate_of_null) == (None, None)


@pytest.mark.smoke
def test_k_is_the_most_that_is_returned(spark: SparkSession) -> None:
    [row] = spark.sql("""
        SELECT heavy_hitters(id % 30) AS ten, heavy_hitters(id % 30, 3) AS three,
          space_saving_top(space_saving_agg(id % 30)) AS stored_ten,
          space_saving_top(space_saving_agg(id % 30), 3) AS stored_three
        FROM range(100)""").collect()

    assert [len(row.ten), len(row.three), len(row.stored_ten), len(row.stored_three)] == [10, 3, 10, 3]
    assert [item["count"] for item in row.ten] == [4] * 10


def test_interpreted_and_generated_code_agree(spark: SparkSession, with_conf: WithConf) -> None:
    query = """
        SELECT k, heavy_hitters(v, 5, 20), heavy_hitters(s, 5, 20), space_saving_agg(x, 20),
          space_saving_top(space_saving_agg(s, 20), 5), space_saving_estimate(space_saving_agg(v, 20), 3L),
          space_saving_merge(sketch)
        FROM (SELECT id % 3 AS k, id % 11 AS v, CAST(id % 7 AS STRING) AS s, -(id % 2) / 1D AS x,
                space_saving_agg(id % 5) OVER (PARTITION BY id % 3) AS sketch FROM range(0, 300, 1, 2))
        GROUP BY k ORDER BY k"""
    generated = spark.sql(query).collect()
    with with_conf({"spark.sql.codegen.wholeStage": False, "spark.sql.codegen.factoryMode": "NO_CODEGEN"}):
        interpreted = spark.sql(query).collect()

    assert len(generated) == 3
    assert interpreted == generated


def test_sketches_of_the_same_rows_have_the_same_bytes_in_any_order(spark: SparkSession) -> None:
    rows = spark.sql("""
        SELECT DISTINCT space_saving_agg(v, 50) FROM (
          SELECT 1 AS run, id % 11 AS v FROM range(0, 300, 1, 2) UNION ALL
          SELECT 2, (299 - id) % 11 FROM range(0, 300, 1, 7)) GROUP BY run""").collect()

    assert len(rows) == 1


def test_sketches_of_two_capacities_merge_alike_in_any_order(spark: SparkSession) -> None:
    small = "SELECT space_saving_agg(id % 5, 2) AS sketch FROM range(50)"
    large = "SELECT space_saving_agg(id % 7, 100) AS sketch FROM range(50)"
    merge = "SELECT hex(space_saving_merge(sketch)) FROM ({} UNION ALL {})"

    assert spark.sql(merge.format(small, large)).collect() == spark.sql(merge.format(large, small)).collect()


def test_sketches_that_alternate_answer_for_their_own_items(spark: SparkSession) -> None:
    rows = spark.sql("""
        WITH rows AS (SELECT id, id % 3 AS n, IF(id < 20, 'a', 'b') AS s FROM range(30)),
          numbers AS (SELECT space_saving_agg(n) AS sketch FROM rows WHERE id < 12),
          more AS (SELECT space_saving_agg(n) AS sketch FROM rows)
        SELECT n, space_saving_estimate(sketch, n).estimate AS times
        FROM (SELECT /*+ REPARTITION(1) */ * FROM numbers UNION ALL SELECT * FROM more), (SELECT DISTINCT n FROM rows)
        ORDER BY n, times
    """).collect()

    assert [tuple(row) for row in rows] == [(n, times) for n in range(3) for times in (4, 10)]


# What is refused


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("space_saving_merge(s)", "the sketch counts items of type STRING, not INT"),
        (
            "space_saving_top(max(s) FILTER (WHERE n = 1), 3, 'bigint')",
            "the sketch counts items of type INT, not BIGINT",
        ),
        ("space_saving_estimate(max(s) FILTER (WHERE n = 1), 'a')", "the sketch counts items of type INT, not STRING"),
        ("space_saving_estimate(max(s) FILTER (WHERE n = 1), 1L)", "the sketch counts items of type INT, not BIGINT"),
    ],
)
def test_sketches_of_another_type_are_refused(spark: SparkSession, call: str, message: str) -> None:
    sketches = (
        "SELECT 1 AS n, space_saving_agg(k) AS s FROM VALUES (1) AS t(k) UNION ALL "
        "SELECT 2, space_saving_agg(k) FROM VALUES ('a') AS t(k)"
    )
    message_of_query = refusal(spark, f"SELECT {call} FROM (SELECT /*+ COALESCE(1) */ * FROM ({sketches}) ORDER BY n)")

    assert message_of_query == f"{message}; merge and query sketches of one type only."


WHOLE_NUMBER = "it must be a constant whole number from 1 to"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("heavy_hitters(k, 0)", f"k is 0; {WHOLE_NUMBER} 80."),
        ("heavy_hitters(k, -1)", f"k is -1; {WHOLE_NUMBER} 80."),
        ("heavy_hitters(k, NULL)", f"k is NULL; {WHOLE_NUMBER} 80."),
        ("heavy_hitters(k, k)", f"k is t.k; {WHOLE_NUMBER} 80."),
        ("heavy_hitters(k, '2')", f"k is '2'; {WHOLE_NUMBER} 80."),
        ("heavy_hitters(k, 2L)", f"k is 2L; {WHOLE_NUMBER} 80."),
        ("heavy_hitters(k, 20, 10)", f"k is 20; {WHOLE_NUMBER} 10."),
        ("heavy_hitters(k, 1, 0)", f"capacity is 0; {WHOLE_NUMBER} 16777216."),
        ("heavy_hitters(k, 1, 16777217)", f"capacity is 16777217; {WHOLE_NUMBER} 16777216."),
        ("space_saving_agg(k, 0)", f"capacity is 0; {WHOLE_NUMBER} 16777216."),
        ("space_saving_agg(k, 1.5)", f"capacity is 1.5BD; {WHOLE_NUMBER} 16777216."),
        ("space_saving_top(X'00', 0)", f"k is 0; {WHOLE_NUMBER} 16777216."),
        ("space_saving_top(X'00', 1, k)", "type is t.k; it must be a constant string such as 'bigint'."),
        ("space_saving_top(X'00', 1, 3)", "type is 3; it must be a constant string such as 'bigint'."),
        (
            "space_saving_top('a')",
            "sketch is of type STRING; give the binary result of space_saving_agg or space_saving_merge.",
        ),
        (
            "space_saving_estimate(k, 1)",
            "sketch is of type INT; give the binary result of space_saving_agg or space_saving_merge.",
        ),
    ],
)
def test_wrong_arguments_are_refused(spark: SparkSession, call: str, message: str) -> None:
    assert type_refusal(spark, f"SELECT {call} FROM VALUES (1), (2) AS t(k)") == message


@pytest.mark.parametrize("function", ["heavy_hitters", "space_saving_agg"])
def test_items_that_cannot_be_compared_are_refused(spark: SparkSession, function: str) -> None:
    assert type_refusal(spark, f"SELECT {function}(map(1, 2))") == (
        f'The `{function}` does not support ordering on type "MAP<INT, INT>".'
    )


@pytest.mark.parametrize("key", ["map(1, 2)", "array(map(1, 2))"])
def test_skew_worker_refuses_maps_which_may_be_equal_in_any_order(spark: SparkSession, key: str) -> None:
    kind = "MAP<INT, INT>" if key == "map(1, 2)" else "ARRAY<MAP<INT, INT>>"

    assert refusal(spark, f"SELECT skew_worker(4, 'hash', 1, {key})") == (
        f"key {key} of skew_worker is of type {kind}; it must hold no maps, give map_entries of them, sorted."
    )


def test_an_unknown_item_type_is_refused_as_spark_refuses_it(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match='Unsupported data type "NOPE"'):
        spark.sql("SELECT space_saving_top(X'00', 1, 'nope')")


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("heavy_hitters()", 0),
        ("heavy_hitters(1, 2, 3, 4)", 4),
        ("space_saving_agg()", 0),
        ("space_saving_merge()", 0),
        ("space_saving_top()", 0),
        ("space_saving_estimate(X'00')", 1),
        ("skew_worker(4, 'pkg')", 2),
        ("saltwise_version(1)", 1),
    ],
)
def test_a_wrong_number_of_arguments_is_refused(spark: SparkSession, call: str, arguments: int) -> None:
    name = call.partition("(")[0]
    [signature] = [function["signature"] for function in FUNCTIONS if function["name"] == name]

    assert refusal(spark, f"SELECT {call}") == f"{name} got {arguments} arguments; call it as {signature}."


# Documentation


def test_describe_function_tells_what_the_manifest_tells(spark: SparkSession) -> None:
    for function in FUNCTIONS:
        text = "\n".join(row[0] for row in spark.sql(f"DESCRIBE FUNCTION EXTENDED {function['name']}").collect())

        assert f"Function: {function['name']}" in text
        assert f"Usage: {function['signature']} - {function['usage']}" in text
        assert f"Since: {function['since']}" in text
        for example in function["examples"]:
            assert f"> {example['sql']}\n       {example['result']}" in text


@pytest.fixture
def orders(spark: SparkSession) -> Iterator[None]:
    """The table that the manifest's examples read."""
    spark.sql("CREATE TABLE orders USING parquet AS SELECT * FROM VALUES ('a'), ('b'), ('a'), ('a') AS t(customer)")
    yield
    spark.sql("DROP TABLE orders")


@pytest.mark.smoke
@pytest.mark.classic("print as spark-sql does")
def test_the_examples_of_the_manifest_give_their_results(spark: SparkSession, orders: None) -> None:
    for function in FUNCTIONS:
        assert function["examples"], function["name"]
        for example in function["examples"]:
            assert printed(spark, example["sql"].rstrip(";")) == example["result"].split("\n"), example["sql"]


def printed(spark: SparkSession, query: str) -> list[str]:
    """Return the lines that spark-sql prints."""
    session: Any = spark
    df: Any = spark.sql(query)
    hive = session._jvm.org.apache.spark.sql.execution.HiveResult
    lines = hive.hiveResultString(df._jdf.queryExecution().executedPlan())
    return [lines.apply(i) for i in range(lines.size())]
