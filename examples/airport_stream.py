"""A stream of real flights on three executors: one of them has the busy airports until a balancer moves them.

Run it with: python examples/airport_stream.py [picture.png] (needs pip install 'saltwise[demo,streams]').

Each flight waits half a millisecond, as if it asked a service. So two cores can run three executors.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
from matplotlib.figure import Figure
from pyspark.sql import SparkSession
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

import saltwise
from saltwise import datasets
from saltwise.spark.moving_state.report import StateReport

EXECUTORS, PARTITIONS, BATCHES, FLIGHTS, FIRST_ROUND = 3, 12, 16, 2000, 8


def delays(key: tuple[Any, ...], flights: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Add the flights of a batch to the number and the delay of all flights to an airport."""
    count, delay = state.get if state.exists else (0, 0)
    for part in flights:
        time.sleep(0.0005 * len(part))
        count, delay = count + len(part), delay + int(part["dep_delay"].fillna(0).sum())
    state.update((count, delay))
    yield pd.DataFrame({"dest": [key[0]], "flights": [count], "delay": [delay]})


def main(spark: SparkSession, picture: Path) -> None:
    # Spark maintains the states of a stopped stream for a while, so it may write while the folder is removed.
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        flights = datasets.flights()
        source = Path(folder, "source")
        source.mkdir()
        stream = spark.readStream.schema("dest string, dep_delay int").option("maxFilesPerTrigger", 1)
        query = (
            stream.parquet(str(source))
            .groupBy("dest")
            .applyInPandasWithState(
                func=delays,
                outputStructType="dest string, flights long, delay long",
                stateStructType="flights long, delay long",
                outputMode="update",
                timeoutConf=GroupStateTimeout.NoTimeout,
            )
            .writeStream.outputMode("update")
            .option("checkpointLocation", str(Path(folder, "checkpoint")))
            .format("noop")
            .start()
        )
        # The first round is after half of the batches, so that the picture shows both.
        with saltwise.StateBalancer(spark, "milp", every=FIRST_ROUND) as balancer:
            for batch in range(BATCHES):
                part = flights.select(["dest", "dep_delay"]).slice(batch * FLIGHTS, FLIGHTS)
                pq.write_table(part, source / f"{batch:03}.parquet")
                query.processAllAvailable()
            report = latest(balancer, query)
        query.stop()
    print(report)
    draw(report, picture)
    before, after = (sum(batch.max_to_mean for batch in half) / len(half) for half in halves(report))
    print(f"\nThe busiest executor had {before:.2f} times the mean load, and has {after:.2f} times now: see {picture}.")


def latest(balancer: saltwise.StateBalancer, query: Any) -> StateReport:
    """Return the report of the last batch. The balancer learns of a batch a moment after it ended."""
    while (report := balancer.report(query)).batch < BATCHES - 1:
        time.sleep(0.1)
    return report


def halves(report: StateReport) -> tuple[list[Any], list[Any]]:
    """Return the batches before the moves and the batches after them, without the first, in which Python starts."""
    return report.batches[1:FIRST_ROUND], report.batches[FIRST_ROUND + 1 :]


def draw(report: StateReport, picture: Path) -> None:
    figure = Figure(figsize=(9, 4), layout="constrained")
    axes = figure.subplots()
    for executor in report.executors:
        axes.plot(
            [batch.batch for batch in report.batches[1:]],
            [batch.executors.get(executor, 0.0) for batch in report.batches[1:]],
            marker="o",
            label=f"executor {executor}",
        )
    axes.axvline(FIRST_ROUND - 0.5, color="grey", linestyle="dashed")
    axes.set(xlabel="batch", ylabel="seconds of work", ylim=(0, None), title="State partitions move after batch 7")
    axes.legend()
    figure.savefig(picture)


if __name__ == "__main__":
    builder = (
        SparkSession.builder.master(f"local-cluster[{EXECUTORS},1,1024]")
        .config("spark.sql.shuffle.partitions", PARTITIONS)
        .config("spark.ui.showConsoleProgress", "false")
    )
    session = saltwise.configure(builder).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    main(session, Path(sys.argv[1] if len(sys.argv) > 1 else "executors.png"))
