"""Aggregates in Python that merge, against applyInPandas, which gets whole groups.

    python benchmarks/python_aggregates.py [rounds]

Mean and quartiles of 5 million rows in 40 map tasks, n = 32: one key has 60 %, a thousand keys share the rest. It
prints the largest task's share of updated rows, the wall-clock time of both sides, and the memory of Python workers
while the hot key grows from 10^6 to 10^7 rows: the highest resident set of any worker, with a session for each side.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from common import console, interleaved, parquet_folder, print_ratios, session
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from rich.table import Table

from saltwise import Aggregator
from saltwise.aggregates import KllQuantiles, Moments

ROWS, TASKS, N, SHARE, OTHERS = 5_000_000, 40, 32, 0.6, 1000
SIZES = (1_000_000, 3_000_000, 10_000_000)


def rows_of(count: int, hot: int) -> str:
    """Return a folder of 40 Parquet files with the columns k and x, in which key 0 has `hot` of `count` rows."""

    def tables() -> Iterator[pa.Table]:
        rng = np.random.default_rng(1)
        keys = rng.permutation(np.concatenate([np.zeros(hot, np.int64), rng.integers(1, OTHERS + 1, count - hot)]))
        for k in np.array_split(keys, TASKS):
            yield pa.table({"k": k, "x": rng.normal(k % 7, 1.0)})

    return parquet_folder(f"hot-{count}-{hot}", tables)


class RowsOfTasks(Aggregator):
    """The rows that each task updated, by stage and number: the load of the task."""

    returns = "map<int, bigint>"

    def zero(self) -> dict[int, int]:
        return {}

    def update(self, state: dict[int, int], batch: pa.RecordBatch) -> dict[int, int]:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        number = task.stageId() * 1000 + task.partitionId()
        state[number] = state.get(number, 0) + batch.num_rows
        return state

    def merge(self, a: dict[int, int], b: dict[int, int]) -> dict[int, int]:
        return {task: a.get(task, 0) + b.get(task, 0) for task in a.keys() | b.keys()}

    def finish(self, state: dict[int, int]) -> list[tuple[int, int]]:
        return [*state.items()]


class MeanAndQuartiles(KllQuantiles):
    """The Aggregator that a user would write: one state for both."""

    returns = "struct<mean: double, quartiles: array<double>>"

    def zero(self) -> list[Any]:
        return [0, 0.0, super().zero()]

    def update(self, state: list[Any], batch: pa.RecordBatch) -> list[Any]:
        x = batch.column(0).to_numpy()
        return [state[0] + len(x), state[1] + float(x.sum()), super().update(state[2], batch)]

    def merge(self, a: list[Any], b: list[Any]) -> list[Any]:
        return [a[0] + b[0], a[1] + b[1], super().merge(a[2], b[2])]

    def finish(self, state: list[Any]) -> Any:
        return {"mean": state[1] / state[0], "quartiles": super().finish(state[2])}


def ours(df: DataFrame) -> DataFrame:
    return df.skew_groupby("k", partitions=N).agg(MeanAndQuartiles("x"))  # type: ignore[no-any-return, operator]


def two_ready_made(df: DataFrame) -> DataFrame:
    grouped = df.skew_groupby("k", partitions=N)  # type: ignore[operator]
    return grouped.agg(Moments("x").alias("m"), KllQuantiles("x").alias("q"))  # type: ignore[no-any-return]


def whole_groups(df: DataFrame) -> DataFrame:
    return df.groupBy("k").applyInPandas(of_group, "k bigint, mean double, quartiles array<double>")


def of_group(group: pd.DataFrame) -> pd.DataFrame:
    x = group["x"].to_numpy()
    quartiles = np.quantile(x, [0.25, 0.5, 0.75])
    return pd.DataFrame({"k": group["k"].iloc[:1], "mean": x.mean(), "quartiles": [quartiles]})


SIDES = {"Aggregator": ours, "two ready-made ones": two_ready_made, "applyInPandas": whole_groups}


def balance(df: DataFrame) -> None:
    for name, grouped in {
        "map tasks": df.skew_groupby("k", partitions=N),  # type: ignore[operator]
        "dchoices": df.skew_groupby("k", partitions=N, strategy="dchoices"),  # type: ignore[operator]
    }.items():
        tasks = grouped.agg(RowsOfTasks("x").alias("tasks")).select(F.explode("tasks").alias("task", "rows"))
        [[largest]] = tasks.groupBy("task").agg(F.sum("rows").alias("rows")).agg(F.max("rows")).collect()
        console.print(f"{name}: largest share of updated rows {largest / ROWS:.4f}, wanted <= {1.2 / N:.4f}")
    by_key = df.repartition(N, "k").groupBy(F.spark_partition_id()).count().agg(F.max("count")).first()
    assert by_key is not None
    console.print(f"applyInPandas: largest share {by_key[0] / ROWS:.4f}")


def compared(df: DataFrame, rounds: int, adaptive: bool) -> None:
    df.sparkSession.conf.set("spark.sql.adaptive.enabled", str(adaptive).lower())
    noop = {
        name: (lambda side=side: side(df).write.format("noop").mode("overwrite").save()) for name, side in SIDES.items()
    }
    print_ratios(
        f"{ROWS:,} rows, one key with {SHARE:.0%}, {OTHERS:,} others, {TASKS} map tasks, n = {N}, "
        f"{'with' if adaptive else 'without'} adaptive execution",
        interleaved(noop, rounds),
        "applyInPandas",
        {"Aggregator": 0.5},
    )


def memory() -> None:
    """Measure each side and size in its own process, so that no worker has been used before."""
    sides = ("Aggregator", "applyInPandas")
    table = Table("rows of the hot key", *sides, title="highest resident set of a Python worker, MB")
    for hot in SIZES:
        cells = [
            subprocess.run(
                [sys.executable, __file__, "peak", side, str(hot)], capture_output=True, text=True, check=True
            )
            for side in sides
        ]
        table.add_row(f"{hot:,}", *(cell.stdout.split()[-1] for cell in cells))
    console.print(table)


def peak(side: str, hot: int) -> None:
    """Print the highest resident set of all Python workers of this session, in MB."""
    spark = quiet()
    df = spark.read.parquet(rows_of(hot * 10 // 6, hot))
    SIDES[side](df).write.format("noop").mode("overwrite").save()
    print(max(map(resident, workers())))


def workers() -> Iterator[Path]:
    """Yield the Python workers of this process, which Spark keeps for the next task."""
    import os

    parents = {int(p.name): int((p / "stat").read_text().rsplit(")", 1)[1].split()[1]) for p in processes()}
    mine, last = {os.getpid()}, set[int]()
    while mine != last:
        last, mine = mine, mine | {pid for pid, parent in parents.items() if parent in mine}
    for pid in mine - {os.getpid()}:
        if b"pyspark" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0", 1)[-1][:200] and "python" in exe(pid):
            yield Path(f"/proc/{pid}")


def processes() -> list[Path]:
    return [path for path in Path("/proc").iterdir() if path.name.isdigit() and (path / "stat").exists()]


def exe(pid: int) -> str:
    return Path(f"/proc/{pid}/exe").resolve().name


def resident(process: Path) -> int:
    [line] = [line for line in (process / "status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) // 1024


def quiet() -> Any:
    return session(spark__sql__shuffle__partitions=str(N), spark__sql__files__openCostInBytes="1g")


def main(rounds: int) -> None:
    df = quiet().read.parquet(rows_of(ROWS, int(SHARE * ROWS)))
    if df.rdd.getNumPartitions() != TASKS:
        raise AssertionError(f"{df.rdd.getNumPartitions()} map tasks")
    for size in SIZES:
        rows_of(size * 10 // 6, size)
    balance(df)
    for adaptive in (False, True):
        compared(df, rounds, adaptive)
    df.sparkSession.stop()
    memory()


if __name__ == "__main__":
    if sys.argv[1:2] == ["peak"]:
        peak(sys.argv[2], int(sys.argv[3]))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
