"""What watching costs: TPC-DS with spark.saltwise.mode=observe and the tab in Spark's UI, against neither.

    python benchmarks/observe.py [--rounds 4] [--suite tpcds] [--out benchmarks/results/observe.csv]

Two applications of one kind differ by some percent in what the JVM compiled. So this is one application, and each query
runs with mode `off` and `observe` by turns. The tab is there for both. Its thread's processor time therefore counts in
addition, as if every query had waited for it. A round is all queries, and the first round does not count.

It needs: pip install saltwise[bench]
"""

from __future__ import annotations

import argparse
import statistics
from functools import partial
from pathlib import Path

from cells import standard_error
from common import RESULTS, console, write_csv
from others import is_accepted, queries, seconds_by_turns, seconds_of, session_over, tables
from pyspark.sql import SparkSession

MODES = ("off", "observe")
THREAD = "spark-listener-group-saltwise"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--suite", default="tpcds", help="tpch, tpcds")
    parser.add_argument("--out", type=Path, default=RESULTS / "observe.csv")
    given = parser.parse_args()
    spark = session_over(tables(given.suite, "zipf", 1.0), spark__ui__enabled="true")
    texts = [query for name, query in queries(given.suite, "plain").items() if is_accepted(spark, name, query)]
    off, observing, tab = [], [], []
    for round_ in range(-1, given.rounds):
        begun = tab_seconds(spark)
        taken = seconds_by_turns(round_, texts, {mode: partial(seconds_in, spark, mode) for mode in MODES})
        a_side = (tab_seconds(spark) - begun) / len(MODES)
        console.print(f"tab {a_side:.2f}")
        if round_ >= 0:
            off.append(taken["off"])
            observing.append(taken["observe"] / taken["off"])
            tab.append(a_side / taken["off"])
    spark.stop()
    row = {
        "suite": given.suite,
        "rounds": given.rounds,
        "seconds_off": round(statistics.median(off), 2),
        "observing": round(statistics.median(observing), 4),
        "tab": round(statistics.median(tab), 4),
        "ratio": round(statistics.median(map(sum, zip(observing, tab, strict=True))), 4),
        "error": round(standard_error(observing), 4),
    }
    write_csv(given.out, [row])
    console.print(row)


def seconds_in(spark: SparkSession, mode: str, text: str) -> float:
    spark.conf.set("spark.saltwise.mode", mode)
    return seconds_of(spark, text)


def tab_seconds(spark: SparkSession) -> float:
    """The processor time of the thread in which the tab gathers what it shows."""
    assert spark._jvm is not None
    threads = spark._jvm.java.lang.management.ManagementFactory.getThreadMXBean()
    named = [each for each in map(threads.getThreadInfo, threads.getAllThreadIds()) if each is not None]
    (thread,) = [each.getThreadId() for each in named if each.getThreadName() == THREAD]
    return float(threads.getThreadCpuTime(thread)) / 1e9


if __name__ == "__main__":
    main()
