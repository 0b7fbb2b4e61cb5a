"""Random tables, queries, strategies and options: Saltwise off and on give the same answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from saltwise.strategies import PLACEMENT, PLANNED_AHEAD, STRATEGIES

if TYPE_CHECKING:
    from tests.agree import Agree


@pytest.fixture(scope="module", autouse=True)
def drawn(spark: SparkSession) -> Iterator[None]:
    """The view that each example makes anew goes when all are over."""
    yield
    spark.catalog.dropTempView("drawn")


# Each example costs three jobs of Spark.
few = settings(max_examples=settings().max_examples // 10)

INTS = ["NULL", "0", "1", "2", "3", "-7", "2147483647"]
DOUBLES = ["NULL", "double('NaN')", "-0.0D", "0.0D", "double('-inf')", "1.5D", "2.25D"]
STRINGS = ["NULL", "''", "'a'", "'A'", "'b '", "'é'", "'𝒳'"]
DATES = ["NULL", "DATE'2013-01-01'", "DATE'1582-10-04'", "DATE'9999-12-31'"]
STRUCTS = ["NULL", "struct(1, 'a')", "struct(NULL, 'a')", "struct(1, NULL)"]
AMOUNTS = ["NULL", "0.0D", "0.0625D", "-3.5D", "1048576D", "7D"]

TYPES = "i: INT, x: DOUBLE, s: STRING, dt: DATE, st: STRUCT<n: INT, t: STRING>, v: INT, d: DOUBLE, times: INT"
COLUMNS = {"i": INTS, "x": DOUBLES, "s": STRINGS, "dt": DATES, "st": STRUCTS, "v": INTS, "d": AMOUNTS}

KEYS = ["i", "x", "s", "dt", "st", "i % 2", "-x", "upper(s)", "dt IS NULL", "st.n", "'all'"]

# Each has one right answer, whatever the order of rows: lists are sorted, and sums of these amounts are exact.
AGGREGATES = [
    "count(*)",
    "count(v)",
    "count(v, s)",
    "sum(v)",
    "sum(d)",
    "avg(v)",
    "avg(d)",
    "min(x)",
    "max(x)",
    "min(s)",
    "max(st)",
    "max(dt)",
    "bool_or(v > 1)",
    "bit_xor(v)",
    "approx_count_distinct(s)",
    "array_sort(collect_list(v))",
    "array_sort(collect_set(s))",
    "array_sort(collect_list(CAST(x AS STRING)))",
    "percentile(v, 0.3)",
    "median(d)",
    "heavy_hitters(st, 5, 100)",
    "space_saving_agg(x, 100)",
]
CONDITIONS = ["v > 0", "d IS NOT NULL", "s = 'a'", "x = 0"]
HAVING = ["count(*) > 2", "max(v) IS NOT NULL", "sum(d) >= 0"]


@dataclass(frozen=True)
class Case:
    table: str
    query: str
    options: dict[str, object]
    strategies: list[str]


@st.composite
def tables(draw: st.DrawFn) -> str:
    """Up to 40 rows, of which some come up to 60 times, so that keys are hot; in one to four partitions."""
    row = st.tuples(*(st.sampled_from(values) for values in COLUMNS.values()), st.sampled_from([1, 1, 2, 60]))
    rows = ", ".join(f"struct({', '.join(map(str, drawn))})" for drawn in draw(st.lists(row, max_size=40)))
    return (
        f"SELECT /*+ REPARTITION({draw(st.integers(1, 4))}) */ r.* "
        f"FROM (SELECT explode(CAST(array({rows}) AS ARRAY<STRUCT<{TYPES}>>)) AS r) "
        "LATERAL VIEW explode(array_repeat(0, r.times)) AS again"
    )


@st.composite
def queries(draw: st.DrawFn) -> str:
    keys = draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True))
    aggregates = draw(st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=4, unique=True))
    columns = [*keys, *(draw(filtered(aggregate)) for aggregate in aggregates)]
    # Of aggregates of no rows Spark makes constants, and where all are so, it has none left.
    assume(not all("FILTER (WHERE false)" in column for column in columns[len(keys) :]))
    named = ", ".join(f"{column} AS c{i}" for i, column in enumerate(columns))
    grouping = draw(st.sampled_from(["{}", "{}", "ROLLUP ({})", "CUBE ({})", "GROUPING SETS (({}), ())"]))
    where = draw(st.sampled_from(["", f" WHERE {draw(st.sampled_from(CONDITIONS))}"]))
    having = draw(st.sampled_from(["", f" HAVING {draw(st.sampled_from(HAVING))}"]))
    inner = f"SELECT {named} FROM drawn{where} GROUP BY {grouping.format(', '.join(keys))}{having}"
    if draw(st.booleans()):
        return inner
    return f"SELECT c0, count(*), max(c{len(keys)}) FROM ({inner}) GROUP BY c0"


def filtered(aggregate: str) -> st.SearchStrategy[str]:
    """Some calls have a FILTER; what is around the aggregate itself stays around the FILTER."""
    inner = aggregate.removeprefix("array_sort(")
    depth = len(aggregate) - len(inner)
    call = inner[:-1] if depth else inner
    filters = ["", "", *(f" FILTER (WHERE {condition})" for condition in [*CONDITIONS, "false"])]
    return st.sampled_from(filters).map(lambda text: aggregate[:depth] + call + text + (")" if depth else ""))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    partitions = draw(st.integers(2, 9))
    options: dict[str, object] = {"partitions": partitions}
    options |= draw(
        st.sampled_from(
            [{}, {}, {"theta": 0.3}, {"theta": 0.01, "sketch.capacity": 100}, {"epsilon": 0.5}, {"choices": 2}]
        )
    )
    query = draw(queries())
    named = [strategy for strategy in STRATEGIES if strategy not in ("auto", *PLANNED_AHEAD)]
    # A constant places nothing, as test_placement.py says; it may still be routed.
    if re.search(r"GROUP BY 'all'( HAVING|\)|$)", query):
        named = [strategy for strategy in named if strategy == "hash" or strategy not in PLACEMENT]
    strategies = draw(st.lists(st.sampled_from(named), min_size=2, max_size=2, unique=True))
    return Case(draw(tables()), query, options, strategies)


@given(cases())
@few
def test_any_query_over_any_table_gives_the_same_answers(spark: SparkSession, agree: Agree, case: Case) -> None:
    spark.sql(case.table).createOrReplaceTempView("drawn")

    agree(lambda session: session.sql(case.query), strategies=case.strategies, options=case.options)


@st.composite
def hot_keys(draw: st.DrawFn) -> tuple[str, str]:
    """A key column and hot keys of it, some with a share; not all of them need to be in the table."""
    spelled = {
        "i": ["null", "0", "1", "2147483647"],
        "x": ["null", '"NaN"', "-0.0", "0", '"-Infinity"', "1.5"],
        "s": ["null", '""', '"a"', '"b "', '"é"'],
        "dt": ["null", '"2013-01-01"', '"9999-12-31"'],
    }
    column = draw(st.sampled_from(sorted(spelled)))
    keys = draw(st.lists(st.sampled_from(spelled[column]), min_size=1, unique=True))
    shares = [draw(st.sampled_from(["", ', "share": 0.3', ', "share": 0.01'])) for _ in keys]
    entries = [f'{{"key": [{key}]{share}}}' for key, share in zip(keys, shares, strict=True)]
    return column, f"[{', '.join(entries)}]"


@given(tables(), hot_keys(), st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=3), st.integers(2, 9))
@settings(max_examples=settings().max_examples // 20)
def test_any_hot_keys_give_the_same_answers(
    spark: SparkSession, agree: Agree, table: str, hot: tuple[str, str], aggregates: list[str], partitions: int
) -> None:
    spark.sql(table).createOrReplaceTempView("drawn")
    column, keys = hot
    query = f"SELECT {column}, {', '.join(aggregates)} FROM drawn GROUP BY {column}"

    agree(
        lambda session: session.sql(query),
        strategies=["dchoices", "pkg"],
        options={"hot": keys, "partitions": partitions},
        routes=1,
    )
