"""What Combine costs where it cannot win: rows that leave raw against a bypass, states against Spark's own Partial.

    python benchmarks/combine.py [--only wide] [--rounds 7] [--out benchmarks/results/combine.csv]

* raw: eight million rows, each with a key of its own. The other side is spark.sql.execution.bypassPartialAggregation,
  which sends all rows as they are.
  Partitions are not coalesced: map tasks report sizes in steps of a tenth, so it is chance whether AQE makes two tasks
  of sixteen equal partitions, or three.
* all: four million rows of a thousand keys, with aggregates whose state is an object. The other side is stock Spark.
* wide: rows of 1, 4 and 10 KB of five hundred keys, 400 MB each time. `max_by` keeps one row of each key. A row that
  waits is copied, and stock Spark copies only what it keeps. The other side is stock Spark.
* late: the same, but the aggregate itself makes its wide values, from rows that are narrow.

Two cores, adaptive execution, both sides by turns in one process, after two runs of each that are not measured.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from common import RESULTS, parquet_folder, session
from pairs import BYPASS, SIDES, run
from pyspark.sql import SparkSession

AGGREGATES = {
    "collect_list": "collect_list(v)",
    "collect_set": "collect_set(v)",
    "median": "median(x)",
    "percentile_approx": "percentile_approx(x, 0.5)",
    "several": "collect_set(v), percentile_approx(x, 0.5)",
}
KINDS = {"raw": BYPASS, "all": SIDES, "wide": SIDES, "late": SIDES}
FILES = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=RESULTS / "combine.csv")
    given = parser.parse_args()
    spark = session(
        spark__sql__adaptive__enabled="true",
        spark__sql__shuffle__partitions="16",
        spark__saltwise__auto__smallInput="0",
    )
    for kind in [given.only] if given.only else KINDS:
        spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", kind != "raw")
        prepared = [(f"{kind} {name}", partial(query, spark, *case)) for name, *case in cases(kind)]
        run(spark, prepared, given.rounds, given.out, sides=KINDS[kind])
    spark.stop()


def cases(kind: str) -> Iterator[tuple[str, int, int, str]]:
    """Yield what each query of this kind is called, the rows and keys of its table t, and its SQL."""
    if kind in ("raw", "all"):
        rows, keys = (8_000_000, 8_000_000) if kind == "raw" else (4_000_000, 1_000)
        for name, call in AGGREGATES.items():
            yield name, rows, keys, f"SELECT k, {call} FROM t GROUP BY k"
    else:
        for kb in 1, 4, 10:
            wide = f"repeat(string(v + 1000), {256 * kb})"
            sql = {
                "wide": f"SELECT k, max_by(w, x) FROM (SELECT k, {wide} AS w, x FROM t) GROUP BY k",
                "late": f"SELECT k, max_by({wide}, x) FROM t GROUP BY k",
            }
            yield f"{kb} KB", 400_000 // kb, 500, sql[kind]


def query(spark: SparkSession, rows: int, keys: int, sql: str) -> str:
    """Make the table t, and return the query."""
    spark.read.parquet(table(rows, keys)).createOrReplaceTempView("t")
    return sql


def table(rows: int, keys: int) -> str:
    """Return a folder of rows whose keys come in random order, about equally often."""

    def parts() -> Iterator[pa.Table]:
        rng = np.random.default_rng(11)
        for part in np.array_split(rng.permutation(rows) % keys, FILES):
            yield pa.table({"k": part, "v": rng.integers(0, 1000, len(part)), "x": rng.random(len(part))})

    return parquet_folder(f"combine-{rows}-{keys}", parts)


if __name__ == "__main__":
    main()
