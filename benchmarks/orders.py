"""Order of arrival: `auto` against stock Spark on keys that come at random, in turn, sorted, in runs, in bursts, ...

    python benchmarks/orders.py [--only WORD,...] [--rounds 3] [--rows 1600000] [--out FILE]

A cell is an order of arrival, a number of keys, a number of rows, a function and a type of key. All pairs of two of
these occur in some cell, but not their product. So there are 91 cells. Each cell runs as in adversaries.py,
on two cores and four files, with and without the toggle. Then each side runs once more, and the bypass too, to count
what is shuffled: bytes and records as a multiple of the lower of stock's and the bypass's. They are exact.

`--only table` measures nine million rows: keys in turn, as devices report one after the other, and at random.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from common import RESULTS, console, parquet_folder, register_users_aggregates, session, users_jar
from pairs import BYPASS, SIDES, measured, run_on
from pyspark.sql import SparkSession

FILES = 4

Order = Callable[[np.ndarray, int, np.random.Generator], np.ndarray]
"""Gets the numbers of rows, the number of keys, and chance; returns the key of each row."""


def runs_of(length: int) -> Order:
    return lambda row, keys, rng: rng.integers(0, keys, len(row) // length + 1)[row // length]


def in_files(row: np.ndarray, keys: int, rng: np.random.Generator) -> np.ndarray:
    """Each file has keys of its own."""
    return row * FILES // len(row) * (keys // FILES) + rng.integers(0, max(1, keys // FILES), len(row))


def in_bursts(row: np.ndarray, keys: int, rng: np.random.Generator) -> np.ndarray:
    """Each burst of 20,000 rows is of a hundred keys."""
    burst = row // 20_000
    some = rng.integers(0, keys, (burst[-1] + 1, 100))
    return some[burst, rng.integers(0, 100, len(row))]


def changing(row: np.ndarray, keys: int, rng: np.random.Generator) -> np.ndarray:
    """After every 100,000 rows come other keys."""
    ages = len(row) // 100_000 + 1
    return row // 100_000 + ages * rng.integers(0, max(1, keys // ages), len(row))


def one_task_differs(row: np.ndarray, keys: int, rng: np.random.Generator) -> np.ndarray:
    """The rows of one file are distinct, and those of the others are not."""
    return np.where(row < len(row) // FILES, keys + row, rng.integers(0, keys, len(row)))


ORDERS: dict[str, Order] = {
    "at random": lambda row, keys, rng: rng.integers(0, keys, len(row)),
    "in turn": lambda row, keys, rng: row % keys,
    "sorted": lambda row, keys, rng: np.sort(rng.integers(0, keys, len(row))),
    "runs of 3": runs_of(3),
    "runs of 30": runs_of(30),
    "runs of 3000": runs_of(3000),
    "files": in_files,
    "bursts": in_bursts,
    "changing": changing,
    "one task": one_task_differs,
}
KEYS = {"20": 20, "1000": 1_000, "30000": 30_000, "300000": 300_000, "distinct": 1 << 40}
ROWS = {"few": 0.25, "many": 1.0}
FUNCTIONS = {
    "list": "collect_list(v)",
    "set": "collect_set(v % 20)",
    "max_by": "max_by(s, x)",
    "percentile_approx": "percentile_approx(x, 0.5)",
    "median": "median(x)",
    "approx_count_distinct": "approx_count_distinct(v)",
    "count_min_sketch": "count_min_sketch(v, 0.01D, 0.9D, 7)",
    "aggregator": "root_mean_square(x)",
    "six": "collect_list(v), collect_set(v % 20), max_by(s, x), approx_count_distinct(v), percentile_approx(x, 0.5), "
    "sum(v)",
}
TYPES: dict[str, Callable[[pa.Array], pa.Array]] = {
    "bigint": lambda k: k,
    "string 8": lambda k: texts(k, 8),
    "string 60": lambda k: texts(k, 60),
    "struct": lambda k: pa.StructArray.from_arrays([k, texts(k, 8)], ["a", "b"]),
}
"""Each makes a column of keys of the numbers of keys."""


def texts(k: pa.Array, width: int) -> pa.Array:
    return pc.utf8_lpad(pc.cast(k, pa.string()), width, "k")


@dataclass(frozen=True)
class Cell:
    order: str
    keys: str
    rows: str
    function: str
    key: str

    @property
    def name(self) -> str:
        return ", ".join((self.order, self.keys, self.rows, self.function, self.key))


TABLE = [
    Cell(order, keys, rows, function, "bigint")
    for order, keys, rows, functions in (
        ("in turn", "9000", "9000000", ("list", "max_by", "percentile_approx", "set")),
        ("in turn", "90000", "9000000", ("list", "max_by", "percentile_approx", "set")),
        ("in turn", "9000", "900000", ("list", "max_by", "percentile_approx", "set")),
        ("at random", "60000", "9000000", ("list", "max_by", "percentile_approx")),
    )
    for function in functions
]


def cells() -> list[Cell]:
    values = covering([list(column) for column in (ORDERS, KEYS, ROWS, FUNCTIONS, TYPES)])
    return sorted({Cell(*cell) for cell in values}, key=lambda cell: cell.name)


def covering(values: list[list[str]]) -> list[list[str]]:
    """Cells in which all pairs of values occur. Each cell is the one of many with the most pairs that are new."""
    pairs = {
        (i, a, j, b) for i, j in itertools.combinations(range(len(values)), 2) for a in values[i] for b in values[j]
    }
    rng = np.random.default_rng(7)
    found: list[list[str]] = []
    while pairs:
        tried = [[str(rng.choice(column)) for column in values] for _ in range(300)]
        best = max(tried, key=lambda cell: len(pairs & pairs_of(cell)))
        pairs -= pairs_of(best)
        found.append(best)
    return found


def pairs_of(cell: list[str]) -> set[tuple[int, str, int, str]]:
    return {(i, cell[i], j, cell[j]) for i, j in itertools.combinations(range(len(cell)), 2)}


@dataclass(frozen=True)
class Found:
    """What was measured in a cell."""

    cell: str
    did: str
    stock_seconds: float
    ratio: float
    """Median of the time with the toggle on as a multiple of stock Spark's."""
    error: float
    """The standard error of `ratio`."""
    bytes_ratio: float
    """Shuffled bytes as a multiple of the lower of stock's and the bypass's."""
    records_ratio: float
    spark: str
    plugin: str


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", type=lambda text: text.split(","), help="cells that have all of these words")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1_600_000)
    parser.add_argument("--out", type=Path, default=RESULTS / "orders.csv")
    given = parser.parse_args()
    table = "table" in (given.only or [])
    words = {word for word in given.only or [] if word != "table"}
    spark = session(
        spark__sql__adaptive__enabled="true",
        spark__sql__shuffle__partitions="16",
        spark__saltwise__auto__smallInput="0",
        spark__jars=users_jar(),
    )
    register_users_aggregates(spark)
    found = []
    for cell in TABLE if table else cells():
        if words <= set(asdict(cell).values()):
            found.append(measured_cell(spark, cell, given.rows, given.rounds))
            write(given.out, found[-1])
            console.print(line(found[-1]), soft_wrap=True)
    mean = math.exp(sum(math.log(one.ratio) for one in found) / len(found))
    console.print(
        f"{len(found)} cells; times: geometric mean {mean:.3f}, "
        f"{sum(one.ratio - 2 * one.error > 1.05 for one in found)} above 1.05 by two standard errors; "
        f"bytes: largest {max(one.bytes_ratio for one in found):.2f}, "
        f"{sum(one.bytes_ratio > 1.15 for one in found)} above 1.15"
    )


