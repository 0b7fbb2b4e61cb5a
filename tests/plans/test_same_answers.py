"""Saltwise off and on give the same answers: every aggregate function, key, query shape and setting.

Columns whose value Spark itself leaves open are asked for in a form that is not: lists are sorted, `first` and
`any_value` see columns that are constant in a group, sketches are compared by what they estimate, and floats are
dyadic, so that every order of adding them gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf

import saltwise
from saltwise.strategies import PLANNED_AHEAD, STRATEGIES

if TYPE_CHECKING:
    from tests.agree import Agree, WithConf

# All that need nothing beside their name.
ONLINE = [name for name in STRATEGIES if name not in ("auto", *PLANNED_AHEAD)]
# One of each kind of plan. The others have the same plan with another choice of workers.
PLANS = ["dchoices", "local", "split", "offgreedy"]
EVERY = [name if name in PLANS else pytest.param(name, marks=pytest.mark.full) for name in ONLINE]

# Nine hundred rows in three partitions; 40 % of them have the key 0, 20 % the key 1, 10 % NULL.
EVENTS = """
SELECT id,
  CASE WHEN id % 10 < 4 THEN 0 WHEN id % 10 = 4 THEN NULL WHEN id % 10 < 7 THEN 1
    ELSE CAST(id % 41 AS INT) END AS k,
  IF(id % 13 = 0, NULL, CAST(pmod(xxhash64(id, 1), 97) AS INT) - 40) AS i,
  pmod(xxhash64(id, 2), 1000003) AS l,
  IF(id % 17 = 0, NULL, pmod(xxhash64(id, 3), 512) / 16D) AS d,
  CAST(pmod(xxhash64(id, 4), 64) / 8D AS FLOAT) AS f,
  element_at(array(double('NaN'), -0.0D, 0.0D, double('inf'), double('-inf'), NULL, 1.5D),
    CAST(id % 7 AS INT) + 1) AS odd,
  CAST(pmod(xxhash64(id, 5), 100000) / 100 AS DECIMAL(12, 2)) AS dec,
  IF(id % 11 = 0, NULL, substr(hex(xxhash64(id, 6)), -2)) AS s,
  unhex(substr(hex(xxhash64(id, 7)), -2)) AS b,
  IF(id % 19 = 0, NULL, pmod(xxhash64(id, 8), 3) > 0) AS t,
  date_add(DATE'2013-01-01', CAST(pmod(xxhash64(id, 9), 60) AS INT)) AS dt,
  timestamp_seconds(1400000000 + pmod(xxhash64(id, 10), 90)) AS ts,
  make_ym_interval(0, CAST(pmod(xxhash64(id, 11), 30) AS INT)) AS ym,
  make_dt_interval(0, 0, 0, pmod(xxhash64(id, 12), 30)) AS ds,
  array(CAST(id % 5 AS INT), CAST(id % 3 AS INT)) AS a,
  named_struct('x', CAST(id % 5 AS INT), 'y', CAST(id % 3 AS STRING)) AS st
FROM range(0, 900, 1, 3)
"""

# Sketches to merge: those of thirty parts of each group.
SKETCHES = """
SELECT k, id % 30 AS part,
  hll_sketch_agg(i) AS hll, bitmap_construct_agg(bitmap_bit_position(l)) AS bits, space_saving_agg(s, 300) AS spacesaving
FROM events GROUP BY k, id % 30
"""
SKETCHES_OF_4_3 = """
SELECT k, id % 30 AS part,
  hll_sketch_agg(i) AS hll, bitmap_construct_agg(bitmap_bit_position(l)) AS bits,
  space_saving_agg(s, 300) AS spacesaving, theta_sketch_agg(i % 10) AS theta, approx_top_k_accumulate(i % 3, 1000) AS topk,
  kll_sketch_agg_bigint(l, 4000) AS kll_bigint, kll_sketch_agg_float(f, 4000) AS kll_float,
  kll_sketch_agg_double(d, 4000) AS kll_double, tuple_sketch_agg_double(i, d) AS tuple_double,
  tuple_sketch_agg_integer(i % 7, 1) AS tuple_integer
FROM events GROUP BY k, id % 30
"""

# Bins of one place stay apart where they were made apart, so they are put together.
BINS = """
transform(array_sort(array_distinct(transform(histogram_numeric({0}, 200), bin -> bin.x))), x ->
  (x, aggregate(filter(histogram_numeric({0}, 200), bin -> bin.x = x), 0D, (sum, bin) -> sum + bin.y)))
