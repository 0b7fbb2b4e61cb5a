"""What watching costs: TPC-DS with spark.saltwise.mode=observe and the tab in Spark's UI, against neither.

    python benchmarks/observe.py [--rounds 4] [--suite tpcds] [--out benchmarks/results/observe.csv]

The tab is chosen when an application starts. So each side has a JVM of its own, and the sides take turns. A JVM runs
all queries three times; the first time does not count.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from cells import standard_error
from common import RESULTS, console, session, write_csv
from others import is_accepted, queries, tables

SIDES = {
    "without": {"spark__saltwise__ui__enabled": "false", "spark__ui__enabled": "true"},
    "observe": {"spark__saltwise__mode": "observe", "spark__ui__enabled": "true"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--suite", default="tpcds", help="tpch, tpcds")
    parser.add_argument("--out", type=Path, default=RESULTS / "observe.csv")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(seconds_of(given.suite, given.one)))
        return
    found: dict[str, list[float]] = {side: [] for side in SIDES}
    for i in range(given.rounds):
        for side in list(SIDES)[:: 1 if i % 2 else -1]:
            command = [sys.executable, __file__, "--suite", given.suite, "--one", side]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found[side].append(float(json.loads(done.stdout.splitlines()[-1])))
            console.print(f"{side}: {found[side][-1]:.1f} s")
    ratios = [ours / stock for ours, stock in zip(found["observe"], found["without"], strict=True)]
    row = {
        "suite": given.suite,
        "rounds": given.rounds,
        "seconds_without": round(statistics.median(found["without"]), 2),
        "ratio": round(statistics.median(ratios), 4),
        "error": round(standard_error(ratios), 4),
    }
    write_csv(given.out, [row])
    console.print(row)


def seconds_of(suite: str, side: str) -> float:
    """Return how long all queries take, a mean of two times."""
    spark = session(spark__sql__adaptive__enabled="true", spark__sql__shuffle__partitions="16", **SIDES[side])
    for name, folder in tables(suite, "zipf", 1.0).items():
        spark.read.parquet(folder).createOrReplaceTempView(name)
    texts = [query for name, query in queries(suite, "plain").items() if is_accepted(spark, name, query)]
    taken = []
    for _ in range(3):
        begun = time.perf_counter()
        for query in texts:
            spark.sql(query).write.format("noop").mode("overwrite").save()
        taken.append(time.perf_counter() - begun)
    spark.stop()
    return sum(taken[1:]) / 2


if __name__ == "__main__":
    main()
