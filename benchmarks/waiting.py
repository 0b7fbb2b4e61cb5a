"""The papers' experiment on a real engine: a worker waits a fixed time for each row, and waiting needs no core.

    python benchmarks/waiting.py [--slow-rows 133000] [--rows 2000000] [--rounds 1]
                                 [--out benchmarks/results/waiting.csv]

Nasir et al., "When Two Choices Are not Enough", section V, figures 13 and 14: 10^4 Zipf keys, 2 million rows, 48
sources, n = 80 workers, a wait of 1 ms a row. Here a query groups by key with an aggregate that waits (WaitingCount in
UserAggregates.scala). 48 map tasks are the sources; 80 task slots of one Spark are the workers, which all wait at the
same time. The strategies run in turn, after warm-up.

Throughput is the number of rows, divided by the seconds that the slowest worker waited from its first row to its last.
The time before and after that, and the time until all tasks have started, do not count; they do not depend on the size
of the input. So throughput does not depend on the number of rows. The strategies that leave a hot key on one or two
workers get fewer rows, so that the benchmark takes only minutes. `wall_seconds` is the time of the query.

A batch has no latency. So the latency of a row is computed for a stream of all 2 million rows that is as fast as 95 %
of the 80 workers, from the worker that Spark gave each row: a worker takes its rows in the order of their arrival, 1 ms
each (Lindley's recursion). As in figure 14, `worst_worker_ms` is the highest mean of a worker; the percentiles are of
all rows. `papers_worst_worker_ms` and so on are those of a stream of `papers_rate` rows a second: 2.3 times what KG
takes, as the paper's shuffle grouping had at best.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, console, register_users_aggregates, session, users_jar, write_csv, zipf_parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.progress import track
from tables import waiting_table

from saltwise import skew_groupby

N, SOURCES, KEYS = 80, 48, 10_000
SKEWS = (1.4, 1.7, 2.0)
STRATEGIES = ("shuffle", "hash", "pkg", "dchoices", "wchoices")
SLOW = ("hash", "pkg")
LOAD = 0.95
"""Of what 80 workers can take, in the stream whose latency is computed."""
PAPERS_RATIO = 2.3
"""The highest throughput in figure 13 by KG's."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--slow-rows", type=int, default=133_000, help=f"rows for {' and '.join(SLOW)}")
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows for the other strategies")
    parser.add_argument("--rounds", type=int, default=1)
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
    found: list[dict[str, Any]] = []
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
    rate = PAPERS_RATIO * min(row["rows_a_second"] for row in found if row["strategy"] == "hash")
    for row in track(found, "latencies", console=console, transient=True):
        worker = workers_of_rows(words(spark, given.rows, row["z"]), N, row["strategy"])
        row |= latencies(worker, LOAD * N) | {"papers_rate": round(rate)}
        row |= {f"papers_{name}": value for name, value in latencies(worker, rate / 1000).items()}
    spark.stop()
    write_csv(given.out, found)
    console.print("\n".join(waiting_table(given.out)), soft_wrap=True)


def waited(spark: SparkSession, rows: int, z: float, strategy: str) -> tuple[float, float]:
    """Run the query; return the seconds that the slowest worker waited, and the seconds of the query."""
    query = skew_groupby(words(spark, rows, z), "k", strategy=strategy, partitions=N).agg(
        F.call_function("waiting_count", "v").alias("n")
    )
    started = time.perf_counter()
    counted = sum(row.n for row in query.collect())
    wall = time.perf_counter() - started
    if counted != rows:
        raise AssertionError(f"{counted} of {rows} rows were counted.")
    return spark._jvm.saltwise.benchmarks.Wait.slowest(), wall


def words(spark: SparkSession, rows: int, z: float) -> DataFrame:
    return spark.read.parquet(zipf_parquet(rows, KEYS, z, SOURCES))


def workers_of_rows(df: DataFrame, n: int, strategy: str) -> np.ndarray:
    """Return the worker of each row, in the order in which the sources send: by turns, one row each."""
    routed = df.select(F.call_function("skew_worker", F.lit(n), F.lit(strategy), "k").alias("worker"))
    numbered = routed.select(F.monotonically_increasing_id().alias("i"), "worker").toPandas()
    number = numbered["i"].to_numpy()
    source, place = number >> 33, number & ((1 << 33) - 1)
    return numbered["worker"].to_numpy()[np.lexsort((source, place))]


def latencies(worker: np.ndarray, rate: float) -> dict[str, float]:
    """Return figure 14, in milliseconds, of a stream in which `rate` rows arrive in a millisecond."""
    late = queued(worker, N, rate)
    means = np.bincount(worker, late, N) / np.maximum(1, np.bincount(worker, minlength=N))
    percentiles = {f"p{p}_ms": round(float(np.percentile(late, p)), 1) for p in (50, 95, 99)}
    return {"worst_worker_ms": round(float(means.max()), 1)} | percentiles


def queued(worker: np.ndarray, n: int, rate: float) -> np.ndarray:
    """Return the milliseconds from the arrival of each row until its worker, one of n, is done with it.

    Args:
        worker: of each row, in the order of arrival.
        n: the number of workers, each of which takes a row in 1 ms.
        rate: rows that arrive in a millisecond.
    """
    arrival = np.arange(len(worker)) / rate
    late = np.empty(len(worker))
    for each in range(n):
        mine = np.flatnonzero(worker == each)
        turn = np.arange(len(mine))
        late[mine] = turn + 1 + np.maximum.accumulate(arrival[mine] - turn) - arrival[mine]
    return late


if __name__ == "__main__":
    main()
