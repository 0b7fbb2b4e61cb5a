"""skew_groupby(..., engine="arrow") answers as Spark does, and routes as the plugin does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.plans.events import EVENTS

import saltwise
from saltwise import SaltwiseError, SaltwiseValueError
from saltwise.options import SettledOptions, SkewOptions, settle
from saltwise.spark.two_phases.routing import routed, worker_numbers
from saltwise.strategies import ROUTING

if TYPE_CHECKING:
    from tests.agree import Agree, WithConf

# Values of several types, each list a column of the key; the first of each list owns half of the rows.
KEYS = {
    "whole numbers": [
        "true, false, NULL",
        "7Y, -128Y, NULL, 0Y",
        "7S, -32768S, NULL, 0S",
        "7, -2147483648, NULL, 0",
        "7L, -9223372036854775808L, NULL, 0L",
    ],
    "other numbers": [
        "1.50BD, -99999999.99BD, NULL, 0BD",
        "CAST(1.5 AS DECIMAL(38,18)), CAST(-1e19 AS DECIMAL(38,18)), NULL",
        "-0.0F, 0.0F, float('NaN'), float('inf') - float('inf'), float('-inf'), NULL, 1.5F",
        "-0.0D, 0.0D, double('NaN'), double('inf') - double('inf'), double('-inf'), NULL, 1.5D",
    ],
    "texts": ["'a', '', 'A', 'é', 'e\u0301', NULL, 'a '", "X'00', X'', X'0000', X'FF', NULL"],
    "times": [
        "DATE'2013-01-01', DATE'0001-01-01', NULL, DATE'9999-12-31'",
        "TIMESTAMP'2013-01-01 05:15:00', TIMESTAMP'1900-01-01 00:00:00.000001', NULL",
        "TIMESTAMP_NTZ'2013-01-01 05:15:00', TIMESTAMP_NTZ'1900-01-01 00:00:00', NULL",
        "INTERVAL '1 02:03:04.5' DAY TO SECOND, INTERVAL '-3' HOUR, NULL",
    ],
    "nested": [
        "struct(1, 'a'), struct(1, NULL), NULL, struct(NULL, 'a')",
        "array(-0.0D), array(0.0D), array(double('NaN'), NULL), NULL",
        "array(struct(array(-0.0D))), array(struct(array(0.0D))), array(NULL), NULL",
        "NULL",
    ],
}
COLLATED = [
    "'a' COLLATE UTF8_LCASE, 'A', 'b', NULL, 'É', 'é'",
    "struct('a' COLLATE UTF8_LCASE, -0.0D), struct('A', 0.0D), struct(NULL, 1D), NULL",
]


@pytest.fixture(scope="module", autouse=True)
def events(spark: SparkSession, with_conf: WithConf) -> Iterator[None]:
    # Arrow has no intervals of months.
    spark.sql(EVENTS).drop("ym").persist().createOrReplaceTempView("events")
    # For few rows, to compile a query takes longer than to run it.
    with with_conf({"spark.sql.codegen.wholeStage": False, "spark.sql.codegen.factoryMode": "NO_CODEGEN"}):
        yield
    spark.table("events").unpersist()
    spark.catalog.dropTempView("events")


def settled(strategy: str, workers: int = 4) -> SettledOptions:
    return settle(SkewOptions(strategy=strategy, partitions=workers), {})


# The same answers

CALLS = [
    *("sum(i)", "sum(l)", "sum(d)", "sum(f)", "sum(dec)", "sum(odd)", "sum(ds)", "sum(CAST(l AS STRING))"),
    *("sum(CAST(l AS DECIMAL(38, 0)))", "sum(CAST(l AS DECIMAL(20, 3)))"),
    *("avg(i)", "avg(l)", "avg(d)", "mean(f)", "avg(odd)", "avg(dec)", "avg(CAST(l AS STRING))"),
    *("count(*)", "count(1)", "count(i)", "count(i, s)", "count_if(t)"),
    *("min(id)", "max(i)", "min(d)", "max(odd)", "min(odd)", "max(dec)", "min(s)", "max(b)", "min(t)", "max(dt)"),
    *("min(ts)", "max(ds)", "min(a)", "max(st)", "max_by(id, l)", "min_by(st, id)", "max_by(i, id)"),
    *("bit_and(l)", "bit_or(i)", "bit_xor(l)", "bool_and(t)", "every(t)", "bool_or(t)", "any(t)", "some(t)"),
    # Any of equal values.
    *("first(k)", "first(k, true)", "first_value(k + 1)", "any_value(k)", "any_value(k, true)"),
    *("count(*) FILTER (WHERE t)", "count(i, s) FILTER (WHERE t)", "sum(i) FILTER (WHERE t) AS x"),
    *("avg(dec) FILTER (WHERE s = '(' OR t)", "max_by(id, l) FILTER (WHERE t)"),
    *("bool_or(t) FILTER (WHERE false)", "avg(i) FILTER (WHERE false)"),
]


def test_functions_give_the_same_answers(spark: SparkSession, agree: Agree) -> None:
    agree.arrow(spark.table("events"), "k", query=lambda g: g.agg(*map(F.expr, CALLS)))


@pytest.mark.parametrize(
    "strategy",
    [
        pytest.param("dchoices", marks=pytest.mark.smoke),
        "hash",
        *(pytest.param(name, marks=pytest.mark.full) for name in ROUTING if name not in ("dchoices", "hash")),
    ],
)
def test_every_strategy_gives_the_same_answers(spark: SparkSession, agree: Agree, strategy: str) -> None:
    def query(g: Any) -> DataFrame:
        columns = [F.count("*"), F.sum("i"), F.avg("dec"), F.max_by("s", "id"), F.collect_list("i").alias("list")]
        return g.agg(*columns).withColumn("list", F.sort_array("list"))  # type: ignore[no-any-return]

    plan = agree.arrow(spark.table("events"), "k", query=query, strategy=strategy)

    assert plan.count("Exchange ") == 2, plan
    # Rows are sorted only where their order matters.
    assert plan.count("Sort [xxhash64(") == (strategy != "hash"), plan


def test_collected_values_are_the_same(spark: SparkSession, version: tuple[int, ...], agree: Agree) -> None:
    columns = ["i", "l", "d", "odd", "dec", "s", "b", "t", "dt", "ts", "ds", "a", "st"]
    functions = {"list": F.collect_list, "set": F.collect_set}

    def query(g: Any) -> DataFrame:
        cells = {f"{name} of {column}": function(column) for name, function in functions.items() for column in columns}
        collected = g.agg(*(call.alias(cell) for cell, call in cells.items()))
        return collected.select("k", *(F.sort_array(f"`{cell}`") for cell in cells))  # type: ignore[no-any-return]

    rows = spark.table("events")
    if version < (4, 2):  # where collect_set may list NaN several times
        rows = rows.withColumn("odd", F.nanvl("odd", F.lit(2.5)))
    agree.arrow(rows, "k", query=query)


def test_columns_of_every_make_are_understood(spark: SparkSession, agree: Agree) -> None:
    df = spark.table("events")

    agree.arrow(
        df,
        "k",
        query=lambda g: g.agg(
            F.sum(df["i"]),
            F.avg(F.col("d") * 2).alias("twice (on average)"),
            F.call_function("max", F.col("l")),
            F.sum(F.when(F.col("s") == "(", 1).otherwise(2)),
            F.first("k", ignorenulls=True).alias("a `quoted` name", metadata={"unit": "m"}),
            F.expr("max(concat(s, ') + sum(', 'x'))"),
        ),
    )


def test_sketches_estimate_as_many_distinct_values(spark: SparkSession, agree: Agree) -> None:
    def query(g: Any) -> DataFrame:
        sketches = g.agg(F.hll_sketch_agg("i", 14).alias("i"), F.hll_sketch_agg("s").alias("s"))
        return sketches.select("k", F.hll_sketch_estimate("i"), F.hll_sketch_estimate("s"))  # type: ignore[no-any-return]

    agree.arrow(spark.table("events"), "k", query=query)
    sketches = spark.table("events").groupBy("k", "t").agg(F.hll_sketch_agg("i").alias("h"))
    agree.arrow(
        sketches, "k", query=lambda g: g.agg(F.hll_union_agg("h").alias("h")).select(F.hll_sketch_estimate("h"))
    )


METHODS: list[Callable[[Any], DataFrame]] = [
    lambda g: g.count(),
    lambda g: g.sum(),
    lambda g: g.sum("i", "dec"),
    lambda g: g.avg("i", "dec"),
    lambda g: g.mean("d"),
    lambda g: g.min("i", "l"),
    lambda g: g.max(),
    lambda g: g.agg({"d": "sum", "*": "count", "i": "max"}),
    lambda g: g.agg({"d": "mean", "i": "AVG", "dec": "Sum", "l": "min", "s": "count", "id": "max"}),
]


def test_the_methods_of_grouped_data_give_the_same_answers(spark: SparkSession, agree: Agree) -> None:
    def all_methods(g: Any) -> DataFrame:
        """One query for all of them: each row says of which method it is, and has its columns as JSON."""
        results = [method(g) for method in METHODS]
        as_json = [
            df.select("k", F.lit(i), F.lit(str(df.columns)), F.to_json(F.struct("*"))) for i, df in enumerate(results)
        ]
        return reduce(DataFrame.unionAll, as_json)

    agree.arrow(spark.table("events"), "k", query=all_methods)


@pytest.mark.classic("name average and size in a dict")
def test_a_dict_names_functions_as_spark_does(spark: SparkSession, agree: Agree) -> None:
    df = spark.table("events")
    agree.arrow(df, "k", query=lambda g: g.agg({"d": "average", "*": "size"}))
    agree.arrow(df, "k", query=lambda g: g.agg({"d": "mean", "s": "SIZE"}))
    for name in "std", "stddev":
        with pytest.raises(
            SaltwiseValueError, match=r"^agg got 'stddev\(d\)'; with engine='arrow' a column must be one"
        ):
            df.skew_groupby("k", engine="arrow").agg({"d": name})


def test_the_columns_of_groupby_are_taken(spark: SparkSession, agree: Agree) -> None:
    for cols in ([["k", "s"]], [F.col("i") % 3, F.upper("s").alias("u"), "t"]):
        agree.arrow(spark.table("events"), *cols, query=lambda g: g.agg(F.count("*"), F.sum("l")), strategy="wchoices")


@pytest.mark.parametrize("types", ["all", "collated", *(pytest.param(name, marks=pytest.mark.full) for name in KEYS)])
def test_keys_of_each_type_give_the_same_answers(
    spark: SparkSession, version: tuple[int, ...], agree: Agree, types: str
) -> None:
    if types == "collated" and version < (4, 0):
        pytest.skip("Spark 3.5 has no collations")
    lists = (KEYS | {"collated": COLLATED}).get(types) or [values for kind in KEYS.values() for values in kind]
    columns = [
        f"element_at(array({values}), IF(id % 10 < 5, 1, 1 + CAST(id % size(array({values})) AS INT))) AS k{i}"
        for i, values in enumerate(lists)
    ]
    keyed = spark.sql(f"SELECT id, {', '.join(columns)} FROM range(0, 300, 1, 3)")
    keys = keyed.columns[1:]
    # Of a key that is written in several ways, such as 'a' and 'A', Spark shows any.
    shown = [] if types == "collated" else keys

    agree.arrow(
        keyed, *keys, query=lambda g: g.agg(F.count("*").alias("n"), F.sum("id").alias("s")).select(*shown, "n", "s")
    )


def test_no_rows_are_no_groups(spark: SparkSession, agree: Agree) -> None:
    agree.arrow(spark.table("events").where("id < 0"), "k", query=lambda g: g.agg(F.count("*"), F.avg("i")))


def test_keys_may_be_left_out_of_the_result(spark: SparkSession, agree: Agree, with_conf: WithConf) -> None:
    with with_conf({"spark.sql.retainGroupColumns": False}):
        agree.arrow(spark.table("events"), "k", query=lambda g: g.agg(F.count("*"), F.sum("l")))


def test_decimals_are_averaged_and_rounded_once(spark: SparkSession, agree: Agree) -> None:
    whole = "CAST(pmod(xxhash64(id), 20001) - 10000 AS DECIMAL(25, 0))"
    digits = [(5, 0), (5, 1), (5, 5), (12, 2), (24, 0), (24, 1), (24, 10), (24, 24)]
    columns = [
        f"CAST({whole} / CAST(1e{scale} AS DECIMAL(25, 0)) AS DECIMAL({precision}, {scale})) AS d{precision}_{scale}"
        for precision, scale in digits
    ]
    numbers = spark.range(0, 4000, 1, 2).selectExpr("id % 700 AS k", *columns)
    calls = [function(name) for name in numbers.columns[1:] for function in (F.avg, F.sum)]

    agree.arrow(numbers, "k", query=lambda g: g.agg(*calls))


def test_a_sum_that_overflows_is_the_same_in_both(spark: SparkSession, agree: Agree, with_conf: WithConf) -> None:
    large = spark.range(0, 20, 1, 2).select(F.expr("id % 3 AS k"), F.expr("CAST(9e37 AS DECIMAL(38, 0)) AS x"))
    with with_conf({"spark.sql.ansi.enabled": False}):
        agree.arrow(large, "k", query=lambda g: g.agg(F.sum("x")))
        agree.arrow(large.where("id < 5"), "k", query=lambda g: g.agg(F.sum("x")))
    with with_conf({"spark.sql.ansi.enabled": True}):
        for grouped in (large.groupBy("k"), saltwise.skew_groupby(large, "k", engine="arrow")):
            with pytest.raises(Exception, match=r"OVERFLOW|OUT_OF_RANGE"):
                grouped.agg(F.sum("x")).collect()


# The same workers


def skewed(spark: SparkSession) -> DataFrame:
    """Rows of three tasks, half of them of one key, each task in the order that the engine gives it."""
    rows = spark.range(0, 6000, 1, 3).select(
        F.when(F.col("id") % 2 == 0, "hot")
        .otherwise(F.concat(F.lit("key "), F.pmod(F.xxhash64("id"), F.lit(200))))
        .alias("k"),
        "id",
    )
    return rows.sortWithinPartitions(F.xxhash64("k", "id"))


@pytest.mark.parametrize(
    "strategy",
    [name if name in ("pkg", "dchoices") else pytest.param(name, marks=pytest.mark.full) for name in ROUTING],
)
def test_each_row_goes_to_the_worker_that_the_plugin_gives_it(
    spark: SparkSession, with_conf: WithConf, strategy: str
) -> None:
    with with_conf({"spark.sql.execution.arrow.maxRecordsPerBatch": 300}):
        rows = skewed(spark)
        ours = routed(rows, 1, settled(strategy, 12)).select("id", F.spark_partition_id()).collect()
    plugin = rows.select("id", F.expr(f"skew_worker(12, '{strategy}', k)")).collect()

    assert sorted(map(tuple, ours)) == sorted(map(tuple, plugin))


def test_each_worker_has_a_partition_of_its_own(spark: SparkSession) -> None:
    numbers = worker_numbers(50).tolist()
    rows = spark.createDataFrame([(number,) for number in numbers], "worker int").repartition(50, "worker")

    found = dict(map(tuple, rows.select("worker", F.spark_partition_id()).collect()))

    assert found == {number: worker for worker, number in enumerate(numbers)}


@pytest.mark.parametrize(
    "strategy",
    ["dchoices", *(pytest.param(name, marks=pytest.mark.full) for name in ROUTING if name != "dchoices")],
)
def test_rows_that_arrive_in_another_order_go_where_they_went(spark: SparkSession, strategy: str) -> None:
    rows = [(f"key {i % 7 % 4}", i, {"a": i}) for i in range(400)]
    workers = []
    for arrived in (rows, rows[::-1]):
        df = spark.createDataFrame(arrived, "k string, id int, m map<string, int>").coalesce(1)
        workers.append(sorted(map(tuple, routed(df, 1, settled(strategy)).select("id", "worker").collect())))

    assert workers[0] == workers[1]


# Options


def test_the_session_says_how_many_workers_there_are(spark: SparkSession, agree: Agree, with_conf: WithConf) -> None:
    with with_conf({"spark.saltwise.partitions": 5, "spark.saltwise.strategy": "hash"}):
        plan = agree.arrow(spark.table("events"), "k", query=lambda g: g.count())

    assert ", 5), REPARTITION_BY_NUM" in plan
    assert "Sort [" not in plan


# What is refused

NAMES = (
    "any, any_value, avg, bit_and, bit_or, bit_xor, bool_and, bool_or, collect_list, collect_set, count, count_if, every, "
    "first, first_value, hll_sketch_agg, hll_union_agg, max, max_by, mean, min, min_by, some, sum"
)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("percentile(d, 0.5)", "percentile(d, 0.5, 1)"),
        ("median(d) AS middle", "middle"),
        ("sum(i) + 1", "(sum(i) + 1)"),
        ("count(DISTINCT i)", "count(DISTINCT i)"),
        ("any_value(i) IGNORE NULLS AS i", "i"),
        ("first(i) FILTER (WHERE t)", "first(i) FILTER (WHERE t)"),
        ("CAST(sum(i) AS STRING)", "CAST(sum(i) AS STRING)"),
    ],
)
def test_what_does_not_merge_is_refused(spark: SparkSession, call: str, name: str) -> None:
    grouped = saltwise.skew_groupby(spark.table("events"), "k", engine="arrow")
    with pytest.raises(SaltwiseValueError) as refused:
        grouped.agg(F.count("*"), F.expr(call))

    assert str(refused.value) == (
        f"agg got '{name}'; with engine='arrow' a column must be one call, without DISTINCT, of {NAMES}: compute "
        "further in a select, and use the plugin or df.groupBy for anything else."
    )


def test_distinct_columns_are_refused(spark: SparkSession) -> None:
    grouped = saltwise.skew_groupby(spark.table("events"), "k", engine="arrow")
    for column in (F.count_distinct("i"), F.sum_distinct("i")):
        with pytest.raises(SaltwiseValueError, match=r"agg got '(count|sum)\(DISTINCT i\)'; with"):
            grouped.agg(column)


@pytest.mark.parametrize(
    ("call", "found"), [("avg(ds)", "interval day to second"), ("avg(CAST(i AS DECIMAL(25, 2)))", "decimal(29,6)")]
)
def test_averages_that_would_differ_are_refused(spark: SparkSession, call: str, found: str) -> None:
    with pytest.raises(SaltwiseValueError) as refused:
        saltwise.skew_groupby(spark.table("events"), "k", engine="arrow").agg(F.expr(call))

    assert str(refused.value) == (
        f"agg got an average of type {found}; with engine='arrow' it averages numbers, and decimals of at most 24 "
        "digits: cast its argument first, or use the plugin or df.groupBy."
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"strategy": "auto"},
            f"strategy is 'auto'; it must be one of {', '.join(ROUTING)}.",
        ),
        (
            {"hot": [1]},
            "hot is given, and engine='arrow' has no use for it: leave hot out, or group by the plugin.",
        ),
        ({"engine": "arow"}, "engine is 'arow'; it must be one of plugin, arrow; did you mean 'arrow'?"),
        ({"partitions": 0}, "partitions is 0; it must be a whole number of at least 1."),
    ],
)
def test_options_that_are_not_allowed_are_refused(spark: SparkSession, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SaltwiseValueError) as refused:
        saltwise.skew_groupby(spark.table("events"), "k", **({"engine": "arrow"} | options))

    assert str(refused.value) == message


def test_what_has_no_groups_to_split_is_refused(spark: SparkSession) -> None:
    events = spark.table("events")
    stream = spark.readStream.format("rate").load()
    for call, message in (
        (
            lambda: saltwise.skew_groupby(events, engine="arrow"),
            "cols is empty; name at least one column to group by, or use df.agg.",
        ),
        (
            lambda: saltwise.skew_groupby(stream, "value", engine="arrow"),
            "The DataFrame is a stream, and engine='arrow' groups tables: use df.groupBy.",
        ),
        (
            lambda: saltwise.skew_groupby(events, "k", engine="arrow").pivot("t"),
            "engine='arrow' has no pivot: group by the plugin, or use df.groupBy for it.",
        ),
    ):
        with pytest.raises(SaltwiseError) as refused:
            call()

        assert str(refused.value) == message


def test_columns_that_cannot_travel_are_refused(spark: SparkSession) -> None:
    intervals = spark.sql("SELECT 1 AS k, INTERVAL '1' MONTH AS m")
    with pytest.raises(SaltwiseValueError) as refused:
        saltwise.skew_groupby(intervals, "k", engine="arrow").agg(F.max("m"))

    assert str(refused.value) == (
        "a column is of type interval month, which pyspark does not carry by Arrow: cast it, or group by the plugin or "
        "by df.groupBy."
    )


def test_keys_that_hold_a_map_are_refused(spark: SparkSession, version: tuple[int, ...]) -> None:
    if version < (4, 0):
        pytest.skip("Spark 3.5 groups by no map")
    maps = spark.sql("SELECT struct(map('a', 1) AS m) AS key")
    with pytest.raises(SaltwiseValueError) as refused:
        saltwise.skew_groupby(maps, "key", engine="arrow").count()

    assert str(refused.value) == (
        "a key is of type struct<m:map<string,int>>; with engine='arrow' a key may hold no map: group by map_entries of "
        "it, or by df.groupBy."
    )


def test_what_spark_refuses_is_refused_in_its_own_words(spark: SparkSession) -> None:
    grouped = saltwise.skew_groupby(spark.table("events"), "k", engine="arrow")
    with pytest.raises(Exception, match="nosuch"):
        grouped.agg(F.sum("nosuch"))
    with pytest.raises(Exception, match="s"):
        grouped.sum("s")
