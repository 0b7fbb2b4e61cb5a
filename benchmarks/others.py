"""Queries and data that nobody here wrote: TPC-H, TPC-DS and the group-by questions of H2O, with `auto` and without.

    python benchmarks/others.py [--suites tpch,tpcds,h2o] [--data uniform,zipf] [--variants plain,objects]
                                [--only TEXT] [--scale 1] [--rounds 3] [--cold] [--conf NAME=VALUE]
                                [--out benchmarks/results/others.csv]

* Data: DuckDB's generators of TPC-H and TPC-DS, at this scale; and H2O's, of 5 million rows, with 10^2 and 10^5 keys.
  `zipf` redraws the foreign keys of the fact tables, and H2O's ids: the r-th key has a share proportional to 1/r.
* Queries: those that DuckDB has, in Spark's dialect by sqlglot. `objects` has percentile_approx in place of each sum
  and average outside of windows. A query that stock Spark refuses is left out, and the output says so.
* Both sides run by turns in one process, after two runs of each that are not measured. With `--cold`, each side of each
  round runs in a JVM of its own, and its first query is measured. `--conf` sets a conf of both sides, and the name of a
  query then has it too: with spark.sql.autoBroadcastJoinThreshold=2m, the customers do not fit, as at larger scales.

Nothing here is tuned to these queries. It needs: pip install saltwise[bench]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from common import CACHE, RESULTS, console, parquet_folder, session, zipf_keys
from pairs import SIDES, choose, cold_pair, run, write
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

SUITES = ("tpch", "tpcds", "h2o")
DATA = ("uniform", "zipf")
VARIANTS = ("plain", "objects")

FOREIGN_KEYS = {
    "lineitem": {"l_partkey": "part", "l_suppkey": "supplier"},
    "orders": {"o_custkey": "customer"},
    "store_sales": {"ss_item_sk": "item", "ss_customer_sk": "customer"},
    "catalog_sales": {"cs_item_sk": "item", "cs_bill_customer_sk": "customer"},
    "web_sales": {"ws_item_sk": "item", "ws_bill_customer_sk": "customer"},
}
"""The foreign keys that are redrawn, by table and column, with the table that they point to."""

H2O_ROWS = 5_000_000
H2O = {
    "q1": "SELECT id1, sum(v1) FROM {} GROUP BY id1",
    "q2": "SELECT id1, id2, sum(v1) FROM {} GROUP BY id1, id2",
    "q3": "SELECT id3, sum(v1), avg(v3) FROM {} GROUP BY id3",
    "q4": "SELECT id4, avg(v1), avg(v2), avg(v3) FROM {} GROUP BY id4",
    "q5": "SELECT id6, sum(v1), sum(v2), sum(v3) FROM {} GROUP BY id6",
    "q6": "SELECT id4, id5, median(v3), stddev(v3) FROM {} GROUP BY id4, id5",
    "q7": "SELECT id3, max(v1) - min(v2) FROM {} GROUP BY id3",
    "q8": "SELECT id6, v3 FROM (SELECT id6, v3, row_number() OVER (PARTITION BY id6 ORDER BY v3 DESC) AS r FROM {})"
    " WHERE r <= 2",
    "q9": "SELECT id2, id4, pow(corr(v1, v2), 2) FROM {} GROUP BY id2, id4",
    "q10": "SELECT id1, id2, id3, id4, id5, id6, sum(v3), count(*) FROM {} GROUP BY id1, id2, id3, id4, id5, id6",
}
"""The group-by questions of H2O's db-benchmark."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    for name, all_of in (("suites", SUITES), ("data", DATA), ("variants", VARIANTS)):
        parser.add_argument(f"--{name}", type=lambda text: text.split(","), default=all_of, help=", ".join(all_of))
    parser.add_argument("--only", default="", help="queries whose name has this text")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cold", action="store_true", help="the first query of a JVM")
    parser.add_argument("--conf", default="", metavar="NAME=VALUE", help="a conf of both sides")
    parser.add_argument("--out", type=Path, default=RESULTS / "others.csv")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(first_seconds(**json.loads(given.one))))
        return
    for data in given.data:
        for suite in given.suites:
            measure(suite, data, given)


def measure(suite: str, data: str, given: argparse.Namespace) -> None:
    folders = tables(suite, data, given.scale)
    with_conf = f" {given.conf}" if given.conf else ""
    named = {
        f"{suite} {data} {variant} {name}{with_conf}": query
        for variant in given.variants
        for name, query in queries(suite, variant).items()
    }
    chosen = {name: query for name, query in named.items() if given.only in name}
    if given.cold:
        for name, query in chosen.items():
            seconds: dict[str, list[float]] = {side: [] for side in SIDES}
            for i in range(given.rounds):
                for side in list(SIDES)[:: 1 if i % 2 else -1]:
                    seconds[side].append(in_a_new_jvm(folders, query, side))
            write(given.out, pair := cold_pair(name, seconds))
            console.print(pair)
        return
    spark = session_over(folders)
    if given.conf:
        spark.conf.set(*given.conf.split("=", 1))
    accepted = {name: query for name, query in chosen.items() if is_accepted(spark, name, query)}
    run(spark, [(name, lambda query=query: query) for name, query in accepted.items()], given.rounds, given.out)  # type: ignore[misc]
    spark.stop()


def session_over(folders: dict[str, str], **conf: str) -> SparkSession:
    """Start a session with a view of each folder of Parquet files."""
    spark = session(spark__sql__adaptive__enabled="true", spark__sql__shuffle__partitions="16", **conf)
    for name, folder in folders.items():
        spark.read.parquet(folder).createOrReplaceTempView(name)
    return spark


