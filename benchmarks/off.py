"""What the plugin costs while it is loaded and off: TPC-DS with it, against TPC-DS without it.

    python benchmarks/off.py [--rounds 5] [--suite tpcds] [--out benchmarks/results/off.csv]

Two applications of one kind differ by some percent in what the JVM compiled. So this is one application with two
sessions, of which one has the extension, and each query runs in both by turns. A round is all queries, and the first
round does not count.

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

from saltwise.spark.session import plugin_loaded


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--suite", default="tpcds", help="tpch, tpcds")
    parser.add_argument("--out", type=Path, default=RESULTS / "off.csv")
    given = parser.parse_args()
    folders = tables(given.suite, "zipf", 1.0)
    loaded = session_over(folders)
    absent = without_extension(loaded, folders)
    assert [plugin_loaded(session) for session in (absent, loaded)] == [False, True]
    sides = {"absent": partial(seconds_of, absent), "loaded": partial(seconds_of, loaded)}
    texts = [query for name, query in queries(given.suite, "plain").items() if is_accepted(loaded, name, query)]
    absent_seconds, ratios = [], []
    for round_ in range(-1, given.rounds):
        taken = seconds_by_turns(round_, texts, sides)
        if round_ >= 0:
            absent_seconds.append(taken["absent"])
            ratios.append(taken["loaded"] / taken["absent"])
    loaded.stop()
    row = {
        "suite": given.suite,
        "queries": len(texts),
        "rounds": given.rounds,
        "seconds_absent": round(statistics.median(absent_seconds), 2),
        "ratio": round(statistics.median(ratios), 4),
        "error": round(standard_error(ratios), 4),
    }
    write_csv(given.out, [row])
    console.print(row)


def without_extension(loaded: SparkSession, folders: dict[str, str]) -> SparkSession:
    """Start another session in the same application, without the extension, over the same tables."""
    jvm, context = loaded._jvm, loaded.sparkContext._jsc.sc()
    assert jvm is not None
    context.conf().remove("spark.sql.extensions")
    jvm.SparkSession.clearDefaultSession()
    jvm.SparkSession.clearActiveSession()
    other = SparkSession(loaded.sparkContext, jvm.SparkSession.builder().getOrCreate())
    for name, value in loaded.sparkContext.getConf().getAll():
        if name.startswith("spark.sql.") and other.conf.isModifiable(name):
            other.conf.set(name, value)
    for name, folder in folders.items():
        other.read.parquet(folder).createOrReplaceTempView(name)
    return other


if __name__ == "__main__":
    main()
