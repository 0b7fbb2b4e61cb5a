"""skew_report and skew_groupby, as a user sees them."""

from __future__ import annotations

import builtins
import math
import re
import sys
from collections.abc import Callable
from datetime import timedelta
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

import saltwise
from saltwise import SaltwiseValueError, skew_groupby
from saltwise.placement.consistent_hash import ConsistentHash
from saltwise.placement.largest_first import largest_first
from saltwise.placement.partition_function import UniformHash
from saltwise.strategies import STRATEGIES

if TYPE_CHECKING:
    from tests.agree import WithConf
    from tests.conftest import SaltwiseLines


@pytest.fixture(scope="module")
def visits(spark: SparkSession) -> DataFrame:
    """1000 rows: 40 % of user 'u0' in 'de', 10 % NULL users, the others once or twice."""
    return (
        spark.range(0, 1000, 1, 4)
        .selectExpr(
            "CASE WHEN id % 10 < 4 THEN 'u0' WHEN id % 10 = 4 THEN NULL ELSE concat('u', id) END AS user",
            "if(id % 10 < 4, 'de', 'fr') AS country",
            "id AS ms",
        )
        .cache()
    )


@pytest.fixture(scope="module")
def report(visits: DataFrame) -> saltwise.SkewReport:
    return saltwise.skew_report(visits, "user", partitions=10)


def test_the_report_names_hot_keys_with_their_bounds(report: saltwise.SkewReport) -> None:
    assert report.rows == 1000
    assert [(hot.key, hot.count, hot.lower) for hot in report.hot_keys] == [(("u0",), 400, 400), ((None,), 100, 100)]
    assert report.predicted["hash"] == pytest.approx(4.5, abs=0.7)
    assert report.predicted["wchoices"] == pytest.approx(1)
    assert report.advice.startswith("Key u0 has 40% of the rows")


def test_the_report_takes_several_columns_and_expressions(visits: DataFrame) -> None:
    report = saltwise.skew_report(visits, "user", F.upper("country").alias("land"), partitions=10)
    assert report.keys == ("user", "land")
    assert report.hot_keys[0].key == ("u0", "DE")


def test_the_report_prints_as_a_table_and_renders_as_html(report: saltwise.SkewReport) -> None:
    text = str(report)
    assert re.search(r"auto, for states that grow: Left alone: its input has", text), text
    assert "Skew of user: 1,000 rows on 10 tasks; a key is hot if it has 0.02 of them or more (theta)" in text
    assert "│ u0" in text
    assert "40.00%" in text
    html = report._repr_html_()
    assert "<td>u0</td><td>400</td>" in html


def test_the_report_gives_a_dict_and_a_pandas_frame(report: saltwise.SkewReport) -> None:
    assert report.to_dict()["hot_keys"][0]["count"] == 400
    frame = report.to_pandas()
    assert list(frame.columns) == ["user", "count", "lower", "share"]
    assert frame.iloc[0].tolist() == ["u0", 400, 400, 0.4]


def test_the_report_predicts_placements_and_what_none_of_them_can(report: saltwise.SkewReport) -> None:
    assert set(report.placements) == {"hash", "consistent", "offgreedy", "level"}
    assert report.lower_bound == 4
    # The hash adds its share of the users that nobody knows.
    assert report.placements["offgreedy"] == pytest.approx(4, abs=0.6)
    assert report.placements["hash"] == pytest.approx(report.predicted["hash"], rel=0.05)
    assert all(value >= report.lower_bound for value in report.placements.values())
    assert report.placement_advice.startswith(
        "Splitting is needed to go below 4.00: the heaviest key alone has that many times the mean of 10 tasks; "
    )
    assert re.search(
        r"Keys that are not known have [345]\d% of the rows and count as spread by the hash, so a task may be "
        r"off by some 0\.\d\d of the mean\.$",
        report.placement_advice,
    )
    assert "│ lower bound" in str(report)
    assert "<td>lower bound</td><td>4.00</td>" in report._repr_html_()


