"""What a StateBalancer does for a stream whose state partitions are uneven: executor loads and batch times, by planner.

    python benchmarks/state_balancer.py [--planners stock,flux,milp,elb] [--batches 12] [--every 2] [--wait 60]
                                        [--locality-wait 30s] [--out benchmarks/results/state_balancer.csv]
                                        [--picture docs/images/executor-loads.svg]

Four executors of one core (local-cluster), 32 state partitions in RocksDB. In each batch every key has a row, and a row
that leaves the aggregate waits 60 milliseconds, so that two cores can carry four executors. The keys of partition r
are 160 / r, a Zipf law. Every planner begins with the same allocation, partition r on executor r mod 4, where stock
Spark leaves it: a partition stays where it ran. An executor that has been idle for spark.locality.wait takes tasks of
others, so that is raised above a batch. Each planner gets a stream and a Spark of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib
import numpy as np
from common import RESULTS, console, write_csv
from matplotlib.figure import Figure
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.table import Table
from state_streams import Stream, cluster_session, waiting

import saltwise

PARTITIONS, EXECUTORS, KEYS = 32, 4, 160
PICTURE = Path(__file__).resolve().parent.parent / "docs" / "images" / "executor-loads.svg"
PLANNERS = ("stock", "flux", "milp", "elb")
HEAD = ("planner", "batch", "seconds", *(f"executor_{i}" for i in range(EXECUTORS)))
Rows = list[list[float]]
"""By batch: its number, its seconds, and the seconds of work of each executor."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--planners", type=lambda text: text.split(","), default=PLANNERS, help=", ".join(PLANNERS))
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument("--every", type=int, default=2)
    parser.add_argument("--wait", type=int, default=60, help="milliseconds that a row waits")
    parser.add_argument("--locality-wait", default="30s", help="Spark's spark.locality.wait (its default: 3s)")
    parser.add_argument("--out", type=Path, default=RESULTS / "state_balancer.csv")
    parser.add_argument("--picture", type=Path, default=PICTURE)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(stream(given.one, given)))
        return
    found = {planner: in_a_process_of_its_own(planner, given) for planner in given.planners}
    rows = [(planner, *row) for planner, ran in found.items() for row in ran["rows"]]
    write_csv(given.out, [dict(zip(HEAD, row, strict=True)) for row in rows])
    draw(found, given.picture)
    table = Table("planner", "max/mean, first", "max/mean, last", "moves", "seconds a batch", "by stock's")
    stock = settled(found[given.planners[0]]["rows"])[0]
    for planner, ran in found.items():
        seconds, uneven = settled(ran["rows"])
        first = f"{max_to_mean(ran['rows'][1]):.2f}"
        table.add_row(planner, first, f"{uneven:.2f}", str(ran["moves"]), f"{seconds:.2f}", f"{seconds / stock:.2f}")
    console.print(table)


def settled(rows: Rows) -> tuple[float, float]:
    """Return the medians of seconds and max/mean over the second half of the batches."""
    half = rows[-(len(rows) // 2) :]
    return median(row[1] for row in half), median(max_to_mean(row) for row in half)


def max_to_mean(row: list[float]) -> float:
    loads = row[2:]
    return max(loads) * len(loads) / sum(loads)


def draw(found: dict[str, dict[str, Any]], path: Path) -> None:
    """Draw the seconds of work of each executor by batch, a panel for each planner."""
    matplotlib.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "saltwise"}
    figure = Figure(figsize=(7, 2.1 * len(found)), layout="constrained")
    panels = figure.subplots(len(found), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axes, (planner, ran) in zip(panels, found.items(), strict=True):
        for executor in range(EXECUTORS):
            axes.plot([row[0] for row in ran["rows"]], [row[2 + executor] for row in ran["rows"]], marker="o", ms=3)
        axes.set_title(f"{planner}: at last the busiest has {settled(ran['rows'])[1]:.2f} times the mean", loc="left")
        axes.set(ylabel="seconds", ylim=(0, None))
        axes.spines[["top", "right"]].set_visible(False)
    panels[-1].set_xlabel("batch; a line is the work of an executor")
    figure.supxlabel("python benchmarks/state_balancer.py", fontsize=7, color="#777777")
    figure.savefig(path, metadata={"Date": None})


def in_a_process_of_its_own(planner: str, given: argparse.Namespace) -> dict[str, Any]:
    options = ("batches", "every", "wait", "locality_wait")
    same = [f"--{name.replace('_', '-')}={getattr(given, name)}" for name in options]
    command = [sys.executable, __file__, "--one", planner, *same]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def stream(planner: str, given: argparse.Namespace) -> dict[str, object]:
    spark = cluster_session(EXECUTORS, PARTITIONS, spark__locality__wait=given.locality_wait)
    keys = keys_of_partitions(spark)
    first = np.concatenate([each[:1] for each in keys])
    rows = []
    query = partial(waited_for, millis=given.wait)
    with Stream(spark, query, [*[first] * 3, *[np.concatenate(keys)] * given.batches]) as stream:
        allocate(stream)
        with saltwise.StateBalancer(spark, None if planner == "stock" else planner, every=given.every) as balancer:
            for _ in range(given.batches):
                rows.append(stream.timed())
                report = stream.report(balancer)
    spark.stop()
    loads = {each.batch: [each.executors[name] for name in sorted(each.executors)] for each in report.batches}
    return {"moves": report.moved, "rows": [(i, round(seconds, 3), *loads[i + 3]) for i, seconds in enumerate(rows)]}


def allocate(stream: Stream) -> None:
    """Run three small batches, and have partition i on executor i mod 4 after them."""
    last = stream.batch()
    executors = sorted(each.id for each in last.executors)
    there = [executors[i % EXECUTORS] for i in range(PARTITIONS)]
    stream.move(last, there)
    stream.batch()
    assert stream.batch().stages[-1].executor == there


def waited_for(rows: DataFrame, millis: int) -> DataFrame:
    """Count each key, and wait for each that leaves."""
    return rows.groupBy("k").agg(F.count("*")).withColumn("waited", waiting(millis))


def keys_of_partitions(spark: SparkSession) -> list[np.ndarray]:
    """Return the keys of each state partition: 160 of the first one, 80 of the second, 53, ..."""
    found = spark.range(PARTITIONS * KEYS * 4).select("id", F.expr(f"pmod(hash(id), {PARTITIONS}) AS p")).collect()
    of = [np.array([row.id for row in found if row.p == p], dtype=np.int64) for p in range(PARTITIONS)]
    return [keys[: KEYS // r] for r, keys in enumerate(of, 1)]


if __name__ == "__main__":
    main()
