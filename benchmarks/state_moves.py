"""What moving state costs, and what it is for: executors that come and go, the pause of a move, the price of watching.

    python benchmarks/state_moves.py [--only scaling,pause,watching] [--out benchmarks/results/state_moves.csv]

* scaling: 24 state partitions on two executors, then on four, then on two again, with the balancer and without.
  Printed: the share of partitions on the two new executors after five batches, and how many partitions an executor
  holds when it goes. The balancer drains it first; stock Spark has its decommission.
* pause: how much longer the task of a state partition takes in the batch after its move, by the size of its state.
* watching: the time of a batch with 200 even state partitions while a balancer watches, by that without, in turns.

Each has a Spark of its own (local-cluster, one core an executor), with RocksDB.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
from common import RESULTS, console
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from rich.table import Table
from state_streams import Stream, decommission, resize, started

import saltwise

MEASURES: dict[str, Callable[[], list[tuple[str, float]]]] = {}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(MEASURES), help=", ".join(MEASURES))
    parser.add_argument("--out", type=Path, default=RESULTS / "state_moves.csv")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(MEASURES[given.one]()))
        return
    found: list[tuple[str, float]] = []
    for name in given.only:
        command = [sys.executable, __file__, "--one", name]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found += [(f"{name}: {what}", value) for what, value in json.loads(done.stdout.splitlines()[-1])]
    given.out.parent.mkdir(parents=True, exist_ok=True)
    with given.out.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("what", "value"), *found])
    table = Table("what", "value")
    for what, value in found:
        table.add_row(what, f"{value:.3f}")
    console.print(table)


def measure(function: Callable[[], list[tuple[str, float]]]) -> Callable[[], list[tuple[str, float]]]:
    MEASURES[function.__name__] = function
    return function


@measure
def scaling() -> list[tuple[str, float]]:
    found = []
    for side in ("stock", "saltwise"):
        spark = started(executors=4, partitions=24)
        resize(spark, 2)
        planner = "milp" if side == "saltwise" else None
        with (
            Stream(spark, counted, [np.arange(2400)] * 60) as stream,
            saltwise.StateBalancer(spark, planner, every=2) as balancer,
        ):

            def held() -> dict[str, int]:
                """Run a batch; return how many state partitions each executor has."""
                stream.timed()
                return stream.report(balancer).held

            for _ in range(4):
                old = set(held())
            resize(spark, 4)
            for _ in range(5):
                now = held()
            on_new = sum(count for executor, count in now.items() if executor not in old)
            found.append((f"{side}, share on new executors after five batches", on_new / 24))
            for going in sorted(set(now) - old)[::-1]:
                if side == "saltwise":
                    balancer.drain(going)
                    while now[going]:
                        now = held()
                found.append((f"{side}, partitions on executor {going} when it goes", now[going]))
                decommission(spark, going)
                now = held()
        spark.stop()
    return found


@measure
def pause() -> list[tuple[str, float]]:
    spark = started(executors=2, partitions=1)
    found = []
    for size in (1, 10, 100):
        first = np.arange(size << 10)  # a state of about 1 KB for each key
        with Stream(spark, kept, [first, *[np.arange(10)] * 40]) as stream:
            for _ in range(4):
                last = stream.batch()
            stays, moves = [], []
            for _ in range(5):
                here = last.stages[-1].executor[0]
                [there] = [each.id for each in last.executors if each.id != here]
                stream.move(last, [there])
                stays.append(stream.batch().stages[-1].millis[0])
                last = stream.batch()
                assert last.stages[-1].executor[0] == there
                moves.append(last.stages[-1].millis[0])
                stays.append(stream.batch().stages[-1].millis[0])
            found.append((f"{size} MB, seconds of the batch after a move", median(moves) / 1000))
            found.append((f"{size} MB, seconds of another batch", median(stays) / 1000))
    spark.stop()
    return found


@measure
def watching() -> list[tuple[str, float]]:
    spark = started(executors=2, partitions=200)
    ratios = []
    with Stream(spark, counted, [np.arange(20_000)] * 200) as stream:
        balancer = saltwise.StateBalancer(spark, "milp", every=1)
        for _ in range(5):
            stream.batch()
        for _ in range(12):
            without = median(stream.timed() for _ in range(3))
            with balancer:
                watched = median(stream.timed() for _ in range(3))
            ratios.append(watched / without)
    spark.stop()
    return [
        ("batch time, watched by not", median(ratios)),
        ("standard error", float(np.std(ratios) / len(ratios) ** 0.5)),
    ]


def counted(rows: DataFrame) -> DataFrame:
    return rows.groupBy("k").agg(F.count("*").alias("n"))


def kept(rows: DataFrame) -> DataFrame:
    """A state of about a kilobyte a key, which does not compress."""
    text = F.concat(*(F.sha2(F.concat(F.col("k").cast("string"), F.lit(f" {i}")), 512) for i in range(8)))
    return rows.groupBy("k").agg(F.max(text).alias("text"))


if __name__ == "__main__":
    main()
