"""Random queries over tables with skewed keys, with Saltwise and without it: the answers must be the same.

    python tests/random_queries.py --queries 10000 [--seed 1] [--first 0]

A query is a function of the seed and its number, so one that fails is run again by --first NUMBER --queries 1. It prints
each query whose answers differ, and as its last line, as JSON, how many queries ran, were refused by Spark on both
sides, and how often each plan of ours ran, SkewRoute by strategy too. Exits with 1 if an answer differs, or Spark
refuses more than one query in a hundred.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
from collections import Counter
from dataclasses import dataclass, replace

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import saltwise
from saltwise.spark.answers import Comparison, compare
from saltwise.spark.explain import confs
from saltwise.strategies import ROUTING

ROWS = 400
MAX_REFUSED = 0.01
PLANS = {
    "Combine": "Combine [",
    "SkewSplit": "SkewSplit",
    "SlicedPartitions": "SlicedPartitions",
    "SkewRoute": "SkewRoute",
    "placement": "Exchange placement(",
    "left alone": "SkewGroupBy left alone",
}
"""How the plan of a query shows what of ours is in it."""

COLUMNS = {
    "s": "string",
    "c": "collated",
    "i": "int",
    "v": "bigint",
    "x": "double",
    "e": "decimal",
    "d": "date",
    "z": "timestamp",
    "a": "array",
    "m": "map",
    "n": "struct",
    "b": "binary",
    "o": "nested",
    "l": "collated map",
}
"""The columns of a base table, and what they hold."""

_ROUTE = re.compile(r"SkewRoute \[.*\], (\w+)")

KEYS = {
    "string": ["{}", "{}", "upper({})", "substring({}, 1, 1)", "{} IS NULL"],
    "collated": ["{}", "{}", "lower({})"],
    "int": ["{}", "{}", "{} % 3", "-{}", "{} > 2"],
    "bigint": ["{} % 5", "{} % 40", "{} div 100"],
    "double": ["{}", "-{}", "{} * 2"],
    "decimal": ["{}", "CAST({} AS decimal(10, 1))"],
    "date": ["{}", "year({})"],
    "timestamp": ["{}", "date_trunc('DAY', {})"],
    "array": ["{}", "size({})"],
    "map": ["map_entries({})", "size({})"],
    "struct": ["{}", "{}.p", "{}.q"],
    "binary": ["{}", "length({})"],
    # NaN and -0.0 lie deep inside.
    "nested": ["{}", "{}.p.q", "{}.p.d"],
    "collated map": ["size({})"],
}
"""Expressions to group by."""

AGGREGATES = {
    "string": ["min({})", "max({})", "count(DISTINCT {})", "collect_set({})", "approx_count_distinct({})"],
    "collated": ["min(lower({}))", "count(DISTINCT {})", "collect_list(lower({}))"],
    "int": ["sum({})", "avg({})", "bit_xor({})", "median({})", "percentile_approx({}, 0.5)", "collect_list({})"],
    "bigint": [
        "sum({})",
        "max({})",
        "percentile({}, array(0.1, 0.9))",
        "collect_list({})",
        # How often a histogram has the same x depends on how states were merged.
        "aggregate(histogram_numeric({}, 400), 0D, (sum, bin) -> sum + bin.x * bin.y)",
    ],
    "double": ["sum({})", "avg({})", "min({})", "max({})", "collect_list({})", "median({})"],
    "decimal": ["sum({})", "avg({})", "max({})", "collect_set({})"],
    "date": ["min({})", "max({})", "collect_set({})", "count({})"],
    "timestamp": ["max({})", "count({})"],
    "array": ["collect_list({})", "max(size({}))", "count({})"],
    "map": ["count({})", "collect_list(map_entries({}))"],
    "struct": ["max({})", "collect_set({})", "count({})"],
    "binary": ["max({})", "count({})", "collect_list({})"],
    "nested": ["max({})", "count(DISTINCT {})", "collect_list({})", "sum({}.p.d[0])"],
    "collated map": ["count({})", "collect_list(map_entries({}))", "max(lower({}['a']))"],
}
"""Aggregates with one right answer, apart from the order inside arrays and the last bits of doubles."""

COLLATED = ("collated", "collated map")
"""Not in Spark 3.5."""
ORDERED = ("string", "int", "bigint", "decimal", "date", "timestamp")
HOT = {"string": '"a"', "int": "0", "bigint": "0", "date": '"1990-01-01"'}
"""The hot key of a column, as JSON."""
PLACING = ("consistent", "offgreedy")
"""Strategies for groups that stay whole, of those that need no partition function."""
CONDITIONS = {
    "string": ["{} <> 'a'", "{} IS NOT NULL", "length({}) < 2"],
    "int": ["{} > 1", "{} % 2 = 0", "{} IS NULL"],
    "bigint": ["{} % 3 <> 1", "{} > 100"],
    "double": ["{} > 0", "NOT isnan({})"],
    "date": ["{} > DATE'2000-01-01'"],
}


@dataclass(frozen=True)
class Relation:
    """A part of a query."""

    sql: str
    columns: dict[str, str]
    """What each column holds."""


class Generator:
    """Makes the query of a number."""

    def __init__(self, seed: int, number: int, collations: bool) -> None:
        self.random = random.Random(f"{seed} {number}")
        self.collations = collations
        self.names = 0

    def query(self) -> str:
        """Return a query whose answer has one form, apart from the order of its rows."""
        found = self.grouped(self.relation(2))
        shape = self.random.random()
        if shape < 0.2:
            found = self.grouped(self.named(found))
        elif shape < 0.3:
            found = self.windowed(self.named(found))
        elif shape < 0.4:
            other = self.grouped(self.relation(1))
            found = self.set_operation(self.named(found), self.named(other))
        return found.sql

    def confs(self) -> dict[str, str]:
        """Return confs of Spark, for both sides."""
        pick = self.random.choice
        return {
            "spark.sql.adaptive.enabled": pick(["true", "true", "false"]),
            "spark.sql.adaptive.coalescePartitions.enabled": pick(["true", "false"]),
            "spark.sql.shuffle.partitions": pick(["1", "3", "7"]),
            "spark.sql.codegen.wholeStage": pick(["true", "true", "false"]),
            "spark.sql.ansi.enabled": pick(["true", "false"]),
            "spark.sql.autoBroadcastJoinThreshold": pick(["-1", "10m"]),
            "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": pick(["128", "2"]),
        }

    def stock(self) -> str:
        """Return the mode of the side that Spark plans."""
        return self.random.choice(["off", "off", "observe"])

    def ours(self) -> dict[str, str]:
        """Return confs of ours, for one side."""
        pick = self.random.choice
        return {
            "spark.saltwise.mode": "on",
            "spark.saltwise.strategy": pick(["auto", "auto", "auto", "split", "local", "local", *ROUTING, *PLACING]),
            "spark.saltwise.auto.smallInput": "0",
            "spark.saltwise.local.memory": pick(["64m", "16k"]),
            "spark.saltwise.placement.enabled": pick(["false", "true"]),
        } | ({"spark.saltwise.partitions": pick(["2", "5"])} if self.random.random() < 0.4 else {})

    def name(self) -> str:
        self.names += 1
        return f"r{self.names}"

    def named(self, relation: Relation) -> Relation:
        """Return a relation as a subquery."""
        return replace(relation, sql=f"({relation.sql}) AS {self.name()}")

    def base(self) -> Relation:
        table, name = self.random.choice(["t0", "t1", "t2"]), self.name()
        kept = {column: kind for column, kind in COLUMNS.items() if self.collations or kind not in COLLATED}
        columns = {f"{name}_{column}": kind for column, kind in kept.items()}
        listed = ", ".join(f"{column} AS {name}_{column}" for column in kept)
        return Relation(f"(SELECT {listed} FROM {table}) AS {name}", columns)

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
        if shape < 0.75:
            return self.named(self.windowed(one))
        if shape < 0.85:
            return self.named(self.union(one))
        return self.named(self.filtered(one))

    def joined(self, one: Relation, other: Relation) -> Relation:
        left, right = self.of(one, "string", "int", "date"), self.of(other, "string", "int", "date")
        pairs = [(a, b) for a in left for b in right if one.columns[a] == other.columns[b]]
        if not pairs:
            return one
        a, b = self.random.choice(pairs)
        # Keys that are hot on both sides would multiply: the other side has each key once.
        distinct = self.name()
        small = f"(SELECT DISTINCT {b} FROM {other.sql}) AS {distinct}"
        kind = self.random.choice(["JOIN", "LEFT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
        columns = dict(one.columns)
        if "SEMI" not in kind and "ANTI" not in kind:
            columns[b] = other.columns[b]
        listed = ", ".join(columns)
        return Relation(f"(SELECT {listed} FROM {one.sql} {kind} {small} ON {a} = {b}) AS {self.name()}", columns)

    def of(self, relation: Relation, *kinds: str) -> list[str]:
        return [column for column, kind in relation.columns.items() if kind in kinds]

    def union(self, one: Relation) -> Relation:
        listed = ", ".join(one.columns)
        return Relation(f"SELECT {listed} FROM {one.sql} UNION ALL SELECT {listed} FROM {one.sql}", one.columns)

    def filtered(self, one: Relation) -> Relation:
        listed, condition = ", ".join(one.columns), self.condition(one)
        if self.random.random() < 0.3 and (ints := self.of(one, "int")):
            condition = f"{self.random.choice(ints)} IN (SELECT i FROM t1 WHERE v % 7 = 0)"
        elif self.random.random() < 0.2 and (longs := self.of(one, "bigint")):
            condition = f"{self.random.choice(longs)} < (SELECT max(v) FROM t2) - 10"
        elif self.random.random() < 0.2 and (texts := self.of(one, "string")):
            word = self.random.choice(["EXISTS", "NOT EXISTS"])
            condition = f"{word} (SELECT 1 FROM t1 WHERE s = {self.random.choice(texts)} AND v % 3 = 0)"
        return Relation(f"SELECT {listed} FROM {one.sql} WHERE {condition}", one.columns)

    def condition(self, relation: Relation) -> str:
        columns = self.of(relation, *CONDITIONS)
        if not columns:
            return "true"
        column = self.random.choice(columns)
        return self.random.choice(CONDITIONS[relation.columns[column]]).format(column)

    def windowed(self, one: Relation) -> Relation:
        keys, ordered = [*one.columns], self.of(one, *ORDERED)
        if not ordered:
            return Relation(f"SELECT * FROM {one.sql}", one.columns)
        key = self.random.choice([column for column in keys if "map" not in one.columns[column]])
        order = self.random.choice(ordered)
        call = self.random.choice(
            [
                f"rank() OVER (PARTITION BY {key} ORDER BY {order})",
                f"count(*) OVER (PARTITION BY {key})",
                f"max({order}) OVER (PARTITION BY {key})",
                f"dense_rank() OVER (PARTITION BY {key} ORDER BY {order} DESC)",
            ]
        )
        kind = one.columns[order] if call.startswith("max") else "bigint"
        name = self.name()
        return Relation(f"SELECT *, {call} AS {name} FROM {one.sql}", {**one.columns, name: kind})

    def grouped(self, one: Relation) -> Relation:
        keys = self.random.sample([*one.columns], min(len(one.columns), self.random.choice([1, 1, 2, 3])))
        texts = [self.random.choice(KEYS[one.columns[key]]).format(key) for key in keys]
        aggregates = ["count(*)", *(self.aggregate(one) for _ in range(self.random.choice([1, 1, 2, 4])))]
        names = [self.name() for _ in [*texts, *aggregates]]
        # Which of equal texts stands for a group is left open.
        shown = [
            f"lower({text})" if one.columns[key] == "collated" else text for key, text in zip(keys, texts, strict=True)
        ]
        listed = ", ".join(f"{text} AS {name}" for text, name in zip([*shown, *aggregates], names, strict=True))
        grouping = self.random.choice(["{}", "{}", "{}", "ROLLUP ({})", "CUBE ({})", "GROUPING SETS (({}), ())"])
        hints = ["", "", "", "", "pkg", "dchoices", "split, 'partitions=3'"]
        kinds = [one.columns[key] for key in keys]
        if grouping == "{}" and texts == keys and all(kind in HOT for kind in kinds):
            hints.append(f"""dchoices, 'hot=[{{"key": [{", ".join(HOT[kind] for kind in kinds)}]}}]'""")
        chosen = self.random.choice(hints)
        hint = f"/*+ SKEW_GROUPBY({chosen}) */ " if chosen else ""
        where = f" WHERE {self.condition(one)}" if self.random.random() < 0.3 else ""
        having = self.random.choice(["", "", "", " HAVING count(*) > 2", " HAVING count(*) % 2 = 1"])
        sql = f"SELECT {hint}{listed} FROM {one.sql}{where} GROUP BY {grouping.format(', '.join(texts))}{having}"
        columns = {names[i]: one.columns[key] for i, key in enumerate(keys) if texts[i] == key}
        return Relation(sql, {**columns, names[len(texts)]: "bigint"})

    def aggregate(self, one: Relation) -> str:
        column = self.random.choice([*one.columns])
        call = self.random.choice(AGGREGATES[one.columns[column]]).format(column)
        if self.random.random() < 0.2 and "DISTINCT" not in call and "->" not in call:
            call += f" FILTER (WHERE {self.condition(one)})"
        return call

    def set_operation(self, one: Relation, other: Relation) -> Relation:
        a, b = self.of(one, "bigint"), self.of(other, "bigint")
        word = self.random.choice(["UNION", "INTERSECT", "EXCEPT", "UNION ALL", "INTERSECT ALL", "EXCEPT ALL"])
        return Relation(f"SELECT {a[0]} FROM {one.sql} {word} SELECT {b[0]} FROM {other.sql}", {a[0]: "bigint"})


def make_tables(spark: SparkSession, seed: int, collations: bool) -> None:
    """Make three views with the same columns: half of the rows have one key; NULL, NaN and -0.0 are keys too."""
    for number in range(3):
        rng = random.Random(f"{seed} table {number}")
        rows = ", ".join(_row(rng, i) for i in range(ROWS))
        collated = "c COLLATE UTF8_LCASE AS c, " if collations else ""
        collated_map = ", map('a', c COLLATE UTF8_LCASE) AS l" if collations else ""
        spark.sql(
            f"SELECT /*+ REPARTITION({2 + number}) */ s, {collated}i, v, x, e, d, z, a, m, n, b, o{collated_map} "
            f"FROM VALUES {rows} AS t(s, c, i, v, x, e, d, z, a, m, n, b, o)"
        ).createOrReplaceTempView(f"t{number}")
        spark.catalog.cacheTable(f"t{number}")


def _row(rng: random.Random, i: int) -> str:
    hot = rng.random() < 0.5
    key = 0 if hot else rng.randrange(1, 40)
    text = rng.choice(["NULL", "''", "'é'", "'A'"]) if key % 7 == 1 else f"'{'a' if hot else f'k{key}'}'"
    double = {1: "double('NaN')", 2: "-0.0D", 3: "0.0D", 4: "double('-inf')"}.get(key, f"{key * 0.25}D")
    values = [
        f"CAST({text} AS string)",
        f"CAST({rng.choice([text, text.upper()])} AS string)",
        "CAST(NULL AS int)" if key == 5 else str(key),
        f"{i}L",
        double,
        f"CAST({key}.25 AS decimal(20, 2))",
        f"DATE'{1990 + key}-01-01'",
        f"TIMESTAMP'2020-01-01 00:{key:02}:00'",
        f"array({key % 4}, NULL)",
        f"map('a', {key % 3})",
        f"named_struct('p', {key % 5}, 'q', CAST({text} AS string))",
        f"X'{key:02x}'",
        f"named_struct('p', named_struct('q', array(named_struct('r', {double})), 'd', array({double}, NULL)))",
    ]
    return f"({', '.join(values)})"


def run(spark: SparkSession, sql: str, values: dict[str, str]) -> tuple[list[tuple[object, ...]] | str, str]:
    """Return the answer, or the class of the error, and the plan."""
    with confs(spark, values):
        try:
            df = spark.sql(sql)
            rows = [tuple(row) for row in df.collect()]
            return rows, str(df._jdf.queryExecution().toString())
        except PySparkException as error:
            return error.getCondition() or type(error).__name__, ""


def difference(stock: list[tuple[object, ...]] | str, ours: list[tuple[object, ...]] | str) -> str:
    """Say how two answers differ; empty if they are the same."""
    if isinstance(stock, str) or isinstance(ours, str):
        return (
            ""
            if stock == ours
            else f"{stock if isinstance(stock, str) else 'rows'} against {ours if isinstance(ours, str) else 'rows'}"
        )
    found: Comparison = compare(stock, ours)
    return "" if found.same else str(found.differences[:3])


def started() -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = saltwise.configure(builder.config("spark.ui.showConsoleProgress", "false")).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def check(spark: SparkSession, seed: int, numbers: range) -> tuple[Counter[str], list[str]]:
    """Run queries both ways; return what ran, and what differed."""
    collations = not spark.version.startswith("3.")
    make_tables(spark, seed, collations)
    counts: Counter[str] = Counter()
    wrong = []
    for number in numbers:
        generator = Generator(seed, number, collations)
        sql, shared, ours = generator.query(), generator.confs(), generator.ours()
        answer, _ = run(spark, sql, shared | {"spark.saltwise.mode": generator.stock()})
        rewritten, plan = run(spark, sql, shared | ours)
        counts["queries"] += 1
        counts["refused"] += isinstance(answer, str)
        counts.update(name for name, text in PLANS.items() if text in plan)
        counts.update({f"{strategy}: SkewRoute" for strategy in _ROUTE.findall(plan)})
        found = difference(answer, rewritten)
        if found:
            wrong.append(f"query {number} of seed {seed}: {found}\n{sql}\n{shared | ours}")
    return counts, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    spark = started()
    counts, wrong = check(spark, given.seed, range(given.first, given.first + given.queries))
    print(*wrong, sep="\n\n", file=sys.stderr)
    print(json.dumps({**counts, "different": len(wrong), "seed": given.seed, "spark": spark.version}))
    spark.stop()
    return int(bool(wrong) or counts["refused"] > MAX_REFUSED * counts["queries"])


if __name__ == "__main__":
    sys.exit(main())
