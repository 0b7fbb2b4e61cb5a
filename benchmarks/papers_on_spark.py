"""What the papers on moving state claim of a real Storm, on Spark's executors: each claim with its number.

    python benchmarks/papers_on_spark.py [--only elb,milp] [--out benchmarks/results/papers_on_spark.csv]

* elb: Guo and Zhou, table 2 and figures 5 and 6. A stream's rate grows with its executors, one to six. By scheme: the
  latency of a tuple, its ratio to that on one executor, and the speedup of the throughput.
* milp: Madsen, Zhou, Cao, figures 6 to 9, on a job like Real Job 1: a count by article with a hundred key groups, whose
  loads drift. The load distance after each round with as many moves for the MILP and for Flux, and what a limit of
  moves does to distance and latency.

Differences: the papers have up to 16 and 21 machines, Twitter's and Wikipedia's data. Here executors have one core each
(local-cluster), and a tuple waits a fixed time, as the papers fix the capacity of a machine. A tuple's latency is the
time from the begin of its batch until its executor has come to it, and the states that come have been loaded. The
papers' planners run in each round, so here they plan for even loads too, which a balancer leaves alone by default.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean, median

import numpy as np
from common import RESULTS, console, write_csv
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.table import Table
from state_streams import Stream, cluster_session, resize, waiting

import saltwise
from saltwise.rebalancing import rounds
from saltwise.spark.moving_state.report import StateReport

WAIT = 2
"""Milliseconds that a tuple takes."""
TUPLES = 1000
"""Tuples in a batch for each executor: two seconds of work, beside which a task's own time is little."""
WARM_UP = 6
"""Batches before those that count."""

Found = list[tuple[str, float]]
MEASURES: dict[str, Callable[[str], Found]] = {}
SCHEMES = {"elb": ["stock", "elb", "clb", "uhlb"], "milp": ["milp 4", "flux 4", "milp 10", "milp 100"]}
"""By measure: what runs in a Spark of its own."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(SCHEMES), help=", ".join(SCHEMES))
    parser.add_argument("--out", type=Path, default=RESULTS / "papers_on_spark.csv")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    rounds.EVEN = 1.0
    if given.one:
        print(json.dumps(MEASURES[given.one[0]](given.one[1])))
        return
    found: list[tuple[str, str, str, float]] = []
    columns = ("figures", "scheme", "what", "value")
    table = Table(*columns)
    for name in given.only:
        for scheme in SCHEMES[name]:
            command = [sys.executable, __file__, "--one", name, scheme]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found += [(name, scheme, what, value) for what, value in json.loads(done.stdout.splitlines()[-1])]
    for row in found:
        table.add_row(*row[:3], f"{row[3]:.3f}")
    write_csv(given.out, [dict(zip(columns, row, strict=True)) for row in found])
    console.print(table)


def measure(function: Callable[[str], Found]) -> Callable[[str], Found]:
    MEASURES[function.__name__] = function
    return function


@measure
def elb(scheme: str) -> Found:
    executors, batches, partitions = 6, 6, 32
    spark = cluster_session(executors, partitions)
    resize(spark, 1)
    keys = Drifting(spark, partitions, z=0.8, drift=0.2)
    latencies: list[float] = []
    by_executors: dict[int, tuple[float, float]] = {}
    with (
        Stream(spark, waited_for, keys.batches(lambda n: TUPLES * (1 + max(0, n - WARM_UP) // batches))) as stream,
        saltwise.StateBalancer(spark, None if scheme == "stock" else scheme, every=2) as balancer,
    ):
        for _ in range(WARM_UP):
            stream.timed()
        for n in range(1, executors + 1):
            resize(spark, n)
            seconds, waits = [], []
            for _ in range(batches):
                seconds.append(stream.timed())
                waits.append(latency_of(stream.report(balancer)))
            latencies += waits
            by_executors[n] = mean(waits), TUPLES * n / median(seconds)
    spark.stop()
    ms = [1000 * each for each in latencies]
    alone, rate = by_executors[1]
    return [
        ("table 2: mean latency, ms", mean(ms)),
        ("table 2: 95 % of batches, ms", float(np.percentile(ms, 95))),
        ("table 2: highest, ms", max(ms)),
        *((f"figure 5: latency on {n} by that on 1", wait / alone) for n, (wait, _) in by_executors.items()),
        *((f"figure 6: speedup on {n}", tuples / rate) for n, (_, tuples) in by_executors.items()),
    ]


def latency_of(report: StateReport) -> float:
    """Return the mean seconds that the last batch's tuples waited: half of what their executor had to do."""
    busy = np.array([*report.batches[-1].executors.values()])
    return float((busy * busy / 2).sum() / busy.sum())


@measure
def milp(scheme: str) -> Found:
    planner, moves = scheme.split()
    executors, times, partitions = 4, 12, 100
    spark = cluster_session(executors, partitions)
    keys = Drifting(spark, partitions, z=0.6, drift=0.25)
    distances, seconds = [], []
    with (
        Stream(spark, waited_for, keys.batches(lambda _: TUPLES * executors)) as stream,
        saltwise.StateBalancer(spark, planner, max_moves=int(moves), every=2) as balancer,
    ):
        for number in range(2 * times + WARM_UP):
            took = stream.timed()
            report = stream.report(balancer)
            if number >= WARM_UP:
                seconds.append(took)
                distances.append(report.batches[-1].max_to_mean - 1)
    spark.stop()
    found = report.rounds[WARM_UP // 2 :]
    return [
        ("figure 6: load distance, mean, by the mean load", mean(distances)),
        ("figure 6: load distance, highest", max(distances)),
        ("figure 6: planned load distance, mean", mean(each.expected - 1 for each in found)),
        ("figure 7: moves a round", mean(len(each.moves) for each in found)),
        ("figure 9: pause a round, seconds", mean(each.pause for each in found)),
        ("seconds a batch", median(seconds)),
    ]


class Drifting:
    """Keys of state partitions whose loads follow a Zipf law that changes from batch to batch."""

    def __init__(self, spark: SparkSession, partitions: int, z: float, drift: float) -> None:
        enough = 60 * TUPLES
        found = spark.range(enough).select("id", F.expr(f"pmod(hash(id), {partitions}) AS p")).collect()
        self.keys = [np.array([row.id for row in found if row.p == p], np.int64) for p in range(partitions)]
        self.rng = np.random.default_rng(5)
        self.weights = self.rng.permutation(np.arange(1.0, partitions + 1) ** -z)
        self.drift = drift

    def batches(self, tuples: Callable[[int], int]) -> Iterator[np.ndarray]:
        """Yield batches in which each key has one row.

        Args:
            tuples: their number in each batch.
        """
        number = 0
        while True:
            # The first batch has one key in each partition, since a partition stays where it runs first.
            counts = np.maximum(1, np.rint(self.weights / self.weights.sum() * tuples(number))) if number else 1
            counts = np.broadcast_to(np.asarray(counts, int), len(self.keys))
            yield np.concatenate([keys[:count] for keys, count in zip(self.keys, counts, strict=True)])
            self.weights *= np.exp(self.drift * self.rng.standard_normal(len(self.weights)))
            number += 1


def waited_for(rows: DataFrame) -> DataFrame:
    """Count each key, and wait for each that leaves."""
    return rows.groupBy("k").agg(F.count("*")).withColumn("waited", waiting(WAIT))


if __name__ == "__main__":
    main()
