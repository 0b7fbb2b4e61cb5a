"""What Combine costs where it cannot win: rows that leave raw against a bypass, states against Spark's own Partial.

    python benchmarks/combine.py [--rounds 7] [--out benchmarks/results/combine.csv]

* raw: eight million rows, each with a key of its own. The other side is spark.sql.execution.bypassPartialAggregation,
  which sends all rows as they are.
  Partitions are not coalesced: map tasks report sizes in steps of a tenth, so it is chance whether AQE makes two tasks
  of sixteen equal partitions, or three.
* all: four million rows of a thousand keys, with aggregates whose state is an object. The other side is stock Spark.

Two cores, adaptive execution, both sides by turns in one process, after two runs of each that are not measured.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from common import RESULTS, parquet_folder, session
from pairs import BYPASS, SIDES, run

AGGREGATES = {
    "collect_list": "collect_list(v)",
    "collect_set": "collect_set(v)",
    "median": "median(x)",
    "percentile_approx": "percentile_approx(x, 0.5)",
    "several": "collect_set(v), percentile_approx(x, 0.5)",
}
FILES = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=RESULTS / "combine.csv")
    given = parser.parse_args()
    spark = session(spark__sql__adaptive__enabled="true", spark__sql__shuffle__partitions="16")
    for name, rows, keys, sides in (("raw", 8_000_000, 8_000_000, BYPASS), ("all", 4_000_000, 1_000, SIDES)):
        spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", name != "raw")
        spark.read.parquet(table(rows, keys)).createOrReplaceTempView(name)
        queries = [
            (f"{name} {kind}", lambda name=name, call=call: f"SELECT k, {call} FROM {name} GROUP BY k")
            for kind, call in AGGREGATES.items()
        ]
        run(spark, queries, given.rounds, given.out, sides=sides)
    spark.stop()


def table(rows: int, keys: int) -> str:
    """Return a folder of rows whose keys come in random order, about equally often."""

    def parts() -> Iterator[pa.Table]:
        rng = np.random.default_rng(11)
        for part in np.array_split(rng.permutation(rows) % keys, FILES):
            yield pa.table({"k": part, "v": rng.integers(0, 1000, len(part)), "x": rng.random(len(part))})

    return parquet_folder(f"combine-{rows}-{keys}", parts)


if __name__ == "__main__":
    main()