def line(found: Found) -> str:
    return (
        f"{found.cell:60} {found.stock_seconds:6.2f} s  x {found.ratio:.3f} ± {found.error:.3f}  "
        f"bytes x {found.bytes_ratio:.2f}  records x {found.records_ratio:.2f}  {found.did}"
    )


def measured_cell(spark: SparkSession, cell: Cell, rows: int, rounds: int) -> Found:
    folder = make(cell, rows)
    spark.read.parquet(folder).createOrReplaceTempView("t")
    query = f"SELECT k, {FUNCTIONS[cell.function]} FROM t GROUP BY k"
    pair = measured(spark, cell.name, query, rounds, memory=False, sides=SIDES)
    sides = {**SIDES, "bypass": BYPASS["stock"]}
    shuffled = {side: run_on(spark, confs, query).figures for side, confs in sides.items()}
    shutil.rmtree(folder)

    def ratio(figure: str) -> float:
        return shuffled["auto"][figure] / min(shuffled["stock"][figure], shuffled["bypass"][figure])

    return Found(
        cell.name,
        pair.did,
        pair.stock_seconds,
        pair.ratio,
        pair.error,
        round(ratio("bytes_shuffled"), 3),
        round(ratio("records_shuffled"), 3),
        pair.spark,
        pair.plugin,
    )


def make(cell: Cell, rows: int) -> str:
    """Return a folder with a Parquet file of each map task."""
    count = int(ROWS[cell.rows] * rows) if cell.rows in ROWS else int(cell.rows)
    keys = KEYS[cell.keys] if cell.keys in KEYS else int(cell.keys)
    files = FILES if cell.rows in ROWS else 2

    def parts() -> Iterator[pa.Table]:
        rng = np.random.default_rng(1)
        row = np.arange(count)
        for k in np.array_split(ORDERS[cell.order](row, keys, rng), files):
            v = rng.integers(0, 1000, len(k))
            s = pa.array([f"value {i}" for i in range(1000)]).take(pa.array(v))
            yield pa.table({"k": TYPES[cell.key](pa.array(k)), "v": v, "x": rng.random(len(k)), "s": s})

    return parquet_folder(f"order-{cell.name}", parts)


def write(path: Path, found: Found) -> None:
    """Put a cell into a CSV file, in place of the same one. If that fails, the file stays as it was."""
    columns = [field.name for field in fields(Found)]
    rows: dict[str, dict[str, object]] = {}
    if path.exists():
        with path.open(newline="") as file:
            rows = {row["cell"]: dict(row) for row in csv.DictReader(file)}
    rows[found.cell] = asdict(found)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with part.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows.values())
    part.replace(path)


if __name__ == "__main__":
    main()
