"""What watching costs: TPC-DS with spark.saltwise.mode=observe and the tab in Spark's UI, against neither.

    python benchmarks/observe.py [--pairs 2] [--rounds 3] [--suite tpcds] [--out benchmarks/results/observe.csv]

The tab is chosen when an application starts, so each side is an application of its own. Both are up at the same time,
and run each query by turns. Two applications of one kind differ by some percent in what the JVM compiled. So there are
several pairs of them. A round of a pair is all queries, and the first round does not count.

It needs: pip install saltwise[bench]
"""

from __future__ import annotations

import argparse
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
ANSWER = "answer:"
"""Begins the lines that an application answers; it also prints which queries Spark refuses."""


class Application:
    """One side: a process with a session, that runs a query when it is told its number."""

    def __init__(self, suite: str, side: str) -> None:
        command = [sys.executable, __file__, "--suite", suite, "--one", side]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.queries = round(self.answer())

    def seconds(self, number: int) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{number}\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self) -> float:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(ANSWER):
                return float(line.removeprefix(ANSWER))
        raise SystemExit("An application ended before its time.")

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--pairs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--suite", default="tpcds", help="tpch, tpcds")
    parser.add_argument("--out", type=Path, default=RESULTS / "observe.csv")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        serve(given.suite, given.one)
        return
    found: dict[str, list[float]] = {side: [] for side in SIDES}
    for pair in range(given.pairs):
        order = list(SIDES)[:: 1 if pair % 2 else -1]
        applications = {side: Application(given.suite, side) for side in order}
        for round_ in range(-1, given.rounds):
            taken = dict.fromkeys(SIDES, 0.0)
            for number in range(applications["without"].queries):
                for side in list(SIDES)[:: 1 if (number + round_) % 2 else -1]:
                    taken[side] += applications[side].seconds(number)
            console.print(pair, round_, {side: round(seconds, 2) for side, seconds in taken.items()})
            if round_ >= 0:
                for side, seconds in taken.items():
                    found[side].append(seconds)
        for application in applications.values():
            application.end()
    ratios = [ours / stock for ours, stock in zip(found["observe"], found["without"], strict=True)]
    row = {
        "suite": given.suite,
        "pairs": given.pairs,
        "rounds": len(ratios),
        "seconds_without": round(statistics.median(found["without"]), 2),
        "ratio": round(statistics.median(ratios), 4),
        "error": round(standard_error(ratios), 4),
    }
    write_csv(given.out, [row])
    console.print(row)


def serve(suite: str, side: str) -> None:
    """Print how many queries there are, then how long each took whose number comes."""
    spark = session(spark__sql__adaptive__enabled="true", spark__sql__shuffle__partitions="16", **SIDES[side])
    for name, folder in tables(suite, "zipf", 1.0).items():
        spark.read.parquet(folder).createOrReplaceTempView(name)
    texts = [query for name, query in queries(suite, "plain").items() if is_accepted(spark, name, query)]
    print(ANSWER, len(texts), flush=True)
    for number in sys.stdin:
        begun = time.perf_counter()
        spark.sql(texts[int(number)]).write.format("noop").mode("overwrite").save()
        print(ANSWER, time.perf_counter() - begun, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
