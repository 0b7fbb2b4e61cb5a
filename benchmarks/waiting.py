"""The papers' experiment on a real engine: each row costs a worker a fixed wait, and waiting needs no core.

    python benchmarks/waiting.py [rows]

Nasir et al., "When Two Choices Are not Enough", section V: 10^4 Zipf keys, n = 80 workers, a wait of 1 ms a row.
Here 80 task slots of one Spark are the workers and five map tasks the sources; `skew_worker` names the worker of each
row, and each worker waits for its rows, one after another. Throughput is rows by seconds of the stage of the workers.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

from common import console, zipf_keys
from pyspark.sql import SparkSession
from rich.progress import track
from rich.table import Table

import saltwise

N, SOURCES, KEYS, WAIT = 80, 5, 10_000, 0.001
STRATEGIES = ("shuffle", "hash", "pkg", "dchoices", "wchoices")


def main(rows: int) -> None:
    builder = SparkSession.builder.master(f"local[{N}]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.driver.memory", "4g")
    spark = saltwise.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    throughput(spark, rows // 20, 1.4, "shuffle")  # the workers' processes start
    table = Table("z", *STRATEGIES, title=f"rows a second, {rows:,} rows, {N} workers, {WAIT * 1000:.0f} ms a row")
    ratios = Table("z", "dchoices / shuffle", "wchoices / shuffle", "dchoices / pkg", "dchoices / hash")
    for z in (1.4, 1.7, 2.0):
        of = {name: throughput(spark, rows, z, name) for name in track(STRATEGIES, f"z = {z}", transient=True)}
        table.add_row(str(z), *(f"{of[name]:,.0f}" for name in STRATEGIES))
        pairs = (("dchoices", "shuffle"), ("wchoices", "shuffle"), ("dchoices", "pkg"), ("dchoices", "hash"))
        ratios.add_row(str(z), *(f"{of[ours] / of[other]:.2f}" for ours, other in pairs))
    console.print(table, ratios)


def throughput(spark: SparkSession, rows: int, z: float, strategy: str) -> float:
    keys = spark.sparkContext.parallelize(zipf_keys(rows, KEYS, z).tolist(), SOURCES).map(lambda k: (k,)).toDF(["k"])
    workers = keys.selectExpr(f"skew_worker({N}, '{strategy}', k) AS worker").rdd.map(lambda row: (row.worker, None))
    placed = workers.partitionBy(N, int)
    placed.count()  # the shuffle is written; what is timed below reads it
    started = time.perf_counter()
    waited = sum(placed.mapPartitions(wait).collect())
    seconds = time.perf_counter() - started
    if waited != rows:
        raise AssertionError(f"{waited} of {rows} rows arrived")
    return rows / seconds


def wait(rows: Iterator[Any]) -> Iterator[int]:
    count = 0
    for _ in rows:
        time.sleep(WAIT)
        count += 1
    yield count


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
