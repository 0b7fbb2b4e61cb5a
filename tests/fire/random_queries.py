"""Random queries over random tables with skewed keys, with Saltwise and without it: the answers must be the same.

    python -m tests.fire.random_queries --queries 10000 [--seed 1] [--first 0]

Each query runs once as Spark plans it, and twice with Saltwise: by a strategy with a plan of its own, and by one that
routes or places rows. A query is a function of the seed and its number, and so are the three tables that it reads,
which are new after every hundred queries. So one that fails is run again by --first NUMBER --queries 1. Prints each
query whose answers differ. Its last line, as JSON, says how many queries ran, how many differed or were refused by
Spark on all sides, how many had each plan of ours, SkewRoute by strategy too, and how many had nothing of ours. Exits
with 1 if an answer differs, or Spark refuses more than one query in a hundred.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pandas as pd
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import pandas_udf
from tests.fire.plan_parts import JOIN_PLANS, PLANS, WINDOW_PLANS
from tests.fire.reading import LAYOUT, PARTITIONS, READINGS, SAME_LAYOUT

import saltwise
from saltwise.spark.compat import physical_plan
from saltwise.spark.reports.answers import compare
from saltwise.spark.session import confs
from saltwise.spark.spark_errors import SPARK_ERRORS
from saltwise.strategies import ROUTING

BLOCK = 100
"""How many queries read the same tables."""
MAX_REFUSED = 0.01
NOTHING = "nothing of ours"

_ROUTE = re.compile(r"SkewRoute \[.*\], (\w+)")


@dataclass(frozen=True)
class Kind:
    """What a column holds."""

    name: str
    parts: tuple[Kind, ...] = ()
    """Of an array what its items hold, of a map its values, and of a struct its fields p and q."""

    @property
    def sql(self) -> str:
        inner = [part.sql for part in self.parts]
        if self.name == "array":
            return f"array<{inner[0]}>"
        if self.name == "map":
            return f"map<string,{inner[0]}>"
        if self.name == "struct":
            return f"struct<p:{inner[0]},q:{inner[1]}>"
        return SCALARS[self.name].sql

    def holds(self, *names: str) -> bool:
        """Whether it is one of these, or has one inside."""
        return self.name in names or any(part.holds(*names) for part in self.parts)


@dataclass(frozen=True)
class Scalar:
    """Values of a kind that is not nested."""

    sql: str
    hot: Any
    """The value of most rows, where a column is skewed."""
    odd: list[Any]
    """Values that are rarely thought of."""
    other: Callable[[int], Any]


SCALARS = {
    "string": Scalar("string", "a", ["", "A", "é"], lambda n: f"k{n}"),
    "collated": Scalar("string COLLATE UTF8_LCASE", "a", ["", "A", "é", "É"], lambda n: f"{'kK'[n % 2]}{n // 2}"),
    "boolean": Scalar("boolean", True, [False], lambda n: n % 2 == 0),
    "int": Scalar("int", 0, [-1, 2**31 - 1], lambda n: n),
    "bigint": Scalar("bigint", 0, [-(2**40)], lambda n: n * 97),
    "double": Scalar("double", 0.0, [-0.0, math.nan, math.inf, -math.inf], lambda n: n * 0.25),
    "float": Scalar("float", 0.0, [-0.0, math.nan], lambda n: n * -0.25),
    "decimal": Scalar("decimal(20,2)", Decimal("0.25"), [Decimal("-1e15")], lambda n: Decimal(n) / 4),
    "short decimal": Scalar("decimal(9,2)", Decimal("0.00"), [Decimal("-0.01")], lambda n: Decimal(n) / 2),
    "date": Scalar("date", date(1990, 1, 1), [date(1, 1, 1)], lambda n: date(1990, 1, 1) + timedelta(100 * n)),
    "timestamp": Scalar("timestamp", datetime(2020, 1, 1), [], lambda n: datetime(2020, 1, 1, n % 24, n)),
    "interval": Scalar("interval day to second", timedelta(0), [timedelta(-1)], lambda n: timedelta(hours=n)),
    "binary": Scalar("binary", b"a", [b"", b"\x00"], lambda n: bytes([n])),
}
HOT = {"string": '"a"', "int": "0", "bigint": "0", "date": '"1990-01-01"'}
"""The hot value of a column, as JSON."""

FLOATS = ("double", "float")
NUMBERS = ("int", "bigint", "double", "float", "decimal", "short decimal")
UNORDERED = ("map", "collated")
"""Kinds that Spark does not order, or that have values which are equal and not the same."""

KEYS = {
    "string": ["{}", "{}", "upper({})", "substring({}, 1, 1)", "{} IS NULL"],
    "collated": ["{}", "{}", "lower({})"],
    "int": ["{}", "{}", "{} % 3", "-{}", "{} > 2"],
    "bigint": ["{}", "{} % 5", "{} div 1000"],
    "double": ["{}", "{}", "-{}", "{} * 2"],
    "float": ["{}", "{}", "-{}"],
    "decimal": ["{}", "CAST({} AS decimal(18, 1))"],
    "date": ["{}", "year({})"],
    "timestamp": ["{}", "date_trunc('HOUR', {})"],
    "array": ["{}", "size({})"],
    "map": ["{}", "map_entries({})", "size({})"],
    "binary": ["{}", "length({})"],
}
"""Expressions to group by. Others are grouped as they are, but for maps before Spark 4.0, which has no such groups."""

# Aggregates with one right answer, apart from the order inside arrays, the last bits of doubles, and the sign of zero.
# {x} is what is aggregated, {y} another number, {row} a column that tells the rows apart, and {f} the FILTER, which
# comes last where it is not named.
OF_ALL = ["count({x})", "collect_list({x})", "max_by({x}, {row})", "min_by({x}, {row})"]
OF_ORDERED = ["min({x})", "max({x})"]
OF_DISTINCT = ["count(DISTINCT {x})", "array_agg(DISTINCT {x})"]
"""A query that has one of these is left alone, so they are rare."""
OF_GUARDED = [
    # Under ANSI, each fails for a row whose argument it does not evaluate in stock.
    "max_by(double(10 / {y}), if({y} = 0, NULL, {row}))",
    "sum(if({y} = 0, NULL, double(10 / {y})))",
    "percentile(double(10 / {y}), 0.5, if({y} = 0, 0, 1))",
    "count(if({y} > 1, 10 / ({y} - 1), NULL))",
    "regr_count(if({y} = 0, NULL, {y}), if({y} = 0, 1, 10 / {y}))",
]
OF_SETS = ["collect_set({x})", "size(collect_set({x}){f})"]
OF_NUMBERS = [
    "sum({x})",
    "avg({x})",
    "try_sum({x})",
    "median({x})",
    "percentile({x}, array(0.1, 0.9))",
    "percentile_cont(0.3) WITHIN GROUP (ORDER BY {x} DESC)",
    "var_pop({x})",
    "stddev({x})",
    # Of infinite values, the order of rows tells whether these are infinite or NaN.
    "covar_pop(if(abs(double({x})) = double('inf'), NULL, {x}), {y})",
    "regr_count({x}, {y})",
    "regr_sxy(if(abs(double({x})) = double('inf'), NULL, {x}), {y})",
    # Of values that are all the same, the last bits of a variance tell whether these are NULL.
    "if(var_pop({x}){f} > 0.001, skewness({x}){f}, NULL)",
    "if(var_pop({x}){f} > 0.001, kurtosis({x}){f}, NULL)",
]
OF_WHOLE_NUMBERS = [
    # What it makes of NaN depends on how states were merged.
    "percentile_approx({x}, array(0.2, 0.5))",
    "bit_xor({x})",
    "bit_and({x})",
    "count_min_sketch({x}, 0.1D, 0.9D, 7)",
    "hll_sketch_estimate(hll_sketch_agg({x}, 16){f})",
    "bitmap_count(bitmap_construct_agg(bitmap_bit_position({x})){f})",
    "heavy_hitters({x}, 1000, 10000)",
    # How often a histogram has the same x depends on how states were merged.
    "aggregate(histogram_numeric({x}, 5000){f}, 0D, (sum, bin) -> sum + bin.x * bin.y)",
]
AGGREGATES = {
    "string": ["approx_count_distinct({x})", "heavy_hitters({x}, 1000, 10000)"],
    "collated": ["lower(min({x}){f})", "max(lower({x}))", "count(DISTINCT {x})", "approx_count_distinct({x})"],
    "boolean": ["bool_and({x})", "bool_or({x})", "count_if({x})"],
    "double": ["approx_count_distinct({x})"],
    "interval": ["sum({x})", "avg({x})"],
    "array": ["max(size({x}))"],
    "map": ["collect_list(map_entries({x}))", "count_if(size({x}) = 1)"],
}
OF_NUMBERS_IN_SPARK_4 = [
    # Spark 3.5 divides by zero here, or by a little more, and may say so.
    "if(regr_sxx({x}, {y}){f} > 0.001 AND regr_syy({x}, {y}){f} > 0.001, corr({x}, {y}){f}, NULL)",
    "if(regr_sxx({x}, {y}){f} > 0.001 AND regr_syy({x}, {y}){f} > 0.001, regr_slope({x}, {y}){f}, NULL)",
]
OF_SPARK_4 = {
    "string": ["listagg({x}, ',') WITHIN GROUP (ORDER BY {x})", "mode({x}, true)"],
    "int": ["mode({x}, true)", "mode() WITHIN GROUP (ORDER BY {x})"],
}

# What a group makes of its parts, and how these are merged. {p} is the column of the parts.
OF_ANY_PARTS = [
    ("count({x})", "sum({p})"),
    ("collect_list({x})", "flatten(collect_list({p}))"),
    ("count_if({x} IS NULL)", "sum({p})"),
]
OF_ORDERED_PARTS = [
    ("min({x})", "min({p})"),
    ("max({x})", "max({p})"),
    ("collect_set({x})", "array_distinct(flatten(collect_list({p})))"),
]
OF_NUMBER_PARTS = [
    ("sum({x})", "sum({p})"),
    ("bit_xor({x})", "bit_xor({p})"),
    ("bit_or({x})", "bit_or({p})"),
]

CONDITIONS = {
    "string": ["{} <> 'a'", "{} IS NOT NULL", "length({}) < 2"],
    "collated": ["{} = 'A'"],
    "int": ["{} > 1", "{} % 2 = 0", "{} IS NULL"],
    "bigint": ["{} % 3 <> 1", "{} > 100"],
    "double": ["{} > 0", "NOT isnan({})", "{} = 0"],
    "date": ["{} > DATE'2000-01-01'"],
    "boolean": ["{}", "NOT {}"],
}
JOINED = ("string", "collated", "int", "bigint", "double", "date")
PLACING = ("consistent", "offgreedy")
"""Strategies for groups that stay whole, of those that need no partition function."""


@dataclass(frozen=True)
class Table:
    columns: dict[str, Kind]
    rows: list[tuple[Any, ...]]
    partitions: int | None
    """How many a shuffle makes; None where the rows stay where they are."""


def tables(seed: int, block: int, spark_4: bool) -> list[Table]:
    """Make the tables of a block of queries. A column `id` tells the rows of each apart."""
    rng = random.Random(f"{seed} tables {block}")
    sizes = [400, rng.choice([100, 200, 300]), rng.choice([0, 3, 100, 200])]
    return [_table(rng, size, spark_4) for size in sizes]


def _table(rng: random.Random, size: int, spark_4: bool) -> Table:
    scalars = [name for name in SCALARS if spark_4 or name != "collated"]
    kinds = [Kind(name) for name in rng.sample(scalars, rng.randrange(4, len(scalars)))]
    kinds += [_nested(rng, scalars, 2) for _ in range(rng.randrange(1, 5))]
    rng.shuffle(kinds)
    columns = {"id": Kind("bigint")} | {f"c{i}": kind for i, kind in enumerate(kinds)}
    values = [_column(rng, kind, size) for kind in kinds]
    return Table(columns, [*zip(range(size), *values, strict=True)], rng.choice([None, 2, 3]))


def _nested(rng: random.Random, scalars: list[str], depth: int) -> Kind:
    if depth == 0 or rng.random() < 0.3 * (2 - depth):
        return Kind(rng.choice(scalars))
    name = rng.choice(["array", "struct", "map"])
    return Kind(name, tuple(_nested(rng, scalars, depth - 1) for _ in range(2 if name == "struct" else 1)))


def _column(rng: random.Random, kind: Kind, size: int) -> list[Any]:
    """Return the values of a column, most of which are one, or few, or all others."""
    drawn = [_value(rng, kind) for _ in range(rng.choice([2, 6, 60]))]
    hot = drawn[0] if kind.parts else SCALARS[kind.name].hot
    share = rng.choice([0, 0.3, 0.6, 0.95])
    return [hot if rng.random() < share else rng.choice(drawn) for _ in range(size)]


def _value(rng: random.Random, kind: Kind) -> Any:
    if rng.random() < 0.1:
        return None
    if kind.name == "array":
        return [_value(rng, kind.parts[0]) for _ in range(rng.randrange(3))]
    if kind.name == "map":
        return {key: _value(rng, kind.parts[0]) for key in rng.sample("ab", rng.randrange(3))}
    if kind.name == "struct":
        return tuple(_value(rng, part) for part in kind.parts)
    scalar = SCALARS[kind.name]
    return rng.choice([scalar.hot, *scalar.odd]) if rng.random() < 0.3 else scalar.other(rng.randrange(60))


@dataclass(frozen=True)
class Relation:
    """A part of a query."""

    sql: str
    columns: dict[str, Kind]
    """What each column holds."""
    row: str | None = None
    """A column that tells the rows apart."""


@dataclass(frozen=True)
class Query:
    sql: str
    per_group: bool = False
    """Whether a function of Python gets each group of k whole."""
    reading: str = "collect"
    """How it is read: one of READINGS."""
    by: str = ""
    """The column that the reading goes by."""
    in_parts: str = ""
    """The same query in parts that are merged by hand; empty for most queries."""


class Generator:
    """Makes the query of a number."""

    def __init__(self, seed: int, number: int, schemas: list[dict[str, Kind]], spark_4: bool) -> None:
        self.random = random.Random(f"{seed} {number}")
        self.schemas = schemas
        self.spark_4 = spark_4
        self.names = 0

    def query(self) -> Query:
        """Return a query whose answer has one form, apart from the order of its rows."""
        shape = self.random.random()
        if shape < 0.02:
            return self.per_group(self.relation(1))
        if shape < 0.04:
            return self.python_aggregate(self.relation(1))
        if shape < 0.14:
            return self.in_parts(self.relation(2))
        if shape < 0.18:
            return self.of_fewer_rows(self.relation(1))
        found = self.grouped(self.relation(2))
        if shape < 0.3:
            found = self.grouped(self.named(found))
        elif shape < 0.4:
            found = self.windowed(self.named(found))
        elif shape < 0.5:
            found = self.set_operation(self.named(found), self.named(self.grouped(self.relation(1))))
        columns = self.without(found, *UNORDERED)
        if not columns or self.random.random() < 0.6:
            return Query(found.sql)
        return Query(found.sql, reading=self.random.choice([*READINGS]), by=self.random.choice(columns))

    def in_parts(self, one: Relation) -> Query:
        """Return a query that groups all rows, and one that groups them in parts and merges what it gets.

        Either a predicate makes the parts, where it is true, false and NULL (Rigger and Su, "Finding Bugs in Database
        Systems via Query Partitioning", OOPSLA 2020), or a number cuts the rows.
        """
        column = self.random.choice(self.without(one, *UNORDERED))
        key, name = self.key(column, one.columns[column])[0], self.name()
        calls: list[tuple[str, str]] = []
        for value in self.random.sample([*one.columns], min(len(one.columns), 4)):
            kind = one.columns[value]
            chosen = OF_ANY_PARTS + (OF_ORDERED_PARTS if not kind.holds(*UNORDERED, *FLOATS) else [])
            chosen = chosen + (OF_NUMBER_PARTS if kind.name == "int" else [])
            call, merge = self.random.choice(chosen)
            calls.append((call.format(x=value), merge.format(p=f"p{len(calls)}")))
        partial = ", ".join(f"{call} AS p{number}" for number, (call, _) in enumerate(calls))
        condition = self.simple_condition(one)
        conditions = [condition, f"NOT ({condition})", f"({condition}) IS NULL"]
        if one.row and self.random.random() < 0.5:
            conditions = [f"{one.row} % 3 = 0", f"{one.row} % 3 <> 0", f"{one.row} IS NULL"]
        rows = f"(SELECT {', '.join(one.columns)}, {key} AS {name} FROM {one.sql})"
        parts = " UNION ALL ".join(
            f"SELECT {name}, {partial} FROM {rows} WHERE {c} GROUP BY {name}" for c in conditions
        )
        merged = ", ".join(merge for _, merge in calls)
        whole = f"SELECT {name}, {partial} FROM {rows} GROUP BY {name}"
        return Query(whole, in_parts=f"SELECT {name}, {merged} FROM ({parts}) GROUP BY {name}")

    def of_fewer_rows(self, one: Relation) -> Query:
        """Return a query over rows of which ties, a limit or a sample keep some: how many is certain, which is not."""
        key, order = (self.random.choice(self.without(one, *UNORDERED)) for _ in range(2))
        ties = f"SELECT {key} AS k, row_number() OVER (PARTITION BY {key} ORDER BY {order}) AS n FROM {one.sql}"
        limit = f"SELECT 'all' AS k, {key} AS n FROM {one.sql} LIMIT {self.random.choice([1, 50])}"
        return Query(
            self.random.choice(
                [
                    f"SELECT k, count(*), size(collect_list(n)) FROM ({ties}) WHERE n <= 3 GROUP BY k",
                    f"SELECT k, count(*) FROM ({limit}) GROUP BY k",
                    f"SELECT k, max(n), sort_array(collect_set(n)) FROM ({ties}) GROUP BY k",
                ]
            )
        )

    def confs(self) -> dict[str, str]:
        """Return confs of Spark, for all sides."""
        pick = self.random.choice
        return {
            "spark.sql.adaptive.enabled": pick(["true", "true", "false"]),
            "spark.sql.adaptive.coalescePartitions.enabled": pick(["true", "false"]),
            "spark.sql.adaptive.advisoryPartitionSizeInBytes": pick(["64m", "2k"]),
            "spark.sql.shuffle.partitions": pick(["1", "2", "3", "3", "7", "7"]),
            "spark.sql.codegen.wholeStage": pick(["true", "true", "false"]),
            "spark.sql.ansi.enabled": pick(["true", "false"]),
            "spark.sql.autoBroadcastJoinThreshold": pick(["-1", "10m"]),
            "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": pick(["128", "2"]),
            "spark.sql.execution.useObjectHashAggregateExec": pick(["true", "true", "false"]),
        }

    def stock(self) -> str:
        """Return the mode of the side that Spark plans."""
        return self.random.choice(["off", "off", "observe"])

    def ours(self) -> list[dict[str, str]]:
        """Return confs of ours, for the other sides."""
        return [self.our("auto", "local", "local", "split"), self.our(*ROUTING, *PLACING)]

    def our(self, *strategies: str) -> dict[str, str]:
        pick, chance = self.random.choice, self.random.random
        optional = {
            "spark.saltwise.partitions": (0.4, ["2", "5"]),
            "spark.saltwise.theta": (0.2, ["0.5", "0.01"]),
            "spark.saltwise.choices": (0.1, ["2"]),
            "spark.saltwise.hot": (0.1, ['[{"key": [0]}]', '[{"key": ["a"]}]']),
        }
        return {
            "spark.saltwise.mode": "on",
            "spark.saltwise.strategy": pick(strategies),
            "spark.saltwise.auto.smallInput": "0",
            "spark.saltwise.local.memory": pick(["64m", "16k"]),
            "spark.saltwise.placement.enabled": pick(["false", "true"]),
        } | {name: pick(values) for name, (share, values) in optional.items() if chance() < share}

    def name(self) -> str:
        self.names += 1
        return f"r{self.names}"

    def named(self, relation: Relation) -> Relation:
        """Return a relation as a subquery."""
        return replace(relation, sql=f"({relation.sql}) AS {self.name()}")

    def base(self) -> Relation:
        number, name = self.random.randrange(len(self.schemas)), self.name()
        columns = {f"{name}_{column}": kind for column, kind in self.schemas[number].items()}
        listed = ", ".join(f"{column} AS {name}_{column}" for column in self.schemas[number])
        return Relation(f"(SELECT {listed} FROM t{number}) AS {name}", columns, f"{name}_id")

    def relation(self, depth: int) -> Relation:
        """Return what can stand after FROM."""
        shape = self.random.random()
        if depth == 0 or shape < 0.35:
            return self.base()
        one = self.relation(depth - 1)
        if shape < 0.55:
            return self.joined(one, self.relation(depth - 1))
        if shape < 0.65:
            return self.named(self.grouped(one))
        makes = self.windowed if shape < 0.75 else self.union if shape < 0.83 else self.exploded
        return self.named(makes(one) if shape < 0.88 else self.filtered(one))

    def of(self, relation: Relation, *kinds: str) -> list[str]:
        return [column for column, kind in relation.columns.items() if kind.name in kinds]

    def without(self, relation: Relation, *kinds: str) -> list[str]:
        return [column for column, kind in relation.columns.items() if not kind.holds(*kinds)]

    def inside(self, text: str, kind: Kind) -> tuple[str, Kind]:
        """Return an expression of a column, or of what lies in it."""
        while kind.parts and self.random.random() < 0.4:
            index = self.random.randrange(len(kind.parts))
            steps = {"array": f"get({text}, 0)", "map": f"{text}['a']", "struct": f"{text}.{'pq'[index]}"}
            text, kind = steps[kind.name], kind.parts[index]
        return text, kind

    def joined(self, one: Relation, other: Relation) -> Relation:
        left, right = self.of(one, *JOINED), self.of(other, *JOINED)
        pairs = [(a, b) for a in left for b in right if one.columns[a] == other.columns[b]]
        if not pairs:
            return one
        a, b = self.random.choice(pairs)
        # Keys that are hot on both sides would multiply: the other side has each key once.
        once = f"lower({b}) AS {b}" if other.columns[b].name == "collated" else b
        distinct = self.name()
        small = f"(SELECT DISTINCT {once} FROM {other.sql}) AS {distinct}"
        kind = self.random.choice(["JOIN", "LEFT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
        columns = dict(one.columns)
        if "SEMI" not in kind and "ANTI" not in kind:
            columns[b] = other.columns[b]
        chosen = self.random.choice(["", "", "BROADCAST", "MERGE", "SHUFFLE_HASH", "SHUFFLE_REPLICATE_NL"])
        hint = f"/*+ {chosen}({distinct}) */ " if chosen else ""
        sql = f"(SELECT {hint}{', '.join(columns)} FROM {one.sql} {kind} {small} ON {a} = {b}) AS {self.name()}"
        return Relation(sql, columns, None if kind == "FULL JOIN" else one.row)

    def union(self, one: Relation) -> Relation:
        listed = ", ".join(one.columns)
        return Relation(f"SELECT {listed} FROM {one.sql} UNION ALL SELECT {listed} FROM {one.sql}", one.columns)

    def exploded(self, one: Relation) -> Relation:
        arrays = self.of(one, "array")
        if not arrays:
            return self.filtered(one)
        column, name, alias = self.random.choice(arrays), self.name(), self.name()
        view = f"LATERAL VIEW OUTER explode({column}) {alias} AS {name}"
        return Relation(f"SELECT * FROM {one.sql} {view}", {**one.columns, name: one.columns[column].parts[0]})

    def filtered(self, one: Relation) -> Relation:
        hint = self.repartitioned(one)
        sql = f"SELECT {hint}{', '.join(one.columns)} FROM {one.sql} WHERE {self.condition(one)}"
        return replace(one, sql=sql)

    def repartitioned(self, one: Relation) -> str:
        """Return a hint that says where the rows of a query block go, or nothing."""
        columns = self.without(one, *UNORDERED)
        column = self.random.choice(columns)
        hints = ["REPARTITION(3)", f"REPARTITION({column})", f"REPARTITION_BY_RANGE(2, {column})", "COALESCE(1)"]
        return f"/*+ {self.random.choice([*hints, f'REBALANCE({column})'])} */ " if self.random.random() < 0.3 else ""

    def condition(self, one: Relation) -> str:
        """Return a condition, of the columns alone or of a subquery."""
        columns = self.of(one, *CONDITIONS)
        column = self.random.choice(columns)
        kind = one.columns[column]
        number = self.random.randrange(len(self.schemas))
        same = [name for name, other in self.schemas[number].items() if other == kind]
        if same and self.random.random() < 0.4:
            other = self.random.choice(same)
            return self.random.choice(
                [
                    f"{column} IN (SELECT {other} FROM t{number} WHERE id % 7 = 0)",
                    f"{column} < (SELECT max({other}) FROM t{number})",
                    f"EXISTS (SELECT 1 FROM t{number} WHERE {other} = {column} AND id % 3 = 0)",
                    f"NOT EXISTS (SELECT 1 FROM t{number} WHERE {other} = {column} AND id % 3 = 0)",
                    f"(SELECT count(*) FROM t{number} WHERE {other} = {column}) < 9",
                ]
            )
        return self.simple_condition(one)

    def simple_condition(self, one: Relation) -> str:
        column = self.random.choice(self.of(one, *CONDITIONS))
        return self.random.choice(CONDITIONS[one.columns[column].name]).format(column)

    def windowed(self, one: Relation) -> Relation:
        key = self.random.choice(self.without(one, "map"))
        order = self.random.choice(self.without(one, *UNORDERED))
        number = Kind("bigint")
        calls = [
            (f"rank() OVER (PARTITION BY {key} ORDER BY {order})", number),
            (f"count(*) OVER (PARTITION BY {key})", number),
            (f"max({order}) OVER (PARTITION BY {key})", one.columns[order]),
            (f"dense_rank() OVER (PARTITION BY {key} ORDER BY {order} DESC)", number),
        ]
        if one.row:
            rows = f"OVER (PARTITION BY {key} ORDER BY {one.row}"
            frame = "ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING"
            calls += [
                (f"row_number() {rows})", number),
                (f"lag({order}) {rows})", one.columns[order]),
                (f"count({order}) {rows} {frame})", number),
            ]
        call, kind = self.random.choice(calls)
        name = self.name()
        return Relation(f"SELECT *, {call} AS {name} FROM {one.sql}", {**one.columns, name: kind}, one.row)

    def key(self, column: str, kind: Kind) -> tuple[str, Kind]:
        """Return an expression to group by, and the kind of what it is made of."""
        text, kind = self.inside(column, kind)
        forms = KEYS.get(kind.name, ["{}"])
        if kind.holds("map") and not self.spark_4:
            forms = [form for form in forms if form != "{}"] or ["{} IS NULL"]
        return self.random.choice(forms).format(text), kind

    def grouped(self, one: Relation) -> Relation:
        columns = self.random.sample([*one.columns], min(len(one.columns), self.random.choice([1, 1, 2, 3])))
        keys = [self.key(column, one.columns[column]) for column in columns]
        texts = [text for text, _ in keys]
        grouping = self.random.choice(["{}", "{}", "{}", "ROLLUP ({})", "CUBE ({})", "GROUPING SETS (({}), ())"])
        # What a query shows, and what each of it holds; None is used no more.
        shown: list[tuple[str, Kind | None]] = [("count(*)", Kind("bigint"))]
        for column, (text, kind) in zip(columns, keys, strict=True):
            shown += self.shown_key(column, text, kind)
        shown += [self.aggregate(one) for _ in range(self.random.choice([1, 1, 2, 4]))]
        if grouping != "{}":
            shown.append(("grouping_id()", None))
        elif texts[0] == columns[0] and not keys[0][1].holds("collated"):
            # All rows of a group have the same.
            shown.append((f"{self.random.choice(['first', 'last', 'any_value'])}({texts[0]})", None))
        names = [self.name() for _ in shown]
        tells = [name for name, (text, _) in zip(names, shown, strict=True) if text in texts]
        listed = ", ".join(f"{text} AS {name}" for (text, _), name in zip(shown, names, strict=True))
        kept = {name: kind for name, (_, kind) in zip(names, shown, strict=True) if kind}
        hot = grouping == "{}" and texts == columns and all(kind.name in HOT for _, kind in keys)
        hint = self.hint([HOT[kind.name] for _, kind in keys] if hot else None)
        where = f" WHERE {self.condition(one)}" if self.random.random() < 0.3 else ""
        having = self.random.choice(["", "", "", " HAVING count(*) > 2", " HAVING count(*) % 2 = 1"])
        order = ""
        if grouping == "{}" and self.random.random() < 0.1 and not any(kind.holds(*UNORDERED) for _, kind in keys):
            order = f" ORDER BY {', '.join(tells)} LIMIT {self.random.choice([1, 7, 50])}"
        by = grouping.format(", ".join(texts))
        return Relation(f"SELECT {hint}{listed} FROM {one.sql}{where} GROUP BY {by}{having}{order}", kept)

    def shown_key(self, column: str, text: str, kind: Kind) -> list[tuple[str, Kind | None]]:
        """Return what a query shows of a key that is made of this kind."""
        if kind.holds("collated"):
            # Which of equal texts stands for a group is left open.
            return [(f"lower(CAST({text} AS string))", Kind("string"))]
        raw = (text, kind if text == column else None)
        # A text has the sign of zero too. Spark groups by 0.0 where a row has -0.0, so a key has no sign. What max or
        # collect_list make of both zeros has the sign of the one that came first, and is never a text here.
        return [raw, (f"CAST({text} AS string)", None)] if kind.holds(*FLOATS) else [raw]

    def hint(self, hot: list[str] | None) -> str:
        """Return the hint of a query block, or nothing."""
        hints = ["SKEW_GROUPBY(pkg)", "SKEW_GROUPBY(dchoices)", "SKEW_GROUPBY(split, 'partitions=3')", *[""] * 12]
        if hot is not None:
            hints.append(f"""SKEW_GROUPBY(dchoices, 'hot=[{{"key": [{", ".join(hot)}]}}]')""")
        chosen = [self.random.choice(hints), self.random.choice(["", "", "", "REPARTITION(2)", "COALESCE(2)"])]
        return f"/*+ {', '.join(filter(None, chosen))} */ " if any(chosen) else ""

    def aggregate(self, one: Relation) -> tuple[str, Kind | None]:
        """Return an aggregate, and what it holds, if that can be used further."""
        column = self.random.choice([*one.columns])
        text, kind = self.inside(column, one.columns[column])
        calls = OF_ALL + AGGREGATES.get(kind.name, []) + (OF_SPARK_4.get(kind.name, []) if self.spark_4 else [])
        if not kind.holds(*UNORDERED):
            if self.random.random() < 0.04:
                return self.random.choice(OF_DISTINCT).format(x=text), None
            calls = calls + OF_ORDERED + (OF_SETS if not kind.holds(*FLOATS) else [])
        if kind.name in NUMBERS:
            calls = calls + OF_NUMBERS + (OF_NUMBERS_IN_SPARK_4 if self.spark_4 else [])
            calls = calls + (OF_WHOLE_NUMBERS if kind.name in ("int", "bigint") else []) + OF_GUARDED
        call = self.random.choice([call for call in calls if one.row or "{row}" not in call])
        made = kind if call in OF_ORDERED and not kind.holds(*FLOATS) else None
        where = f" FILTER (WHERE {self.simple_condition(one)})" if self.random.random() < 0.2 else ""
        other = self.random.choice(self.of(one, *NUMBERS))
        text = (call if "{f}" in call else call + "{f}").format(x=text, y=other, row=one.row, f=where)
        return text, made

    def set_operation(self, one: Relation, other: Relation) -> Relation:
        # Spark cannot plan EXCEPT ALL of a column that is there twice.
        pairs = {
            a: b
            for a in self.without(one, "map", "collated")
            for b in self.without(other, "map", "collated")
            if one.columns[a] == other.columns[b]
        }
        chosen = self.random.sample([*pairs], min(len(pairs), self.random.choice([1, 2])))
        left, right = ", ".join(chosen), ", ".join(f"{pairs[a]} AS {self.name()}" for a in chosen)
        word = self.random.choice(["UNION", "INTERSECT", "EXCEPT", "UNION ALL", "INTERSECT ALL", "EXCEPT ALL"])
        columns = {a: one.columns[a] for a in chosen}
        return Relation(f"SELECT {left} FROM {one.sql} {word} SELECT {right} FROM {other.sql}", columns)

    def python_aggregate(self, one: Relation) -> Query:
        key = self.random.choice(self.without(one, "map", "collated"))
        value = self.random.choice(self.of(one, "int", "bigint"))
        return Query(f"SELECT {key}, python_sum({value}) FROM {one.sql} GROUP BY {key}")

    def per_group(self, one: Relation) -> Query:
        key = self.random.choice(self.of(one, *JOINED))
        value = self.random.choice(self.of(one, "int", "bigint"))
        return Query(f"SELECT {key} AS k, {value} AS v FROM {one.sql}", per_group=True)


def make_views(spark: SparkSession, made: list[Table]) -> None:
    for number, table in enumerate(made):
        name = f"t{number}"
        spark.catalog.dropTempView(name)
        schema = ", ".join(f"{column} {kind.sql}" for column, kind in table.columns.items())
        rows = spark.createDataFrame(table.rows, schema)
        shuffled = rows.repartition(table.partitions) if table.partitions else rows
        shuffled.createOrReplaceTempView(name)
        spark.catalog.cacheTable(name)


def register(spark: SparkSession) -> None:
    """Register the aggregate in Python."""

    def python_sum(values: pd.Series) -> int:
        return int(values.fillna(0).sum())

    spark.udf.register("python_sum", pandas_udf(python_sum, "bigint"))  # type: ignore[call-overload]


Answer = list[tuple[object, ...]] | str
"""Rows, or the class of an error."""


def run(spark: SparkSession, query: Query, values: dict[str, str]) -> tuple[Answer, str]:
    """Return the answer and the plan."""

    def size(rows: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"n": [len(rows)], "v": [int(rows["v"].fillna(0).sum())]})

    with confs(spark, values):
        try:
            df = spark.sql(query.sql)
            if query.per_group:
                df = df.groupBy("k").applyInPandas(size, "n bigint, v bigint")
            return READINGS[query.reading](df, query.by), physical_plan(df)
        except SPARK_ERRORS as error:
            return error_class(error), ""


def error_class(error: Exception) -> str:
    """Return the error class of Spark, or the class of the first cause where a task failed without one."""
    if isinstance(error, PySparkException):
        # Spark 4.0 calls it the condition.
        named = error.getErrorClass() if not hasattr(error, "getCondition") else error.getCondition()
        if named:
            return str(named)
    java: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while java is not None and java.getCause() is not None:
        java = java.getCause()
    return type(error).__name__ if java is None else str(java.getClass().getName())


def difference(stock: Answer, ours: Answer) -> str:
    """Say how two answers differ; empty if they are the same."""
    if isinstance(stock, str) or isinstance(ours, str):
        return "" if stock == ours else " against ".join(x if isinstance(x, str) else "rows" for x in (stock, ours))
    found = compare(stock, ours)
    return "" if found.same else str(found.differences[:3])


def started() -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(f"local[{PARTITIONS}]").config("spark.ui.enabled", "false")
    spark = saltwise.configure(builder.config("spark.ui.showConsoleProgress", "false")).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def check(
    spark: SparkSession, seed: int, numbers: range, by_turns: bool = False, makes: type[Generator] = Generator
) -> tuple[Counter[str], list[str]]:
    """Run queries on all sides, or by turns on one of ours; return what ran, and what differed."""
    spark_4 = not spark.version.startswith("3.")
    register(spark)
    counts: Counter[str] = Counter()
    wrong = []
    block = None
    for number in numbers:
        if block != number // BLOCK:
            block = number // BLOCK
            made = tables(seed, block, spark_4)
            make_views(spark, made)
        generator = makes(seed, number, [table.columns for table in made], spark_4)
        query, shared, stock = generator.query(), generator.confs(), generator.stock()
        if query.reading in SAME_LAYOUT:  # a number of partitions that the user gives is another layout
            shared |= LAYOUT
            query = replace(query, sql=query.sql.replace(", 'partitions=3'", ""))
        answer, _ = run(spark, query, shared | {"spark.saltwise.mode": stock})
        counts["queries"] += 1
        counts["refused"] += isinstance(answer, str)
        counts["in parts"] += bool(query.in_parts)
        ran, different = set(), False
        sides = generator.ours()
        if query.reading in SAME_LAYOUT:
            for side in sides:
                side.pop("spark.saltwise.partitions", None)
        for ours in [sides[number % len(sides)]] if by_turns else sides:
            rewritten, plan = run(spark, query, shared | ours)
            ran |= {name for name, text in (PLANS | JOIN_PLANS | WINDOW_PLANS).items() if text in plan}
            ran |= {f"{strategy}: SkewRoute" for strategy in _ROUTE.findall(plan)}
            found = difference(answer, rewritten)
            if not found and query.in_parts:
                in_parts = replace(query, sql=query.in_parts)
                found = difference(rewritten, run(spark, in_parts, shared | ours)[0])
                # Spark may answer its own parts otherwise, as with NaN below a correlated subquery.
                if found and difference(answer, run(spark, in_parts, shared | {"spark.saltwise.mode": stock})[0]):
                    counts["parts differ in stock"] += 1
                    found = ""
            if found:
                different = True
                how = f"{query.reading} {query.by} {query.in_parts}".strip()
                wrong.append(f"query {number} of seed {seed}: {found}\n{query.sql}\n{how}\n{shared | ours}")
        counts.update(ran if ran - {"left alone"} else ran | {NOTHING})
        counts["different"] += different
    return counts, wrong


def main(makes: type[Generator] = Generator) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    spark = started()
    end = given.first + given.queries
    counts: Counter[str] = Counter()
    for first in range(given.first, end, BLOCK):
        found, wrong = check(spark, given.seed, range(first, min(first + BLOCK, end)), makes=makes)
        counts.update(found)
        wrong.append(f"{min(first + BLOCK, end) - given.first} of {given.queries}, {counts['different']} differ")
        print("\n\n".join(wrong), file=sys.stderr, flush=True)
    print(json.dumps({**counts, "seed": given.seed, "first": given.first, "spark": spark.version}))
    spark.stop()
    return int(counts["different"] > 0 or counts["refused"] > MAX_REFUSED * counts["queries"])


if __name__ == "__main__":
    sys.exit(main())
