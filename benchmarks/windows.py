"""Windows with PARTITION BY and without: `auto`, which runs slices of the order, against stock Spark.

    python benchmarks/windows.py [--only WORD,...] [--rounds 3] [--rows 3200000] [--out FILE]

A cell is a function and what it is over: no PARTITION BY, over rows of files or of a join, or keys of which one has 60
% or 30 % of the rows, or none has more than others. It runs by turns, with and without the toggle, on two cores and
four files. Then each side runs once more over 64 files: of the stage with the most work, the tasks, the longest by the
mean and the most rows by the mean, and the makespan of all tasks on 128 cores, stage by stage. Tasks on 128 cores are
short here, so rows tell more than their times do.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from cells import makespans
from common import RESULTS, console, parquet_folder, session, write_csv
from pairs import CLUSTER, SIDES, measured
from pyspark.sql import SparkSession

from saltwise.spark.reports.loads import measured_tasks
from saltwise.spark.session import confs as with_confs

KEYS = 5_000
FILES = 4
MANY_FILES = 64
SHARES = {"no PARTITION BY": 0.0, "a join": 0.0, "uniform": 0.0, "30 %": 0.3, "60 %": 0.6}
"""What a window is over, and the share of the rows that one key has."""
FUNCTIONS = {
    "share of the total": "v / sum(v) OVER ({keys})",
    "row_number": "row_number() OVER ({keys} ORDER BY x)",
    "rank": "rank() OVER ({keys} ORDER BY x)",
    "ntile": "ntile(100) OVER ({keys} ORDER BY x)",
    "cume_dist": "cume_dist() OVER ({keys} ORDER BY x)",
    "running sum": "sum(v) OVER ({keys} ORDER BY x)",
    "running max": "max(v) OVER ({keys} ORDER BY x)",
    "lag": "lag(v) OVER ({keys} ORDER BY x)",
    "moving average": "avg(d) OVER ({keys} ORDER BY x ROWS BETWEEN 3 PRECEDING AND 3 FOLLOWING)",
    "sessions": "sum(IF(x - before > 1, 1, 0)) OVER ({keys} ORDER BY x)",
}
BEFORE = "(SELECT *, lag(x) OVER ({keys} ORDER BY x) AS before FROM t)"
"""What sessions read: rows that have a window already."""
JOIN = "(SELECT t.* FROM t JOIN keys USING (k))"
OVER_JOIN = ("share of the total", "row_number", "running sum", "lag")
"""The functions over the rows of a join, without PARTITION BY."""


@dataclass(frozen=True)
class Found:
    """What was measured of a cell. Ratios are those of `auto` to stock Spark."""

    cell: str
    stock_seconds: float
    ratio: float
    error: float
    stock_tasks: int
    """The tasks of the stage with the most work."""
    stock_longest: float
    """The longest task of that stage, by the mean."""
    stock_most_rows: float
    """The rows of the task that reads the most of the shuffle in that stage, by the mean."""
    auto_tasks: int
    auto_longest: float
    auto_most_rows: float
    stock_makespan_128_ms: int
    makespan_128: float
    spark: str
    plugin: str


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--only", type=lambda text: text.split(","), default=[], help="cells that have all of these words"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=3_200_000)
    parser.add_argument("--out", type=Path, default=RESULTS / "windows.csv")
    given = parser.parse_args()
    spark = session(spark__sql__adaptive__enabled="true", spark__sql__shuffle__partitions="16")
    spark.range(KEYS).toDF("k").createOrReplaceTempView("keys")
    found = []
    for over, share in SHARES.items():
        for name, function in FUNCTIONS.items():
            if set(given.only) <= {over, name} and (over != "a join" or name in OVER_JOIN):
                keys = "" if over in ("no PARTITION BY", "a join") else "PARTITION BY k"
                rows = BEFORE if name == "sessions" else JOIN if over == "a join" else "t"
                query = f"SELECT id, {function} FROM {rows}".format(keys=keys)
                found.append(cell(spark, f"{over}, {name}", query, share, given))
                console.print(line(found[-1]), soft_wrap=True)
                write_csv(given.out, [asdict(each) for each in found])


def cell(spark: SparkSession, name: str, query: str, share: float, given: argparse.Namespace) -> Found:
    rows_of(spark, share, given.rows, FILES)
    pair = measured(spark, name, query, given.rounds, memory=False, sides=SIDES)
    rows_of(spark, share, given.rows, MANY_FILES)
    stages = {side: tasks_of(spark, query, confs) for side, confs in SIDES.items()}
    longest = {side: max(of_side, key=lambda tasks: sum(of_tasks(tasks))) for side, of_side in stages.items()}
    spans = {
        side: makespans([of_tasks(tasks) for tasks in of_side])["makespan_128_ms"] for side, of_side in stages.items()
    }
    return Found(
        name,
        pair.stock_seconds,
        pair.ratio,
        pair.error,
        len(longest["stock"]),
        by_mean(of_tasks(longest["stock"])),
        by_mean(of_tasks(longest["stock"], "records_read")),
        len(longest["auto"]),
        by_mean(of_tasks(longest["auto"])),
        by_mean(of_tasks(longest["auto"], "records_read")),
        spans["stock"],
        round(spans["auto"] / max(1, spans["stock"]), 3),
        pair.spark,
        pair.plugin,
    )


def line(found: Found) -> str:
    return (
        f"{found.cell:40} {found.stock_seconds:6.2f} s  x {found.ratio:.3f} ± {found.error:.3f}  longest by mean "
        f"{found.stock_longest:.2f} of {found.stock_tasks} -> {found.auto_longest:.2f} of {found.auto_tasks}, "
        f"most rows {found.stock_most_rows:.2f} -> {found.auto_most_rows:.2f}  on 128 cores x {found.makespan_128:.2f}"
    )


def of_tasks(tasks: list[dict[str, int]], figure: str = "milliseconds") -> list[int]:
    return [task[figure] for task in tasks]


def by_mean(figures: list[int]) -> float:
    """Return the largest of them by their mean."""
    return round(max(figures) * len(figures) / max(1, sum(figures)), 2)


def tasks_of(spark: SparkSession, query: str, confs: dict[str, str]) -> list[list[dict[str, int]]]:
    """Return the metrics of the tasks of each stage, of the second of two runs."""
    with with_confs(spark, {**confs, **CLUSTER}):
        for _ in range(2):
            tasks = measured_tasks(spark, lambda: spark.sql(query).write.format("noop").mode("overwrite").save())
    return tasks


def rows_of(spark: SparkSession, share: float, rows: int, files: int) -> None:
    """Make the view of the rows, from a file for each map task."""

    def parts() -> Iterator[pa.Table]:
        rng = np.random.default_rng(1)
        for ids in np.array_split(np.arange(rows), files):
            n = len(ids)
            k = np.where(rng.random(n) < share, 7, rng.integers(0, KEYS, n))
            columns = {"id": ids, "k": k, "x": rng.integers(0, rows, n), "v": rng.integers(0, 1000, n)}
            yield pa.table({**columns, "d": rng.random(n)})

    spark.read.parquet(parquet_folder(f"windows-{share}-{rows}-{files}", parts)).createOrReplaceTempView("t")


if __name__ == "__main__":
    main()
