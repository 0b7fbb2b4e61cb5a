"""An aggregate over a join on a skewed key: `auto`, which combines rows below the join, against stock Spark.

    python benchmarks/joins.py [--only WORD,...] [--rounds 3] [--rows 3200000] [--out FILE]

A cell is a distribution of keys, a function, a kind of join, and whether rows share keys. All pairs of two of these
occur in some cell. Each cell joins the rows of four files with 50,000 rows, and groups by a column of the smaller side
or, where rows hardly share keys, by one of the larger side that nearly tells its rows apart. Of "four a key", the join
drops most rows. It runs by turns, with and without the toggle, on two cores. Then each side runs once more over 64
files, and the makespan of the tasks that were measured is computed for 128 cores, stage by stage. Joins are sort-merge
joins, and adaptive execution may split them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import geometric_mean

import numpy as np
import pyarrow as pa
from common import RESULTS, console, parquet_folder, session, write_csv, zipf_keys
from orders import covering
from pairs import CLUSTER, SIDES, Pair, measured, run_on
from pyspark.sql import SparkSession

KEYS = 5_000
OTHER_ROWS = 50_000
FILES = 4
MANY_FILES = 64


def with_hot(share: float) -> Callable[[int, np.random.Generator], np.ndarray]:
    def keys(rows: int, rng: np.random.Generator) -> np.ndarray:
        return np.where(rng.random(rows) < share, 7, rng.integers(0, KEYS, rows))

    return keys


SKEWS: dict[str, Callable[[int, np.random.Generator], np.ndarray]] = {
    "uniform": with_hot(0),
    "30 %": with_hot(0.3),
    "60 %": with_hot(0.6),
    "Zipf 1.2": lambda rows, _: zipf_keys(rows, KEYS, 1.2),
    "four a key": lambda rows, rng: rng.integers(0, rows // 4, rows),
}
FUNCTIONS = {
    "sum": "sum(l.v), count(*)",
    "avg": "avg(l.v)",
    "max": "max(l.v)",
    "set": "collect_set(l.v % 20)",
    "percentile": "percentile_approx(l.x, 0.5)",
}
JOINS = {"inner": "JOIN", "left": "LEFT JOIN", "semi": "LEFT SEMI JOIN"}
SHARED = ("shared", "hardly shared")


@dataclass(frozen=True)
class Cell:
    skew: str
    function: str
    join: str
    shared: str

    @property
    def name(self) -> str:
        return ", ".join(asdict(self).values())

    @property
    def query(self) -> str:
        key = "l.u" if self.shared != "shared" else "l.g" if self.join == "semi" else "r.c"
        return f"SELECT {key}, {FUNCTIONS[self.function]} FROM l {JOINS[self.join]} r ON l.k = r.k GROUP BY {key}"


@dataclass(frozen=True)
class Found:
    """What was measured of a cell. Ratios are those of `auto` to stock Spark."""

    cell: str
    did: str
    stock_seconds: float
    ratio: float
    error: float
    stock_makespan_128_ms: int
    makespan_128: float
    spark: str
    plugin: str


def cells() -> list[Cell]:
    values = covering([list(column) for column in (SKEWS, FUNCTIONS, JOINS, SHARED)])
    return sorted({Cell(*cell) for cell in values}, key=lambda cell: cell.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", type=lambda text: text.split(","), help="cells that have all of these words")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=3_200_000)
    parser.add_argument("--out", type=Path, default=RESULTS / "joins.csv")
    given = parser.parse_args()
    spark = session(
        spark__sql__adaptive__enabled="true",
        spark__sql__shuffle__partitions="16",
        spark__sql__autoBroadcastJoinThreshold="-1",
    )
    other = parquet_folder(f"joins-other-{OTHER_ROWS}", other_rows)
    spark.read.parquet(other).createOrReplaceTempView("r")
    found = []
    for cell in cells():
        if set(given.only or []) <= set(asdict(cell).values()):
            rows_of(spark, cell.skew, given.rows, FILES)
            pair = measured(spark, cell.name, cell.query, given.rounds, memory=False, sides=SIDES)
            rows_of(spark, cell.skew, given.rows, MANY_FILES)
            spans = {side: makespan(spark, cell.query, confs) for side, confs in SIDES.items()}
            found.append(found_of(cell, pair, spans))
            console.print(line(found[-1]), soft_wrap=True)
            write_csv(given.out, [asdict(each) for each in found])
    for shared in SHARED:
        ratios = [each.ratio for each in found if each.cell.endswith(f", {shared}")]
        if ratios:
            console.print(f"{shared}: geometric mean {geometric_mean(ratios):.3f} of {len(ratios)} cells")
    slower = [each.cell for each in found if each.ratio - 2 * each.error > 1.05]
    console.print(f"above 1.05 by two standard errors: {'; '.join(slower) or 'none'}")


def found_of(cell: Cell, pair: Pair, spans: dict[str, int]) -> Found:
    return Found(
        cell.name,
        pair.did,
        pair.stock_seconds,
        pair.ratio,
        pair.error,
        spans["stock"],
        round(spans["auto"] / spans["stock"], 3),
        pair.spark,
        pair.plugin,
    )


def line(found: Found) -> str:
    return (
        f"{found.cell:40} {found.stock_seconds:6.2f} s  x {found.ratio:.3f} ± {found.error:.3f}  "
        f"on 128 cores x {found.makespan_128:.2f} of {found.stock_makespan_128_ms} ms"
    )


def makespan(spark: SparkSession, query: str, confs: dict[str, str]) -> int:
    """Return the milliseconds on 128 cores, from the tasks of the second of two runs."""
    for _ in range(2):
        ran = run_on(spark, {**confs, **CLUSTER}, query)
    return ran.figures["makespan_128_ms"]


def rows_of(spark: SparkSession, skew: str, rows: int, files: int) -> None:
    """Make the view of the larger side, from a file for each map task."""

    def parts() -> Iterator[pa.Table]:
        rng = np.random.default_rng(1)
        for k in np.array_split(SKEWS[skew](rows, rng), files):
            n = len(k)
            yield pa.table(
                {
                    "k": k,
                    "g": rng.integers(0, 20, n),
                    "u": rng.integers(0, rows, n),
                    "v": rng.integers(0, 1000, n),
                    "x": rng.random(n),
                }
            )

    folder = parquet_folder(f"joins-{skew}-{rows}-{files}", parts)
    spark.read.parquet(folder).createOrReplaceTempView("l")


def other_rows() -> Iterator[pa.Table]:
    k = np.arange(OTHER_ROWS)
    yield pa.table({"k": k, "c": k % 20, "name": pa.array([f"name {i % 100}" for i in k])})


if __name__ == "__main__":
    main()