def test_the_report_predicts_what_sparks_own_hash_does(spark: SparkSession) -> None:
    df = spark.range(0, 20_000, 1, 2).selectExpr("CAST(pow(300, (id * 7919 % 100003) / 100003.0) AS INT) AS k")
    report = saltwise.skew_report(df, "k", partitions=8, theta=0.001)
    partitions = df.repartition(8, "k").groupBy(F.spark_partition_id()).count().collect()
    assert report.predicted["stock"] == pytest.approx(max(row["count"] for row in partitions) / 20_000 * 8)


def test_where_all_keys_are_known_placement_is_predicted_as_it_comes_out(spark: SparkSession) -> None:
    df = spark.range(0, 20_000, 1, 2).selectExpr("cast(pow(300, (id * 7919 % 100003) / 100003.0) AS int) AS k")
    report = saltwise.skew_report(df, "k", partitions=8, theta=0.001)
    counts = df.groupBy(F.xxhash64("k").alias("hash")).count().collect()
    hashes, rows = np.array([row["hash"] for row in counts]), np.array([row["count"] for row in counts])
    functions = {
        "hash": UniformHash(8),
        "consistent": ConsistentHash(8),
        "offgreedy": largest_first(hashes, rows / rows.sum(), 8),
    }
    for name, function in functions.items():
        fullest = np.bincount(function.place(hashes), rows, 8).max() / rows.sum() * 8
        assert report.placements[name] == pytest.approx(fullest), name
    assert report.lower_bound == pytest.approx(max(1, rows.max() / rows.sum() * 8))


def test_where_no_placement_beats_the_hash_the_report_says_so(spark: SparkSession) -> None:
    report = saltwise.skew_report(spark.range(20).selectExpr("'one' AS k"), "k", partitions=5)
    assert "; the hash comes to 5.00, and no placement to less. Keys that" in report.placement_advice


def test_a_name_is_no_dataframe(spark: SparkSession) -> None:
    with pytest.raises(SaltwiseValueError) as error:
        saltwise.skew_report("visits", "user")  # type: ignore[arg-type]
    assert (
        str(error.value) == "df is the text 'visits'; it must be a DataFrame of Spark, such as spark.table('visits')."
    )


def test_rows_of_pandas_are_no_dataframe_of_spark(spark: SparkSession) -> None:
    with pytest.raises(SaltwiseValueError) as error:
        saltwise.skew_report(pd.DataFrame({"k": [1]}), "k")
    assert str(error.value) == "df is a pandas.DataFrame; it must be a DataFrame of Spark."
    with pytest.raises(SaltwiseValueError) as error:
        saltwise.skew_groupby(None, "k")  # type: ignore[call-overload]
    assert str(error.value) == "df is None; it must be a DataFrame of Spark."


def test_keys_of_which_none_is_too_heavy_need_no_splitting(spark: SparkSession) -> None:
    report = saltwise.skew_report(spark.range(20).selectExpr("id % 5 AS k"), "k", partitions=5)
    assert report.lower_bound == 1
    assert report.placements["offgreedy"] == pytest.approx(1)
    assert report.placement_advice.startswith(
        "No splitting is needed: the heaviest key has no more than the mean of 5 tasks; placement by offgreedy comes to 1.00, "
    )
    assert " Keys that are not known have 0% of the rows" in report.placement_advice


