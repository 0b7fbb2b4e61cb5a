"""The streaming top-k word count of the PKG paper: throughput, memory and latency by aggregation period, on Spark.

    python benchmarks/periods.py [--periods 10,30,60] [--out benchmarks/results/periods.csv]

Nasir et al., "Partial Key Grouping", section 6, Q5, figure 10(b) and table III. Words as frequent as Wikipedia's pages
(p1 = 9.32 %) come as a stream, a micro-batch for each period of T seconds. A query counts the words of a period with an
aggregate that waits 1 ms a row, and merges the counters of its workers: eight of them for PKG and SG, whose two
aggregators merge, and ten for KG, as in the paper. The rows of a period are what eight workers can take in T seconds.

`rows_a_second`: rows by the time of the slowest worker, and of the merging stages after it. `counters`: what all
workers hold at the end of a period. `mean_ms`: latency of a row, as `waiting.py` computes it, at 95 % of what SG's
workers take.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from common import RESULTS, console, register_users_aggregates, session, users_jar, write_csv
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.progress import track
from rich.table import Table
from waiting import LOAD, queued, workers_of_rows

from saltwise import skew_groupby
from saltwise.spark.reports.loads import measured_tasks
from saltwise.streams import zipf

WORKERS = {"pkg": 8, "shuffle": 8, "hash": 10}
SOURCES, KEYS, EXPONENT = 8, 2_900_000, 1.0552
BATCHES = 2
"""Periods that count, after one to start with."""


class Period(NamedTuple):
    """What a period took."""

    seconds: float
    counters: int
    mean_ms: float


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--periods", type=lambda text: [int(t) for t in text.split(",")], default=[10, 30, 60])
    parser.add_argument("--out", type=Path, default=RESULTS / "periods.csv")
    given = parser.parse_args()
    spark = session(max(WORKERS.values()), spark__jars=users_jar(), spark__sql__shuffle__partitions="2")
    register_users_aggregates(spark)
    rows = []
    cases = [(period, scheme) for period in given.periods for scheme in WORKERS]
    for period, scheme in track(cases, "periods", console=console, transient=True):
        found = streamed(spark, period * 1000 * 8, scheme)
        middle = Period(*(statistics.median(column) for column in zip(*found, strict=True)))
        rows.append(
            {
                "T": period,
                "scheme": scheme,
                "rows_a_second": round(period * 8000 / middle.seconds),
                "counters": round(middle.counters),
                "mean_ms": round(middle.mean_ms, 1),
            }
        )
    spark.stop()
    write_csv(given.out, rows)
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*map(str, row.values()))
    console.print(table)


def streamed(spark: SparkSession, rows: int, scheme: str) -> list[Period]:
    """Run a stream of periods; return what each took but the first."""
    found: list[Period] = []

    def top_k(batch: DataFrame, number: int) -> None:
        found.append(period(batch, scheme))

    with tempfile.TemporaryDirectory(prefix="saltwise-periods-") as folder:
        source = Path(folder, "source")
        source.mkdir()
        keys = zipf(rows * (BATCHES + 1), KEYS, EXPONENT).keys
        for i, part in enumerate(np.array_split(keys, (BATCHES + 1) * SOURCES)):
            pq.write_table(pa.table({"k": part}), source / f"{i:03}.parquet")
        words = spark.readStream.schema("k long").option("maxFilesPerTrigger", SOURCES).parquet(str(source))
        query = words.writeStream.foreachBatch(top_k).option("checkpointLocation", str(Path(folder, "checkpoint")))
        running = query.trigger(availableNow=True).start()
        running.awaitTermination()
    return found[1:]


def period(batch: DataFrame, scheme: str) -> Period:
    """Count the words of a period, and take the ten most frequent ones."""
    spark, n = batch.sparkSession, WORKERS[scheme]
    counted = skew_groupby(batch, "k", strategy=scheme, partitions=n).agg(
        F.call_function("waiting_count", "k").alias("n")
    )
    stages = measured_tasks(spark, lambda: counted.orderBy(F.desc("n")).limit(10).collect())
    slowest = spark._jvm.saltwise.benchmarks.Wait.slowest()
    # The stage of the workers is the one that takes longest; the others after it merge.
    longest = [max(task["milliseconds"] for task in stage) for stage in stages]
    merging = sum(longest[longest.index(max(longest)) + 1 :]) / 1000
    worker = workers_of_rows(batch, n, scheme)
    counters = (
        batch.select("k", F.call_function("skew_worker", F.lit(n), F.lit(scheme), "k").alias("w")).distinct().count()
    )
    late = queued(worker, n, LOAD * 8)
    return Period(slowest + merging, counters, float(late.mean()))


if __name__ == "__main__":
    main()
