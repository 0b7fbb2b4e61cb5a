"""How much time the plugin adds to the planning of a query.

    python benchmarks/planning.py [--queries 100] [--out benchmarks/results/planning.csv]

Three sessions in three processes, without the plugin, with it, and with the toggle on, plan the same queries in turn,
so that all see the same noise: an aggregate that `auto` rewrites, a count that it leaves alone, and a query without an
aggregate.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from common import RESULTS, console, session, write_csv
from pyspark.sql import SparkSession
from rich.table import Table

QUERIES = {
    "GROUP BY, rewritten": "SELECT id % 7 AS k, collect_list(id) FROM range(1000) GROUP BY 1",
    "GROUP BY": "SELECT id % 7 AS k, count(*), sum(id) FROM range(1000) GROUP BY 1",
    "no GROUP BY": "SELECT id % 7 AS k, id + 1 AS l FROM range(1000) WHERE id > 3",
}
SIDES = {"stock": [], "off": ["--plugin"], "on": ["--plugin", "--on"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--out", type=Path, default=RESULTS / "planning.csv")
    given = parser.parse_args()
    queries = given.queries
    found: list[dict[str, object]] = []
    workers = {
        side: subprocess.Popen(
            [sys.executable, __file__, "--worker", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for side, options in SIDES.items()
    }
    table = Table("query", "stock ms", "plugin, off: + ms", "plugin, on: + ms")
    for name, query in QUERIES.items():
        taken: dict[str, list[float]] = {side: [] for side in SIDES}
        for i in range(2 * queries):
            for side, worker in workers.items():
                assert worker.stdin is not None
                assert worker.stdout is not None
                print(query, file=worker.stdin, flush=True)
                seconds = float(worker.stdout.readline())
                if i >= queries:
                    taken[side].append(1000 * seconds)
        medians = {side: median(times) for side, times in taken.items()}
        found += [
            {"query": name, "side": side, "milliseconds": round(milliseconds, 3)}
            for side, milliseconds in medians.items()
        ]
        table.add_row(
            name, f"{medians['stock']:.2f}", *(f"{medians[side] - medians['stock']:+.2f}" for side in ("off", "on"))
        )
    for worker in workers.values():
        worker.communicate()
    write_csv(given.out, found)
    console.print(table)
    console.print(f"Medians of {queries} queries, after as many that do not count.")


def work(plugin: bool, on: bool) -> None:
    ours = {"spark__saltwise__enabled": str(on).lower(), "spark__saltwise__auto__smallInput": "0"}
    spark = session(**ours) if plugin else stock()
    for query in sys.stdin:
        started = time.perf_counter()
        spark.sql(query)._jdf.queryExecution().executedPlan()  # type: ignore[operator]
        print(time.perf_counter() - started, flush=True)
    spark.stop()


def stock() -> SparkSession:
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    spark.sparkContext.setLogLevel("ERROR")
    return spark


if __name__ == "__main__":
    if "--worker" in sys.argv:
        work("--plugin" in sys.argv, "--on" in sys.argv)
    else:
        main()