def test_without_numpy_the_report_says_what_placements_need(visits: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_numpy(name: str, module: Any = None, *more: Any) -> Any:
        # Spark imports numpy too, if it is there.
        if name == "numpy" and module["__name__"] == "saltwise.placement.prediction":
            raise ModuleNotFoundError(name="numpy")
        return imported(name, module, *more)

    imported = builtins.__import__
    monkeypatch.delitem(sys.modules, "saltwise.placement.prediction", raising=False)
    monkeypatch.setattr(builtins, "__import__", without_numpy)
    report = saltwise.skew_report(visits, "user", partitions=10)
    assert report.placements == {}
    assert report.placement_advice == "Predicting placements needs numpy: run pip install 'saltwise[arrow]'."


def test_even_keys_are_left_alone_by_the_advice(spark: SparkSession) -> None:
    report = saltwise.skew_report(spark.range(10_000), "id", partitions=4)
    assert report.hot_keys == ()
    assert report.advice == "Leave it alone: by key, the largest of 4 tasks gets 1.00 times the mean."


def test_no_rows_give_an_empty_report(spark: SparkSession) -> None:
    report = saltwise.skew_report(spark.range(0), "id", partitions=4)
    assert (report.rows, report.hot_keys) == (0, ())
    assert report.advice == "There are no rows, so there is nothing to balance."
    assert (report.placements, report.lower_bound) == ({}, 1.0)
    assert report.placement_advice == "There are no rows, so there is nothing to place."


def test_where_no_key_is_heavy_the_report_still_counts_the_rows(spark: SparkSession) -> None:
    report = saltwise.skew_report(spark.range(6000).repartition(2), "id", partitions=200)
    assert (report.rows, report.hot_keys) == (6000, ())
    assert report.advice.startswith("Leave it alone: ")
    assert report.placement_advice.startswith("No splitting is needed: ")


def test_one_worker_is_balanced_whatever_its_keys(spark: SparkSession) -> None:
    report = saltwise.skew_report(spark.range(20).selectExpr("'one' AS k"), "k", partitions=1)
    assert set(report.placements.values()) == {1.0}
    assert report.placement_advice.startswith("No splitting is needed: ")


def test_a_report_on_a_stream_is_refused(spark: SparkSession) -> None:
    with pytest.raises(SaltwiseValueError) as error:
        saltwise.skew_report(spark.readStream.format("rate").load(), "value")
    assert str(error.value) == "df is a stream; it must be a batch: read its source with spark.read."


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("map(1, 2)", "key 'k' is of type map<int,int>; it must hold no map or variant or interval: "),
        ("struct(array(map(1, 2)) AS a)", "key 'k' is of type struct<a:array<map<int,int>>>; it must hold no map"),
        ("array(" * 20 + "1" + ")" * 20, "key 'k' has 20 levels of structs and arrays; it must have at most 19: "),
    ],
)
def test_a_report_on_a_key_that_no_sketch_takes_is_refused(spark: SparkSession, key: str, message: str) -> None:
    with pytest.raises(SaltwiseValueError) as error:
        saltwise.skew_report(spark.range(3).selectExpr(f"{key} AS k"), "k")
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(("key", "kind"), [("parse_json('1')", "variant"), ("make_interval(1)", "interval")])
def test_a_report_on_a_key_without_an_order_is_refused(
    spark: SparkSession, version: tuple[int, ...], key: str, kind: str
) -> None:
    if version < (4, 0):
        pytest.skip("Spark 3.5 has no variants, and its Python no such intervals")
    with pytest.raises(SaltwiseValueError) as error:
        saltwise.skew_report(spark.range(3).selectExpr(f"{key} AS k"), "k")
    assert str(error.value) == (
        f"key 'k' is of type {kind}; it must hold no map or variant or interval: take a part of it, or the map_entries "
        "of a map."
    )


def test_a_key_that_python_has_no_value_for_is_shown_as_text(spark: SparkSession) -> None:
    df = spark.range(3).selectExpr("struct(INTERVAL '1-2' YEAR TO MONTH AS m) AS k")
    [hot] = saltwise.skew_report(df, "k", partitions=3).hot_keys
    assert (hot.key, hot.count) == (("{INTERVAL '1-2' YEAR TO MONTH}",), 3)


def test_a_report_without_a_key_column_is_refused(spark: SparkSession) -> None:
    with pytest.raises(SaltwiseValueError) as error:
        saltwise.skew_report(spark.range(3))
    assert str(error.value) == "keys is empty; name at least one column to group by."


KINDS = {
    "boolean": "id % 2 = 0",
    "int": "cast(id % 3 AS int)",
    "decimal(20,2)": "cast(id % 3 AS decimal(20,2))",
    "double": "if(id % 3 = 0, double('NaN'), -0.0)",
    "string": "concat('a\"b', id % 3)",
    "binary": "unhex(concat('FF0', id % 3))",
    "date": "date_add(date'2020-02-28', cast(id % 3 AS int))",
    "timestamp": "timestamp'2021-03-28 01:30:00.123456' + make_interval(0, 0, 0, cast(id % 3 AS int))",
    "timestamp_ntz": "timestamp_ntz'2021-03-28 01:30:00.123456'",
    "struct": "struct(id % 3 AS a, 'x' AS b)",
    "array": "array(id % 3, NULL)",
    "interval": "make_dt_interval(0, cast(id % 3 AS int))",
    "hours": "INTERVAL '-27:30' HOUR TO MINUTE",
    "infinite": "float('-Infinity')",
    "nested": "struct(timestamp'2021-03-28 01:30:00.123456' AS t, timestamp_ntz'2021-03-28 01:30:00.123456' AS n, "
    "date'2020-02-28' AS d, 1.50BD AS x, X'FF00' AS b, double('NaN') AS f, array(id % 3, NULL) AS a, struct('x' AS s) AS s)",
}