""".replace("\n", " ").strip()

# How each function is called, by the operator that runs it. Its state has a fixed size and fixed-size fields:
HASHED = {
    "any": ["any(t)"],
    "any_value": ["any_value(k + 1)", "any_value(k + 1, true)"],
    "approx_count_distinct": [
        "approx_count_distinct(i)",
        "approx_count_distinct(s, 0.1)",
        "approx_count_distinct(st)",
    ],
    "avg": ["avg(i)", "avg(l)", "avg(d)", "avg(f)", "avg(dec)", "avg(odd)", "CAST(avg(ym) AS STRING)", "avg(ds)"],
    "bit_and": ["bit_and(l)"],
    "bit_or": ["bit_or(l)"],
    "bit_xor": ["bit_xor(i)"],
    "bool_and": ["bool_and(t)"],
    "bool_or": ["bool_or(t)"],
    "count": ["count(*)", "count(i)", "count(i, s)", "count(odd)"],
    "count_if": ["count_if(t)"],
    "every": ["every(t)"],
    "first": ["first(k + 1)", "first(k + 1, true)"],
    "first_value": ["first_value(k + 1)"],
    "last": ["last(k + 1)", "last(k + 1, true)"],
    "last_value": ["last_value(k + 1)"],
    "max": ["max(i)", "max(d)", "max(odd)", "max(dec)", "max(t)", "max(dt)", "max(ts)", "max(ds)"],
    "max_by": ["max_by(i, id)", "max_by(odd, id)"],
    "mean": ["mean(i)"],
    "min": ["min(i)", "min(f)", "min(odd)", "min(dec)", "min(t)", "min(dt)", "min(ts)", "CAST(min(ym) AS STRING)"],
    "min_by": ["min_by(i, id)", "min_by(dec, -id)"],
    "regr_avgx": ["regr_avgx(d, i)"],
    "regr_avgy": ["regr_avgy(d, i)"],
    "regr_count": ["regr_count(d, i)"],
    "some": ["some(t)"],
    "sum": ["sum(i)", "sum(l)", "sum(d)", "sum(f)", "sum(dec)", "sum(odd)", "CAST(sum(ym) AS STRING)", "sum(ds)"],
    "try_avg": ["try_avg(i)", "try_avg(dec)"],
    "try_sum": ["try_sum(i)", "try_sum(dec)", "try_sum(ds)"],
}
# The same, but each merge divides, so the last bits depend on the order of merging: equal to nine digits.
CLOSE = {
    name: [f"{name}({arguments})"]
    for arguments, names in {
        "d": ["kurtosis", "skewness", "std", "stddev", "stddev_pop", "stddev_samp", "var_pop", "var_samp", "variance"],
        "d, i": [
            "corr",
            "covar_pop",
            "covar_samp",
            "regr_intercept",
            "regr_r2",
            "regr_slope",
            "regr_sxx",
            "regr_sxy",
            "regr_syy",
        ],
    }.items()
    for name in names
}
# Strings, arrays and the like in the state:
SORTED = {
    "any_value": ["any_value(concat('key ', k))"],
    "first": ["first(concat('key ', k), true)"],
    "last_value": ["last_value(array(k))"],
    "max": ["max(s)", "max(b)", "max(st)", "max(a)"],
    "max_by": ["max_by(s, id)", "max_by(id, struct(s, id))"],
    "min": ["min(s)", "min(b)", "min(st)", "min(a)"],
    "min_by": ["min_by(st, id)", "min_by(a, -id)"],
}
# An object as state:
OBJECT = {
    "approx_percentile": [
        "approx_percentile(i, 0.5)",
        "approx_percentile(d, array(0.1, 0.9), 100000)",
        "approx_percentile(ts, 0.3)",
    ],
    "approx_top_k": ["approx_top_k(i % 3, 1, 1000)", "approx_top_k(t, 1)"],
    "approx_top_k_accumulate": ["approx_top_k_estimate(approx_top_k_accumulate(i % 3, 1000), 1)"],
    "array_agg": ["array_sort(array_agg(i))"],
    "bitmap_construct_agg": ["bitmap_construct_agg(bitmap_bit_position(l))"],
    "collect_list": [
        "array_sort(collect_list(i))",
        "array_sort(collect_list(CAST(odd AS STRING)))",
        "array_sort(collect_list(st))",
        "array_sort(collect_list(b))",
    ],
    "collect_set": [
        "array_sort(collect_set(i))",
        "array_sort(collect_set(odd))",
        "array_sort(collect_set(st))",
        "array_sort(collect_set(a))",
    ],
    "collect_union": ["array_sort(collect_union(a))"],
    "count_min_sketch": ["count_min_sketch(l, 0.1D, 0.9D, 1)", "count_min_sketch(s, 0.1D, 0.9D, 1)"],
    "heavy_hitters": ["heavy_hitters(i, 10, 200)", "heavy_hitters(st, 20, 200)", "heavy_hitters(odd, 10, 200)"],
    "histogram_numeric": [BINS.format("i % 5"), BINS.format("dt")],
    "hll_sketch_agg": ["hll_sketch_estimate(hll_sketch_agg(i))"],
    "kll_sketch_agg_bigint": ["kll_sketch_get_quantile_bigint(kll_sketch_agg_bigint(l, 4000), 0.5D)"],
    "kll_sketch_agg_double": ["kll_sketch_get_quantile_double(kll_sketch_agg_double(d, 4000), 0.1D)"],
    "kll_sketch_agg_float": ["kll_sketch_get_quantile_float(kll_sketch_agg_float(f, 4000), 0.9D)"],
    "listagg": ["array_sort(split(listagg(s, ','), ','))", "listagg(s, ',') WITHIN GROUP (ORDER BY s DESC)"],
    "max_by": ["max_by(s, id, 3)"],
    "median": ["median(i)", "median(d)", "CAST(median(ym) AS STRING)"],
    "min_by": ["min_by(st, id, 2)"],
    "mode": ["mode(t)", "mode(i, true)", "mode(st, true)", "mode() WITHIN GROUP (ORDER BY i DESC)"],
    "percentile": ["percentile(i, 0.3)", "percentile(d, array(0.1, 0.9), l)", "percentile(ds, 0.5)"],
    "percentile_approx": ["percentile_approx(dec, 0.5)"],
    "percentile_cont": ["percentile_cont(0.3) WITHIN GROUP (ORDER BY d DESC)"],
    "percentile_disc": ["percentile_disc(0.3) WITHIN GROUP (ORDER BY ds)"],
    "space_saving_agg": ["space_saving_agg(s, 300)", "space_saving_agg(odd, 300)"],
    "string_agg": ["string_agg(b) WITHIN GROUP (ORDER BY b)"],
    "theta_sketch_agg": ["theta_sketch_estimate(theta_sketch_agg(i))"],
    "tuple_sketch_agg_double": ["tuple_sketch_summary_double(tuple_sketch_agg_double(i, d))"],
    "tuple_sketch_agg_integer": ["tuple_sketch_summary_integer(tuple_sketch_agg_integer(i, 1))"],
}
# Merges of sketches:
MERGED = {
    "approx_top_k_combine": ["approx_top_k_estimate(approx_top_k_combine(topk, 1000), 1)"],
    "bitmap_and_agg": ["bitmap_and_agg(bits)"],
    "bitmap_or_agg": ["bitmap_or_agg(bits)"],
    "hll_union_agg": ["hll_sketch_estimate(hll_union_agg(hll))"],
    "kll_merge_agg_bigint": ["kll_sketch_get_quantile_bigint(kll_merge_agg_bigint(kll_bigint), 0.5D)"],
    "kll_merge_agg_double": ["kll_sketch_get_quantile_double(kll_merge_agg_double(kll_double), 0.1D)"],
    "kll_merge_agg_float": ["kll_sketch_get_quantile_float(kll_merge_agg_float(kll_float), 0.9D)"],
    "space_saving_merge": ["space_saving_merge(spacesaving)"],
    "theta_intersection_agg": ["theta_sketch_estimate(theta_intersection_agg(theta))"],
    "theta_union_agg": ["theta_sketch_estimate(theta_union_agg(theta))"],
    "tuple_intersection_agg_double": ["tuple_sketch_summary_double(tuple_intersection_agg_double(tuple_double))"],
    "tuple_intersection_agg_integer": ["tuple_sketch_summary_integer(tuple_intersection_agg_integer(tuple_integer))"],
    "tuple_union_agg_double": ["tuple_sketch_summary_double(tuple_union_agg_double(tuple_double))"],
    "tuple_union_agg_integer": ["tuple_sketch_summary_integer(tuple_union_agg_integer(tuple_integer))"],
}
# Only under GROUP BY CUBE and its like:
CUBED = {"grouping": ["grouping(k)", "grouping(t)"], "grouping_id": ["grouping_id()", "grouping_id(k, t)"]}

CALLS = {"hashed": HASHED, "close": CLOSE, "sorted": SORTED, "object": OBJECT, "merged": MERGED, "cubed": CUBED}

NOT_COMPARED = {"measure": "only a metric view can be asked for a measure, not ordinary columns"}

# Calls that older versions do not know, although they know the function.
SINCE = {
    "max_by(s, id, 3)": (4, 3),
    "min_by(st, id, 2)": (4, 3),
    "mode(i, true)": (4, 0),
    "mode(st, true)": (4, 0),
    "mode() WITHIN GROUP (ORDER BY i DESC)": (4, 0),
}

# Frozen routing: one hot key whose share is known, one whose share is not, and NULL.
HOT = '[{"key": [0], "share": 0.4}, {"key": [1]}, {"key": [null], "share": 0.1}]'


@pytest.fixture(scope="module", autouse=True)
def events(spark: SparkSession) -> Iterator[None]:
    spark.sql(EVENTS).createOrReplaceTempView("events")
    yield
    spark.catalog.dropTempView("events")


@pytest.fixture(scope="module")
def aggregates(spark: SparkSession) -> set[str]:
    """Ask Spark for every function that its documentation files under aggregates."""
    # Over Connect the server has it.
    server: Any = SparkSession._instantiatedSession
    catalog = server._jsparkSession.sessionState().catalog()
    identifier = server._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
    found = set()
    for (name,) in spark.sql("SHOW SYSTEM FUNCTIONS").collect():
        if name.isidentifier():  # the others are operators
            info = catalog.lookupFunctionInfo(identifier(name))
            if info.getGroup() == "agg_funcs" or ".aggregate." in (info.getClassName() or ""):
                found.add(name)
    return found


@pytest.fixture(scope="module")
def select(version: tuple[int, ...], aggregates: set[str]) -> Callable[..., str]:
    """Write a query with the calls of a batch that this Spark knows, each named by its text."""

    def query(batch: str, source: str = "events", group: str = "k") -> str:
        columns = ", ".join(
            f"{call} AS `{call}`"
            for name, texts in CALLS[batch].items()
            if name in aggregates
            for call in texts
            if version >= SINCE.get(call, (3, 5))
        )
        return f"SELECT k, {columns} FROM {source} GROUP BY {group}"

    return query


def hot(strategy: str) -> dict[str, str]:
    """Return the options of a case: frozen routing is D-Choices with hot keys."""
    return {"hot": HOT} if strategy == "hot" else {}


def routing(strategy: str) -> str:
    return "dchoices" if strategy == "hot" else strategy


# Functions


def test_every_aggregate_function_of_spark_is_called_or_excused(aggregates: set[str]) -> None:
    called = {name for batch in CALLS.values() for name in batch}

    assert aggregates - called - NOT_COMPARED.keys() == set()
    assert called & NOT_COMPARED.keys() == set()


def test_every_call_calls_the_function_that_it_is_listed_for() -> None:
    wrong = [
        call for batch in CALLS.values() for name, texts in batch.items() for call in texts if f"{name}(" not in call
    ]

    assert wrong == []


@pytest.mark.parametrize("strategy", [*EVERY, "hot"])
@pytest.mark.parametrize(
    ("batch", "operator"),
    [("hashed", "HashAggregate"), ("sorted", "SortAggregate"), ("object", "ObjectHashAggregate")],
)
def test_functions_give_the_same_answers(
    agree: Agree, select: Callable[..., str], batch: str, operator: str, strategy: str
) -> None:
    query = select(batch)

    agree(query, strategies=[routing(strategy)], options=hot(strategy), routes=1)

    assert f" {operator}(" in agree.stock(query).plan


@pytest.mark.parametrize("strategy", [*EVERY, "hot"])
def test_functions_that_divide_as_they_merge_agree_to_nine_digits(
    agree: Agree, select: Callable[..., str], strategy: str
) -> None:
    divided = [call for texts in CLOSE.values() for call in texts]

    agree(select("close"), strategies=[routing(strategy)], options=hot(strategy), close=divided, routes=1)


@pytest.mark.parametrize("strategy", EVERY)
def test_merged_sketches_give_the_same_answers(
    version: tuple[int, ...], agree: Agree, select: Callable[..., str], strategy: str
) -> None:
    sketches = SKETCHES if version < (4, 3) else SKETCHES_OF_4_3
    # A sketch depends on the order of its rows, so a strategy that looks at the rows before may not route it.
    routes: int | None = 2 if strategy in ("hash", "split", "local", "consistent") else 1
    if strategy == "offgreedy":
        routes = None  # the pass over the outer keys places the inner ones, too

    agree(select("merged", source=f"({sketches})"), strategies=[strategy], routes=routes)


@pytest.mark.parametrize("strategy", EVERY)
def test_grouping_functions_give_the_same_answers(agree: Agree, select: Callable[..., str], strategy: str) -> None:
    agree(select("cubed", group="CUBE (k, t) HAVING count(*) > 0"), strategies=[strategy], routes=1)


@pytest.mark.smoke
def test_every_kind_of_state_gives_the_same_answers(agree: Agree, select: Callable[..., str]) -> None:
    divided = [call for texts in CLOSE.values() for call in texts]

    for batch in ("hashed", "close", "sorted", "object"):
        agree(select(batch), close=divided)
        agree(select(batch), strategies=["dchoices"], options=hot("hot"), close=divided)


@pytest.mark.parametrize("source", ["events", "(SELECT /*+ REPARTITION(3) */ * FROM events)"])
def test_functions_give_the_same_answers_under_auto(agree: Agree, select: Callable[..., str], source: str) -> None:
    divided = [call for texts in CLOSE.values() for call in texts]

    for batch in ("hashed", "close", "sorted", "object"):
        agree.auto(select(batch, source), close=divided)


@pytest.mark.parametrize("strategy", ONLINE)
def test_states_that_grow_are_rewritten_and_give_the_same_answers(agree: Agree, strategy: str) -> None:
    query = "SELECT k, count(*), array_sort(collect_list(i)), median(d), max(s) FROM events GROUP BY k"

    agree(query, strategies=[strategy], routes=1)


# Keys

# Values of each type; the first of them owns half of the rows.
KEYS = {
    "boolean": "true, false, NULL",
    "tinyint": "7Y, -128Y, NULL, 0Y",
    "smallint": "7S, -32768S, NULL, 0S",
    "int": "7, -2147483648, NULL, 0",
    "bigint": "7L, -9223372036854775808L, NULL, 0L",
    "decimal(10,2)": "1.50BD, -99999999.99BD, NULL, 0BD",
    "decimal(38,18)": "CAST(1.5 AS DECIMAL(38,18)), CAST(-1e19 AS DECIMAL(38,18)), NULL",
    "float": "-0.0F, 0.0F, float('NaN'), float('inf') - float('inf'), float('-inf'), NULL, 1.5F",
    "double": "-0.0D, 0.0D, double('NaN'), double('inf') - double('inf'), double('-inf'), NULL, 1.5D",
    "string": "'a', '', 'A', 'é', 'e\u0301', NULL, 'a '",
    "binary": "X'00', X'', X'0000', X'FF', NULL",
    "date": "DATE'2013-01-01', DATE'0001-01-01', NULL, DATE'9999-12-31'",
    "timestamp": "TIMESTAMP'2013-01-01 05:15:00', TIMESTAMP'1900-01-01 00:00:00.000001', NULL",
    "timestamp_ntz": "TIMESTAMP_NTZ'2013-01-01 05:15:00', TIMESTAMP_NTZ'1900-01-01 00:00:00', NULL",
    "year-month interval": "INTERVAL '1-2' YEAR TO MONTH, INTERVAL '-3' MONTH, NULL",
    "day-time interval": "INTERVAL '1 02:03:04.5' DAY TO SECOND, INTERVAL '-3' HOUR, NULL",
    "void": "NULL",
    "struct": "struct(1, 'a'), struct(1, NULL), NULL, struct(NULL, 'a')",
    "struct of doubles": "struct(-0.0D), struct(0.0D), struct(double('NaN')), struct(CAST(NULL AS DOUBLE)), NULL",
    "array": "array(1, 2), array(), array(1, NULL), NULL, array(2, 1)",
    "array of doubles": "array(-0.0D), array(0.0D), array(double('NaN'), NULL), NULL",
    "array of structs of arrays": "array(struct(array(-0.0D))), array(struct(array(0.0D))), array(NULL), NULL",
    "struct of structs": "struct(struct(1, X'01')), struct(struct(NULL, X'01')), struct(NULL), NULL",
}
KEYS_SINCE = {
    (4, 0): {
        "string, lower case": "'a' COLLATE UTF8_LCASE, 'A', 'b', NULL, 'É', 'é'",
        "string, Unicode without case": "'a' COLLATE UNICODE_CI, 'A', 'b', NULL, 'e\u0301', 'É'",
        "string, right-trimmed": "'a' COLLATE UTF8_BINARY_RTRIM, 'a  ', ' a', NULL",
        "struct of collated strings": "struct('a' COLLATE UTF8_LCASE, -0.0D), struct('A', 0.0D), struct(NULL, 1D), NULL",
        "array of collated strings": "array('a' COLLATE UTF8_LCASE), array('A'), array('b', NULL), NULL",
        "map": "map('a', 1, 'b', 2), map('b', 2, 'a', 1), map(), NULL, map('a', NULL)",
        "map of doubles": "map('a', 1D, 'b', -0.0D), map('b', 0.0D, 'a', 1D), map('a', double('NaN')), NULL",
        "map of maps": "map(1, map('a', 1, 'b', 2)), map(1, map('b', 2, 'a', 1)), map(1, map()), map(1, NULL)",
        "struct of maps": "struct(map('a', 1, 'b', 2)), struct(map('b', 2, 'a', 1)), struct(NULL), NULL",
        "map of collated strings": "map('k', 'a' COLLATE UTF8_LCASE), map('k', 'A' COLLATE UTF8_LCASE), NULL",
        "array of maps": "array(map('a', 1, 'b', 2)), array(map('b', 2, 'a', 1)), array(NULL, map()), NULL",
    },
    (4, 3): {"time": "TIME'05:15:00', TIME'23:59:59.999999', NULL"},
}
ALL_KEYS = {**KEYS, **{name: values for more in KEYS_SINCE.values() for name, values in more.items()}}


@pytest.fixture(params=ALL_KEYS)
def keyed(
    spark: SparkSession, version: tuple[int, ...], with_conf: WithConf, request: pytest.FixtureRequest
) -> Iterator[str]:
    """A table whose key column has one type: its name."""
    for since, names in KEYS_SINCE.items():
        if request.param in names and version < since:
            pytest.skip(f"Spark {spark.version} has no such key")
    with with_conf({"spark.sql.timeType.enabled": True} if request.param == "time" else {}):
        spark.sql(keyed_table(ALL_KEYS[request.param])).createOrReplaceTempView("keyed")
        yield request.param
    spark.catalog.dropTempView("keyed")


def keyed_table(values: str) -> str:
    """Three partitions, with these values in a column `key`: half of the rows have the first of them."""
    several = f"array({values})"
    pick = f"IF(id % 10 < 5, 1, 1 + CAST(id % size({several}) AS INT))"
    return f"SELECT id, element_at({several}, {pick}) AS key FROM range(0, 300, 1, 3)"


def shown(name: str) -> str:
    """How to show a key so that Python can read it; not at all where equal keys may look different."""
    if "interval" in name:
        return "CAST(key AS STRING)"
    return "'?'" if "collated" in name or name.startswith("string, ") else "key"


def test_keys_of_each_type_give_the_same_answers(agree: Agree, keyed: str) -> None:
    query = f"SELECT {shown(keyed)}, count(*), array_sort(collect_list(id)) FROM keyed GROUP BY key"

    agree(lambda spark: spark.sql(query), routes=1)
    agree(lambda spark: spark.sql(query), strategies=["offgreedy", "consistent"], routes=1)


def test_equal_keys_of_each_type_go_to_one_worker(spark: SparkSession, keyed: str) -> None:
    if "map" in keyed:
        pytest.skip("skew_worker takes no maps")
    rows = spark.sql("""
        SELECT count(DISTINCT worker), count(*)
        FROM (SELECT key, skew_worker(1000, 'hash', key) AS worker FROM keyed) GROUP BY key""").collect()

    assert [workers for workers, _ in rows] == [1] * len(rows)
    assert sum(count for _, count in rows) == 300


def test_hot_keys_of_each_type_are_recognised_as_a_report_spells_them(
    spark: SparkSession, with_conf: WithConf, metric_that_ran: Callable[[str], int], keyed: str
) -> None:
    if "map" in keyed:
        pytest.skip("a sketch takes no maps, as min and max take none")
    report = saltwise.skew_report(spark.table("keyed"), "key", partitions=4)

    with with_conf({"spark.sql.adaptive.enabled": False}):
        df = saltwise.skew_groupby(spark.table("keyed"), "key", hot=report, partitions=4, strategy="wchoices")
        df.count().select("count").collect()  # Python has no value for each of these types.

    assert sum(key.count for key in report.hot_keys) > 0
    assert metric_that_ran("head rows") == sum(key.count for key in report.hot_keys)


@pytest.mark.parametrize("strategy", EVERY)
def test_keys_of_every_type_at_once_give_the_same_answers(agree: Agree, strategy: str) -> None:
    columns = ", ".join(
        f"element_at(array({values}), 1 + CAST((id + {i}) % size(array({values})) AS INT)) AS key{i}"
        for i, values in enumerate(KEYS.values())
    )
    sets = ", ".join(f"(key{i}, key{(i + 7) % len(KEYS)})" for i in range(len(KEYS)))
    # As bytes, since a key of bytes makes a string that is no UTF-8, which Connect cannot carry.
    query = f"""
        SELECT {", ".join(f"CAST(CAST(key{i} AS STRING) AS BINARY)" for i in range(len(KEYS)))}, count(*), sum(id)
        FROM (SELECT id, {columns} FROM range(0, 300, 1, 3)) GROUP BY GROUPING SETS ({sets})"""

    agree(query, strategies=[strategy], routes=1)


def test_char_and_varchar_keys_give_the_same_answers(spark: SparkSession, agree: Agree) -> None:
    spark.sql("CREATE TABLE padded (c CHAR(5), vc VARCHAR(5), v INT) USING parquet")
    try:
        spark.sql("INSERT INTO padded SELECT substr('abcde', 1, id % 3), substr('abcde ', id % 4), id FROM range(300)")

        agree("SELECT c, count(*), sum(v) FROM padded GROUP BY c")
        agree("SELECT vc, c, array_sort(collect_list(v)) FROM padded GROUP BY vc, c")
    finally:
        spark.sql("DROP TABLE padded")


@pytest.mark.parametrize(
    "keys",
    [
        "k, t",
        "k, odd, st",
        "k % 3",
        "upper(s), k IS NULL",
        "date_trunc('WEEK', ts)",
        "st.x, a[0]",
        "'all'",
        "-odd",
        "id",
    ],
)
def test_composite_keys_and_keys_that_are_expressions_give_the_same_answers(agree: Agree, keys: str) -> None:
    query = f"SELECT {keys}, count(*), sum(d), array_sort(collect_list(i)) FROM events GROUP BY {keys}"

    agree(query, routes=1)


# Sizes


@pytest.mark.smoke
@pytest.mark.parametrize("strategy", [*ONLINE, "hot"])
@pytest.mark.parametrize(
    ("size", "rows", "groups"),
    [
        ("no rows", "id < 0", 0),
        ("one row", "id = 0", 1),
        ("one key", "k = 0", 1),
        ("only NULL", "k IS NULL", 1),
        ("fewer rows than partitions", "id < 2", 1),
    ],
)
def test_small_input_gives_the_same_answers(agree: Agree, size: str, rows: str, groups: int, strategy: str) -> None:
    query = f"SELECT k, count(*), sum(d), array_sort(collect_list(i)) FROM events WHERE {rows} GROUP BY k"

    agree(query, strategies=[routing(strategy)], options=hot(strategy), routes=1)

    assert len(agree.stock(query).rows) == groups


@pytest.mark.parametrize("strategy", EVERY)
def test_keys_that_are_all_distinct_give_the_same_answers(agree: Agree, strategy: str) -> None:
    query = "SELECT id, count(*), max(s), array_sort(collect_list(i)) FROM events GROUP BY id"

    agree(query, strategies=[strategy], routes=1)

    assert len(agree.stock(query).rows) == 900


@pytest.mark.parametrize(
    ("partitions", "strategies"),
    [(2, PLANS), (50, PLANS), *(pytest.param(n, ONLINE, marks=pytest.mark.full) for n in (2, 3, 7, 50))],
    ids=lambda value: value if isinstance(value, int) else "each plan" if value is PLANS else "every strategy",
)
def test_any_number_of_workers_gives_the_same_answers(agree: Agree, partitions: int, strategies: list[str]) -> None:
    query = "SELECT k, count(*), sum(d), array_sort(collect_list(i)) FROM events GROUP BY k"

    agree(query, strategies=strategies, options={"partitions": partitions}, routes=1)


# Shapes of queries, with the number of aggregates that are rewritten in each.

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


@pytest.mark.parametrize("shape", SHAPES)
def test_query_shapes_give_the_same_answers(agree: Agree, shape: str) -> None:
    query, routes = SHAPES[shape]

    agree(query, routes=routes)


@pytest.mark.full
@pytest.mark.parametrize("shape", SHAPES)
def test_query_shapes_give_the_same_answers_whatever_routes_them(agree: Agree, shape: str) -> None:
    query, routes = SHAPES[shape]

    agree(query, strategies=["shuffle", "pkg", "wchoices", "roundrobin"], routes=routes)


@pytest.mark.parametrize("shape", SHAPES)
def test_query_shapes_give_the_same_answers_under_auto(agree: Agree, shape: str) -> None:
    agree.auto(SHAPES[shape][0])


# Input


def test_cached_input_gives_the_same_answers(agree: Agree) -> None:
    def cached(spark: SparkSession) -> DataFrame:
        return spark.table("events").cache().groupBy("k").agg(F.sum("d"), F.sort_array(F.collect_list("i")))

    try:
        agree(cached, strategies=PLANS, routes=1)
    finally:
        cached_events: Any = agree.spark.table("events")
        cached_events.unpersist()


def test_a_cached_result_gives_the_same_answers(agree: Agree) -> None:
    def cached(spark: SparkSession) -> DataFrame:
        spark.catalog.clearCache()
        return spark.table("events").groupBy("k").agg(F.sum("d"), F.sort_array(F.collect_list("i"))).cache()

    try:
        agree(cached, routes=1)
    finally:
        agree.spark.catalog.clearCache()


def test_columnar_files_give_the_same_answers(agree: Agree, tmp_path: Path) -> None:
    agree.spark.table("events").drop("ym", "ds").write.partitionBy("t").parquet(str(tmp_path / "events"))

    agree(
        lambda spark: spark.read.parquet(str(tmp_path / "events")).groupBy("k", "t").agg(F.sum("d"), F.max("s")),
        routes=1,
    )


def test_rows_of_python_give_the_same_answers(agree: Agree) -> None:
    def of_python(spark: SparkSession) -> DataFrame:
        rows = [(i % 3 if i % 5 else None, float(i), str(i)) for i in range(200)]
        return spark.createDataFrame(rows, "k int, d double, s string").groupBy("k").agg(F.sum("d"), F.max("s"))

    agree(of_python, routes=1)


def test_rows_through_pandas_give_the_same_answers(agree: Agree) -> None:
    def through_pandas(spark: SparkSession) -> DataFrame:
        same: Any = (
            spark.table("events").select("k", "d", "s").mapInPandas(lambda frames: frames, "k int, d double, s string")
        )
        grouped: DataFrame = same.groupBy("k").agg(F.sum("d"), F.sort_array(F.collect_list("s")))
        return grouped

    agree(through_pandas, routes=1)


def test_input_that_was_shuffled_gives_the_same_answers(agree: Agree) -> None:
    agree(
        "SELECT k, count(*), array_sort(collect_list(i)) FROM (SELECT /*+ REPARTITION(5) */ * FROM events) GROUP BY k",
        strategies=ONLINE,
        routes=1,
    )


def test_a_written_table_has_the_same_rows(agree: Agree, tmp_path: Path) -> None:
    query = "SELECT k, sum(d) AS total, array_sort(collect_list(i)) AS items FROM events GROUP BY k"
    with agree.with_conf({"spark.saltwise.enabled": True, "spark.saltwise.strategy": "dchoices"}):
        agree.spark.sql(query).write.parquet(str(tmp_path / "result"))

    written = agree.spark.read.parquet(str(tmp_path / "result"))

    assert sorted(written.collect(), key=str) == sorted(agree.spark.sql(query).collect(), key=str)


# Settings

SETTINGS: dict[str, dict[str, object]] = {
    "ANSI on": {"spark.sql.ansi.enabled": True},
    "ANSI off": {"spark.sql.ansi.enabled": False},
    "AQE off": {"spark.sql.adaptive.enabled": False},
    "AQE without coalescing": {"spark.sql.adaptive.coalescePartitions.enabled": False},
    "whole-stage code generation off": {"spark.sql.codegen.wholeStage": False},
    "no code generation": {"spark.sql.codegen.wholeStage": False, "spark.sql.codegen.factoryMode": "NO_CODEGEN"},
    "no code generation, no AQE": {
        "spark.sql.codegen.wholeStage": False,
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": False,
    },
    "partial aggregation not bypassed": {"spark.sql.execution.bypassPartialAggregation": False},
    "adjacent aggregates kept apart": {"spark.sql.execution.combineAdjacentAggregation": False},
    "no object hash aggregate": {"spark.sql.execution.useObjectHashAggregateExec": False},
    "object hash aggregate falls back": {"spark.sql.objectHashAggregate.sortBased.fallbackThreshold": 1},
    "one-level hash map": {"spark.sql.codegen.aggregate.map.twolevel.enabled": False},
    "sort aggregate where sorted": {"spark.sql.execution.replaceHashWithSortAgg": True},
    "another time zone": {"spark.sql.session.timeZone": "America/Los_Angeles"},
    "one shuffle partition, three workers": {"spark.sql.shuffle.partitions": 1, "spark.saltwise.partitions": 3},
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_settings_of_spark_give_the_same_answers(agree: Agree, setting: str) -> None:
    for query in (
        "SELECT k, count(*), sum(d), avg(dec), min(ts) FROM events GROUP BY k",
        "SELECT k, t, count(*), max(s) FILTER (WHERE i > 0) FROM events GROUP BY ROLLUP (k, t)",
        "SELECT k, sum(i), array_sort(collect_list(s)), percentile(d, 0.5), "
        "space_saving_agg(odd, 300) FROM events GROUP BY k",
    ):
        agree(query, conf=SETTINGS[setting], routes=1)


@pytest.mark.parametrize("ansi", [True, False])
def test_an_overflow_is_an_error_or_not_as_in_spark(agree: Agree, ansi: bool) -> None:
    query = "SELECT id % 2, sum(9223372036854775807), try_sum(l * 9223372) FROM events GROUP BY id % 2"
    conf = {"spark.sql.ansi.enabled": ansi}
    if not ansi:
        agree(query, conf=conf, routes=1)
        return

    for enabled in (False, True):
        switched = {**conf, "spark.saltwise.enabled": enabled, "spark.saltwise.strategy": "dchoices"}
        with agree.with_conf(switched), pytest.raises(Exception, match="ARITHMETIC_OVERFLOW"):
            agree.spark.sql(query).collect()


# Ways in


@pytest.mark.smoke
@pytest.mark.parametrize(
    "hint",
    [
        "SKEW_GROUPBY(split)",
        "skew_groupby(pkg)",
        "SKEW_GROUPBY(DChoices, 'partitions=3')",
        "SKEW_GROUPBY(local, 'theta=0.2', 'epsilon=0.01', 'sketch.capacity=8')",
        "SKEW_GROUPBY(dchoices, 'choices=2')",
        "SKEW_GROUPBY(wchoices), COALESCE(2)",
    ],
)
def test_the_hint_in_sql_gives_the_same_answers(agree: Agree, hint: str) -> None:
    query = "SELECT {} k, count(*), sum(d), array_sort(collect_list(i)) FROM events GROUP BY k HAVING count(*) > 3"

    agree.pair(query.format(""), query.format(f"/*+ {hint} */"), routes=1)


@pytest.mark.parametrize(
    ("query", "routes"),
    [
        ("SELECT c, count(*) FROM (SELECT {hint} k, count(*) AS c FROM events GROUP BY k) GROUP BY c", 1),
        ("SELECT {hint} c, count(*) FROM (SELECT k, count(*) AS c FROM events GROUP BY k) GROUP BY c", 1),
        ("SELECT {hint} c, count(*) FROM (SELECT {hint} k, count(*) AS c FROM events GROUP BY k) GROUP BY c", 2),
        ("SELECT {hint} k, count(*) FROM events GROUP BY k UNION ALL SELECT i, sum(k) FROM events GROUP BY i", 1),
        ("WITH g AS (SELECT {hint} k, sum(d) AS total FROM events GROUP BY k) SELECT * FROM g WHERE total > 3", 1),
        ("SELECT id FROM events WHERE k IN (SELECT {hint} k FROM events GROUP BY k HAVING count(*) > 50)", 1),
        (
            "SELECT a.k, a.n FROM (SELECT {hint} k, count(*) AS n FROM events GROUP BY k) a "
            "JOIN (SELECT i, count(*) AS n FROM events GROUP BY i) b ON a.n = b.n",
            1,
        ),
        ("SELECT {hint} k, t, sum(d) FROM events GROUP BY CUBE (k, t)", 1),
        ("SELECT {hint} k, sum(d), rank() OVER (ORDER BY sum(d), k) FROM events GROUP BY k ORDER BY k LIMIT 9", 1),
        ("SELECT {hint} b.k, count(*) FROM events a JOIN events b ON a.id = b.id GROUP BY b.k", 1),
        ("SELECT {hint} /*+ BROADCAST(b) */ b.k, count(*) FROM events a JOIN events b ON a.id = b.id GROUP BY b.k", 1),
    ],
)
def test_the_hint_rewrites_the_aggregate_of_its_own_block_alone(agree: Agree, query: str, routes: int) -> None:
    agree.pair(query.format(hint=""), query.format(hint="/*+ SKEW_GROUPBY(dchoices) */"), routes=routes)


def test_a_view_keeps_its_hint(agree: Agree) -> None:
    agree.spark.sql(
        "CREATE TEMPORARY VIEW hinted AS SELECT /*+ SKEW_GROUPBY(pkg) */ k, sum(d) AS total FROM events GROUP BY k"
    )
    try:
        agree.pair(
            "SELECT * FROM (SELECT k, sum(d) AS total FROM events GROUP BY k) WHERE total > 1",
            "SELECT * FROM hinted WHERE total > 1",
            routes=1,
        )
    finally:
        agree.spark.catalog.dropTempView("hinted")


@pytest.mark.smoke
@pytest.mark.parametrize("strategy", ONLINE)
def test_the_hint_on_a_dataframe_gives_the_same_answers(agree: Agree, strategy: str) -> None:
    def grouped(df: DataFrame) -> DataFrame:
        return df.where("i > 0").groupBy("k").agg(F.sum("d"), F.sort_array(F.collect_list("s")))

    agree.pair(
        lambda spark: grouped(spark.table("events")),
        lambda spark: grouped(spark.table("events").hint("skew_groupby", strategy, "partitions=3")),
        routes=1,
    )


GROUPED: dict[str, Callable[[Any], DataFrame]] = {
    "agg": lambda g: g.agg(F.sum("d"), F.max("s"), F.expr("count(*) FILTER (WHERE t)")),
    "agg by names": lambda g: g.agg({"d": "sum", "i": "max"}),
    "avg": lambda g: g.avg("d", "i"),
    "count": lambda g: g.count(),
    "max": lambda g: g.max("i"),
    "mean": lambda g: g.mean("d"),
    "min": lambda g: g.min("i"),
    "pivot": lambda g: g.pivot("t", [True, False]).sum("d"),
    "pivot without values": lambda g: g.pivot("t").agg(F.max("i")),
    "product": lambda g: g.agg(F.product(F.expr("IF(i > 0, 1D, -1D)"))),
    "sum": lambda g: g.sum("d", "i"),
}


@pytest.mark.smoke
@pytest.mark.parametrize("method", GROUPED)
def test_skew_groupby_has_the_methods_and_answers_of_groupby(agree: Agree, method: str) -> None:
    agree.pair(
        lambda spark: GROUPED[method](spark.table("events").groupBy("k")),
        lambda spark: GROUPED[method](saltwise.skew_groupby(spark.table("events"), "k", strategy="pkg")),
        routes=1,
    )


def test_an_aggregate_that_is_no_sql_function_gives_the_same_answers(agree: Agree) -> None:
    from pyspark.ml.feature import VectorAssembler
    from pyspark.ml.stat import Summarizer

    def summed_up(spark: SparkSession) -> DataFrame:
        vectors = VectorAssembler(inputCols=["l", "f"], outputCol="v").transform(spark.table("events"))
        summary = Summarizer.metrics("count", "max", "min", "numNonZeros").summary(vectors["v"])
        return vectors.groupBy("k").agg(summary.alias("s")).select("k", F.col("s").cast("string"))

    agree(summed_up, routes=1)


def test_skew_groupby_takes_the_columns_that_groupby_takes(version: tuple[int, ...], agree: Agree) -> None:
    by_number = [[2, "t"]] if version >= (4, 0) else []
    for columns in (["k", "t"], [["k", "t"]], [F.col("k") % 3, F.upper("s").alias("u")], *by_number):
        agree.pair(
            lambda spark, c=columns: spark.table("events").groupBy(*c).count(),  # type: ignore[misc]
            lambda spark, c=columns: spark.table("events").skew_groupby(*c, strategy="shuffle").count(),  # type: ignore[misc]
            routes=1,
        )


# What is left alone


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, count(DISTINCT i) FROM events GROUP BY k",
        "SELECT k, count(DISTINCT i), sum(d), max(s) FROM events GROUP BY k",
        "SELECT k, array_sort(collect_list(DISTINCT i)) FROM events GROUP BY k",
    ],
)
def test_one_distinct_aggregate_is_left_alone(agree: Agree, query: str) -> None:
    agree.left_alone(query, "a DISTINCT aggregate has phases of its own")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, count(DISTINCT i), sum(DISTINCT l) FROM events GROUP BY k",
        "SELECT k, count(DISTINCT i), sum(DISTINCT l), array_sort(collect_list(s)) FROM events GROUP BY k",
        "SELECT k, count(DISTINCT i) FILTER (WHERE t), sum(d) FROM events GROUP BY k",
        "SELECT k, t, count(DISTINCT i), count(DISTINCT l) FROM events GROUP BY CUBE (k, t)",
    ],
)
def test_several_distinct_aggregates_are_left_alone(agree: Agree, query: str) -> None:
    agree.left_alone(query, "a DISTINCT aggregate has phases of its own", times=2)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT DISTINCT k, t FROM events",
        "SELECT k FROM events GROUP BY k",
        "SELECT k FROM events UNION SELECT i FROM events",
    ],
)
def test_a_query_without_an_aggregate_function_is_left_alone(agree: Agree, query: str) -> None:
    agree.left_alone(query, "there is no aggregate function, and the map side already drops repeated keys")


@pytest.mark.parametrize("strategy", ["auto", "dchoices"])
def test_an_aggregate_without_a_partial_phase_is_left_alone(agree: Agree, with_conf: WithConf, strategy: str) -> None:
    with with_conf({"spark.sql.execution.bypassPartialAggregation": True}):
        agree.left_alone(
            "SELECT k, array_sort(collect_list(i)) FROM events WHERE i IS NOT NULL GROUP BY k",
            "spark.sql.execution.bypassPartialAggregation is on, so there are no partial states to merge",
            strategy=strategy,
        )


@pytest.mark.parametrize("strategy", ["auto", "dchoices"])
def test_one_partition_is_left_alone(agree: Agree, strategy: str) -> None:
    agree.left_alone(
        "SELECT k, array_sort(collect_list(i)) FROM events GROUP BY k",
        "there is one partition, so there is nothing to balance",
        strategy=strategy,
        options={"partitions": 1},
    )


def test_auto_leaves_states_of_a_fixed_size_alone(agree: Agree) -> None:
    agree.left_alone(
        "SELECT k, sum(i), max(i), sum(d) FROM events GROUP BY k",
        "the states of sum, max have a fixed size, and the map side already combines them; "
        "name a strategy to rewrite all the same",
        strategy="auto",
    )


@pytest.mark.parametrize(
    "clustered",
    [
        "SELECT /*+ REPARTITION(4, k) */ * FROM events",
        "SELECT k, row_number() OVER (PARTITION BY k ORDER BY id) AS i FROM events",
        "SELECT * FROM (SELECT /*+ REPARTITION(4, k) */ * FROM events) WHERE i > 0",
    ],
)
def test_auto_leaves_rows_alone_that_are_grouped_by_key_already(agree: Agree, clustered: str) -> None:
    agree.left_alone(
        f"SELECT k, array_sort(collect_list(i)) FROM ({clustered}) GROUP BY k",
        "its rows are already grouped by key, without another shuffle",
        strategy="auto",
        options={"auto.smallInput": 0},
    )


def test_a_pandas_aggregate_is_left_alone(agree: Agree) -> None:
    def middle(values: pd.Series) -> float:
        return float(values.median())

    agree.left_alone(
        lambda spark: spark.table("events").groupBy("k").agg(pandas_udf(middle, "double")("d")),  # type: ignore[call-overload]
        "pythonudaf cannot be merged from partial states",
    )


def test_the_hint_on_what_cannot_be_rewritten_says_why(agree: Agree) -> None:
    with agree.with_conf({"spark.saltwise.enabled": False}):
        query = "SELECT /*+ SKEW_GROUPBY(pkg) */ k, count(DISTINCT i) FROM events GROUP BY k"

        agree.left_alone_pair(
            "SELECT k, count(DISTINCT i) FROM events GROUP BY k",
            query,
            "a DISTINCT aggregate has phases of its own",
        )


def test_a_global_aggregate_keeps_the_plan_of_spark(agree: Agree) -> None:
    agree.untouched("SELECT count(*), sum(d), array_sort(collect_list(i)) FROM events")


def test_a_query_without_an_aggregate_keeps_the_plan_of_spark(agree: Agree) -> None:
    agree.untouched("SELECT k, d FROM events WHERE i > 0")


def test_applyinpandas_keeps_the_plan_of_spark(agree: Agree) -> None:
    agree.untouched(
        lambda spark: (
            spark.table("events")
            .select("k", "d")
            .groupBy("k")
            .applyInPandas(lambda frame: frame.sort_values("d").head(2), "k int, d double")
        )
    )


def test_a_streaming_aggregate_gives_the_same_answers_and_is_routed_with_saltwise_on_alone(
    spark: SparkSession, with_conf: WithConf, tmp_path: Path
) -> None:
    spark.table("events").select("id", "k", "i").write.parquet(str(tmp_path / "in"))
    answers = {}
    for enabled in (False, True):
        with with_conf({"spark.saltwise.enabled": enabled, "spark.saltwise.strategy": "dchoices"}):
            stream = spark.readStream.schema("id bigint, k int, i int").parquet(str(tmp_path / "in"))
            totals = stream.groupBy("k").agg(F.count("*"), F.sum("i"), F.sort_array(F.collect_list("i")))
            writer = totals.writeStream.outputMode("complete").format("memory").queryName(f"totals_{enabled}")
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            with redirect_stdout(StringIO()) as plan:
                query.explain()
            assert "StateStoreSave" in plan.getvalue()
            assert ("SkewRoute [k" in plan.getvalue()) == enabled
            answers[enabled] = sorted(spark.table(f"totals_{enabled}").collect(), key=str)
            spark.catalog.dropTempView(f"totals_{enabled}")

    assert answers[True] == answers[False]
    assert len(answers[True]) > 3