def is_accepted(spark: SparkSession, name: str, query: str) -> bool:
    try:
        spark.sql(f"EXPLAIN {query}").collect()
    except PySparkException as error:
        console.print(f"{name}: left out, since Spark refuses it: {str(error).splitlines()[0]}", soft_wrap=True)
        return False
    return True


def in_a_new_jvm(folders: dict[str, str], query: str, side: str) -> float:
    given = json.dumps({"folders": folders, "query": query, "side": side})
    done = subprocess.run([sys.executable, __file__, "--one", given], stdout=subprocess.PIPE, text=True, check=True)
    return float(json.loads(done.stdout.splitlines()[-1]))


def first_seconds(folders: dict[str, str], query: str, side: str) -> float:
    spark = session_over(folders)
    choose(spark, SIDES[side])
    return seconds_of(spark, query)


def seconds_of(spark: SparkSession, query: str) -> float:
    begun = time.perf_counter()
    spark.sql(query).write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begun


def seconds_by_turns(round_: int, texts: list[str], sides: dict[str, Callable[[str], float]]) -> dict[str, float]:
    """Run each query on all sides, first on one and then on the other by turns; return the seconds of each side."""
    taken = dict.fromkeys(sides, 0.0)
    for number, text in enumerate(texts):
        for side in list(sides)[:: 1 if (number + round_) % 2 else -1]:
            taken[side] += sides[side](text)
    console.print(round_, {side: round(value, 2) for side, value in taken.items()})
    return taken


def queries(suite: str, variant: str) -> dict[str, str]:
    """Return the queries of a suite in Spark's dialect, by name."""
    import sqlglot

    if suite == "h2o":
        texts = {
            f"{keys} {name}": query.format(f"h2o_{keys}") for keys in (100, 100_000) for name, query in H2O.items()
        }
        dialect = "spark"
    else:
        rows = generator(suite).execute(f"SELECT query_nr, query FROM {suite}_queries()").fetchall()
        texts, dialect = {f"q{number}": text for number, text in rows}, "duckdb"
    found = {}
    for name, text in texts.items():
        tree = sqlglot.parse_one(text.strip().rstrip(";"), read=dialect)
        if variant == "objects":
            changed = tree.transform(as_object)
            if changed == tree:
                continue
            tree = changed
        found[name] = tree.sql(dialect="spark")
    return found


def as_object(node):  # type: ignore[no-untyped-def]
    """Return percentile_approx in place of a sum or an average, outside of a window."""
    from sqlglot import exp

    if isinstance(node, exp.Sum | exp.Avg) and not isinstance(node.parent, exp.Window):
        return exp.Anonymous(this="percentile_approx", expressions=[node.this, exp.Literal.number("0.5")])
    return node


def generator(suite: str):  # type: ignore[no-untyped-def]
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"LOAD {suite}")
    return connection


def tables(suite: str, data: str, scale: float) -> dict[str, str]:
    """Make the tables of a suite the first time; return their folders by name."""
    if suite == "h2o":
        return {f"h2o_{keys}": h2o(keys, data) for keys in (100, 100_000)}
    folder = CACHE / f"{suite}-{scale:g}-{data}"
    if not folder.exists():
        part = folder.with_name(folder.name + ".part")
        part.mkdir(parents=True, exist_ok=True)
        connection = generator(suite)
        connection.execute(f"CALL {'dbgen' if suite == 'tpch' else 'dsdgen'}(sf={scale})")
        connection.execute("SELECT setseed(0.5)")
        for (name,) in connection.execute("SHOW TABLES").fetchall():
            redrawn = FOREIGN_KEYS.get(name, {}) if data == "zipf" else {}
            columns = ", ".join(zipf_column(connection, column, to) for column, to in redrawn.items())
            replaced = f" REPLACE ({columns})" if columns else ""
            (part / name).mkdir(exist_ok=True)
            connection.execute(f"COPY (SELECT *{replaced} FROM {name}) TO '{part / name}/0.parquet' (FORMAT PARQUET)")
        part.rename(folder)
    return {path.name: str(path) for path in folder.iterdir()}


def zipf_column(connection, column: str, to: str) -> str:  # type: ignore[no-untyped-def]
    """Return SQL that draws a key with a probability proportional to 1 / key. NULL stays."""
    (rows,) = connection.execute(f"SELECT count(*) FROM {to}").fetchone()
    drawn = f"CAST(floor(exp(random() * ln({rows} + 1))) AS BIGINT)"
    return f"CASE WHEN {column} IS NULL THEN NULL ELSE {drawn} END AS {column}"


def h2o(keys: int, data: str) -> str:
    """Return the folder of H2O's table with so many groups."""

    def ids(number: int, seed: int) -> np.ndarray:
        if data == "zipf":
            return zipf_keys(H2O_ROWS, number, 1.0, seed) + 1
        return np.random.default_rng(seed).integers(1, number + 1, H2O_ROWS)

    def parts() -> Iterator[pa.Table]:
        rng = np.random.default_rng(7)
        few, many = keys, H2O_ROWS // keys
        text = [np.char.add("id", ids(number, seed).astype(str)) for seed, number in enumerate((few, few, many))]
        number = [ids(number, seed) for seed, number in enumerate((few, few, many), 3)]
        table = pa.table(
            {
                **{f"id{i + 1}": column for i, column in enumerate(text + number)},
                "v1": rng.integers(1, 6, H2O_ROWS),
                "v2": rng.integers(1, 16, H2O_ROWS),
                "v3": rng.uniform(0, 100, H2O_ROWS),
            }
        )
        for i in range(8):
            yield table.slice(i * H2O_ROWS // 8, H2O_ROWS // 8)

    return parquet_folder(f"h2o-{H2O_ROWS}-{keys}-{data}", parts)


if __name__ == "__main__":
    main()