@pytest.mark.parametrize(
    "kinds",
    [pytest.param([*KINDS], id="all"), *(pytest.param([kind], id=kind, marks=pytest.mark.full) for kind in KINDS)],
)
def test_the_hot_keys_of_a_report_are_found_again_whatever_their_type(
    spark: SparkSession, with_conf: WithConf, metric_that_ran: Callable[[str], int], kinds: list[str]
) -> None:
    df = spark.range(0, 300, 1, 2).selectExpr(*(f"{KINDS[kind]} AS k{i}" for i, kind in enumerate(kinds)))
    report = saltwise.skew_report(df, *df.columns, partitions=3)
    values = df.distinct().collect()
    for hot in report, values, [tuple(key) for key in values]:
        grouped = skew_groupby(df, *df.columns, strategy="wchoices", hot=hot, partitions=3).count()
        with with_conf({"spark.sql.adaptive.enabled": False}):
            grouped.select("count").collect()
        assert metric_that_ran("head rows") == 300


@pytest.mark.parametrize(
    ("key", "hot"),
    [
        ("X'FF00'", [b"\xff\x00"]),
        ("struct(id % 1 AS a, 'x' AS b)", [Row(a=0, b="x")]),
        ("struct(id % 1 AS a, 'x' AS b)", {(0, "x"): 1}),
        ("struct(id % 1 AS a)", [Row(a=0)]),
        ("struct(struct(id % 1 AS a) AS s)", [(Row(s=Row(a=0)),)]),
        ("double('NaN')", [math.nan]),
        ("INTERVAL '1' SECOND", {timedelta(seconds=1): 1.0}),
    ],
)
def test_a_hot_key_is_the_value_that_spark_gives(
    spark: SparkSession, with_conf: WithConf, metric_that_ran: Callable[[str], int], key: str, hot: Any
) -> None:
    df = spark.range(0, 300, 1, 2).selectExpr(f"{key} AS k")
    with with_conf({"spark.sql.adaptive.enabled": False}):
        skew_groupby(df, "k", strategy="wchoices", hot=hot, partitions=3).count().select("count").collect()
    assert metric_that_ran("head rows") == 300


def test_what_skew_groupby_returns_has_everything_of_sparks_grouped_data(visits: DataFrame) -> None:
    grouped = visits.skew_groupby("user", strategy="pkg")
    assert type(grouped) is saltwise.SkewGroupedData
    of_spark = {name for name in dir(visits.groupBy("user")) if not name.startswith("_")} - {"session", "is_cached"}
    assert of_spark <= {name for name in dir(saltwise.SkewGroupedData) if not name.startswith("_")}
    assert sorted(grouped.max("ms").collect(), key=str) == sorted(visits.groupBy("user").max("ms").collect(), key=str)


def test_skew_groupby_takes_what_groupby_takes(visits: DataFrame) -> None:
    for columns in (["country"], [["country"]], [F.col("country")], [visits["country"], F.lit(1)]):
        found = skew_groupby(visits, *columns, strategy="dchoices").count().collect()
        assert sorted((row["country"], row["count"]) for row in found) == [("de", 400), ("fr", 600)]


def test_a_pivot_gives_the_answer_of_spark(visits: DataFrame) -> None:
    ours = skew_groupby(visits, "user", strategy="wchoices").pivot("country").agg(F.collect_list("ms").alias("x"))
    stock = visits.groupBy("user").pivot("country").agg(F.collect_list("ms").alias("x"))
    rows = [
        sorted((row["user"] or "", sorted(row["de"]), sorted(row["fr"])) for row in df.collect())
        for df in (ours, stock)
    ]
    assert rows[0] == rows[1]


