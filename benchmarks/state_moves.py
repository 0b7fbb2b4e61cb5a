"""What moving state costs, and what it is for: executors that come and go, the pause of a move, the price of watching.

    python benchmarks/state_moves.py [--only scaling,pause,watching] [--out benchmarks/results/state_moves.csv]

* scaling: 24 state partitions on two executors, then on four, then on two again, with the balancer and without.
  Printed: the share of partitions on the two new executors after five batches, and how many partitions an executor
  holds when it goes. The balancer drains it first; stock Spark has its decommission.
* pause: how much longer the task of a state partition takes in the batch after its move, by the size of its state.
* watching: what a balancer does in a batch of 200 even state partitions, where nothing moves: its round, and its part
  of Spark's events. Both lie beside the batch, which does not wait for them.

Each has a Spark of its own (local-cluster, one core an executor), with RocksDB.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
from common import RESULTS, console, write_csv
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.table import Table
from state_streams import Stream, cluster_session, decommission, resize

import saltwise
from saltwise.spark.moving_state.batches import StateBatch
from saltwise.spark.moving_state.steering import Steering, SteeringOptions

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
    write_csv(given.out, [{"what": what, "value": value} for what, value in found])
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
        spark = cluster_session(executors=4, partitions=24)
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
    spark = cluster_session(executors=2, partitions=1)
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
    spark = cluster_session(executors=2, partitions=200)
    steering = Steering(SteeringOptions("milp", every=1))
    batches, rounds = [], []
    with Stream(spark, counted, [np.arange(20_000)] * 40) as stream:
        for number in range(40):
            seconds = stream.timed()
            text = stream.streams.next(60_000, False)
            if number < 10:
                continue  # it warms up
            begun = time.perf_counter()
            batch = StateBatch.parse(text)
            steering.after(batch)
            stream.streams.report(batch.run, steering.report(batch.run).to_json())
            rounds.append(time.perf_counter() - begun)
            batches.append(seconds)
    heard = listening(spark) / 40
    spark.stop()
    return [
        ("seconds of a batch", median(batches)),
        ("seconds of its round", median(rounds)),
        ("seconds of its events", heard),
        ("both by the batch", (median(rounds) + heard) / median(batches)),
    ]


def listening(spark: SparkSession) -> float:
    """Return the seconds that the plugin's listeners have taken, as Spark itself measures each class of them."""
    timers = spark.sparkContext._jsc.sc().listenerBus().metrics().metricRegistry().getTimers()
    mine = [timers[name] for name in timers if name.endswith(".GuardedListener")]
    assert mine, list(timers)
    return float(sum(timer.getCount() * timer.getSnapshot().getMean() for timer in mine)) / 1e9


def counted(rows: DataFrame) -> DataFrame:
    return rows.groupBy("k").agg(F.count("*").alias("n"))


def kept(rows: DataFrame) -> DataFrame:
    """A state of about a kilobyte a key, which does not compress."""
    text = F.concat(*(F.sha2(F.concat(F.col("k").cast("string"), F.lit(f" {i}")), 512) for i in range(8)))
    return rows.groupBy("k").agg(F.max(text).alias("text"))


if __name__ == "__main__":
    main()
