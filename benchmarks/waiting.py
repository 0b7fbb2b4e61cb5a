"""The papers' experiment on a real engine: a worker waits a fixed time for each row, and waiting needs no core.

    python benchmarks/waiting.py [--slow-rows 20000] [--rows 300000] [--rounds 2] [--out benchmarks/results/waiting.csv]

Nasir et al., "When Two Choices Are not Enough", section V: 10^4 Zipf keys, n = 80 workers, a wait of 1 ms a row. Here a
query groups by key with an aggregate that waits (WaitingCount in UserAggregates.scala). Five map tasks are the sources;
80 task slots of one Spark are the workers, which all wait at the same time. The strategies run in turn, after warm-up.

Throughput is the number of rows, divided by the seconds that the slowest worker waited from its first row to its last.
The time before and after that, and the time until all tasks have started, do not count; they do not depend on the size
of the input. So throughput does not depend on the number of rows. The strategies that leave a hot key on one or two
workers get fewer rows, so that the benchmark takes only minutes. `wall_seconds` is the time of the query.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import time
from pathlib import Path

from common import RESULTS, console, register_users_aggregates, session, users_jar, zipf_parquet
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.progress import track
from tables import waiting_table

from saltwise import skew_groupby

N, SOURCES, KEYS = 80, 5, 10_000
SKEWS = (1.4, 1.7, 2.0)
STRATEGIES = ("shuffle", "hash", "pkg", "dchoices", "wchoices")
SLOW = ("hash", "pkg")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--slow-rows", type=int, default=20_000, help=f"rows for {' and '.join(SLOW)}")
    parser.add_argument("--rows", type=int, default=300_000, help="rows for the other strategies")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULTS / "waiting.csv")
    given = parser.parse_args()
    rows = {strategy: given.slow_rows if strategy in SLOW else given.rows for strategy in STRATEGIES}
    spark = session(N, spark__jars=users_jar(), spark__sql__shuffle__partitions="8")
    register_users_aggregates(spark)
    for strategy in STRATEGIES:
        waited(spark, 2_000, SKEWS[0], strategy)
    taken: dict[tuple[float, str], list[tuple[float, float]]] = {}
    runs = [(z, strategy) for _ in range(given.rounds) for z in SKEWS for strategy in STRATEGIES]
    for z, strategy in track(runs, "waiting", console=console, transient=True):
        slowest, wall = waited(spark, rows[strategy], z, strategy)
        taken.setdefault((z, strategy), []).append((slowest, wall))
        console.print(
            f"z = {z}, {strategy}: {rows[strategy]:,} rows, slowest worker {slowest:.2f} s, query {wall:.2f} s"
        )
    spark.stop()
    found = []
    for (z, strategy), times in taken.items():
        slowest, wall = (statistics.median(column) for column in zip(*times, strict=True))
        found.append(
            {
                "z": z,
                "strategy": strategy,
                "rows": rows[strategy],
                "rounds": given.rounds,
                "slowest_worker_seconds": round(slowest, 3),
                "rows_a_second": round(rows[strategy] / slowest),
                "wall_seconds": round(wall, 3),
            }
        )
    given.out.parent.mkdir(parents=True, exist_ok=True)
    with given.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(found[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)
    console.print("\n".join(waiting_table(given.out)), soft_wrap=True)


def waited(spark: SparkSession, rows: int, z: float, strategy: str) -> tuple[float, float]:
    """Run the query; return the seconds that the slowest worker waited, and the seconds of the query."""
    df = spark.read.parquet(zipf_parquet(rows, KEYS, z, SOURCES))
    query = skew_groupby(df, "k", strategy=strategy, partitions=N).agg(F.call_function("waiting_count", "v").alias("n"))
    started = time.perf_counter()
    counted = sum(row.n for row in query.collect())
    wall = time.perf_counter() - started
    if counted != rows:
        raise AssertionError(f"{counted} of {rows} rows were counted.")
    return spark._jvm.saltwise.benchmarks.Wait.slowest(), wall


if __name__ == "__main__":
    main()