def test_cogroups_give_the_answer_of_spark_by_its_own_plan(visits: DataFrame, saltwise_lines: SaltwiseLines) -> None:
    def sizes(left: Any, right: Any) -> Any:
        import pandas as pd

        return pd.DataFrame({"left": [len(left)], "right": [len(right)]})

    many, few = visits.where("ms < 100"), visits.where("ms < 10")
    ways = [
        many.groupBy("country").cogroup(few.groupBy("country")),
        skew_groupby(many, "country").cogroup(skew_groupby(few, "country")),
        skew_groupby(many, "country").cogroup(few.groupBy("country")),
        many.groupBy("country").cogroup(skew_groupby(few, "country")),  # type: ignore[arg-type]
    ]
    answers = [way.applyInPandas(sizes, "left long, right long") for way in ways]
    rows = reduce(DataFrame.unionAll, [df.withColumn("way", F.lit(i)) for i, df in enumerate(answers)]).collect()
    found = [sorted((row["left"], row["right"]) for row in rows if row["way"] == i) for i in range(len(ways))]
    assert found == [[(40, 4), (60, 6)]] * 4
    assert [saltwise_lines(df) for df in answers] == [[]] * 4


@pytest.mark.parametrize(
    ("hint", "message"),
    [
        (
            "SKEW_GROUPBY(pgk)",
            f"strategy is 'pgk'; it must be one of {', '.join(STRATEGIES)}; did you mean 'pkg'?",
        ),
        (
            "SKEW_GROUPBY(pkg, 'partition=3')",
            "option is 'partition'; it must be one of choices, epsilon, hot, partitions, placement.cost, "
            "placement.function, sketch.capacity, strategy, theta; did you mean 'partitions'?",
        ),
        (
            "SKEW_GROUPBY('theta=2')",
            "theta is 2; it must be a share above 0 and at most 1.",
        ),
        (
            "SKEW_GROUPBY('partitions=many')",
            "partitions is 'many'; it must be a number.",
        ),
        (
            "SKEW_GROUPBY(pkg, dchoices)",
            "SKEW_GROUPBY got (pkg, dchoices); it takes a strategy first and then 'option=value' strings, such as "
            "SKEW_GROUPBY(dchoices, 'partitions=200').",
        ),
        (
            """SKEW_GROUPBY(pkg, 'hot=[{"key": ["a", 1]}]')""",
            'hot key ["a",1] has 2 values; it must have one for each of the 1 grouping columns.',
        ),
        (
            """SKEW_GROUPBY(pkg, 'hot=[{"key": ["a"]}]')""",
            'hot key value "a" is not of type BIGINT; give a value of that type.',
        ),
        (
            "SKEW_GROUPBY(pkg, 'hot=UA')",
            'hot is UA; it must be a list such as [{"key": ["UA"], "share": 0.17}]; share may be left out.',
        ),
    ],
)
def test_a_wrong_hint_is_refused_in_one_sentence(spark: SparkSession, hint: str, message: str) -> None:
    with pytest.raises(PySparkException) as error:
        spark.sql(f"SELECT /*+ {hint} */ id, collect_list(1) FROM range(10) GROUP BY id").collect()
    assert str(error.value).splitlines()[0] == message


@pytest.mark.parametrize(
    "shuffle",
    [
        "df.repartition(5, 'v')",
        "df.repartition(5).where('v >= 0')",
        pytest.param("df.repartition(5)", marks=pytest.mark.full),
    ],
)
def test_the_hint_outlives_the_stages_that_aqe_runs_below_it(
    spark: SparkSession, plan_that_ran: Callable[[], str], shuffle: str
) -> None:
    df = spark.range(0, 1000, 1, 4).selectExpr("id % 3 AS k", "id AS v")
    grouped = skew_groupby(eval(shuffle, {"df": df}), "k", strategy="pkg").agg(F.sum("v"))
    assert len(grouped.collect()) == 3
    final = plan_that_ran()
    assert "isFinalPlan=true" in final
    assert "SkewRoute" in final
