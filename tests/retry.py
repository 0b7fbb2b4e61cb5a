"""Kills an executor in the middle of a rewritten aggregate, again and again, and says how each query ended.

    python tests/retry.py --runs 10 [--strategies stock,auto,pkg,...] [--aggregates counts,objects]

Two executors of one core each (local-cluster). The rows come out of a shuffle, so a map task that runs again
reads them in another order. While the last stage runs, one of its tasks halts its own executor: the shuffle
files of three stages are lost, and Spark runs SkewRoute again for part of the sources.

Prints one line a strategy and kind of aggregates: how many runs gave the right answer, a wrong one, or were aborted by
Spark, and with which message. Exits with 1 where a run ended in anything but the right answer.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import saltwise
from saltwise import skew_groupby

ROWS = 200_000
KEYS = 500
STRATEGIES = "stock,auto,split,local,offgreedy,hash,shuffle,pkg,dchoices,wchoices,roundrobin,hot,hot-keys-only"
AGGREGATES = {
    "counts": ["count(*) AS n", "sum(v) AS s"],
    # A sum whose last bits depend on the order of rows, states that grow, that forget, and that have one size.
    "objects": [
        "round(sum(v / 7), 3) AS s",
        "sort_array(collect_list(v)) AS l",
        "percentile_approx(v, 0.5, 1000000) AS p",
        "count_min_sketch(v, 0.01D, 0.9D, 7) AS c",
    ],
}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--strategies", default=STRATEGIES)
    parser.add_argument("--aggregates", default="counts", help=", ".join(AGGREGATES))
    arguments = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = start()
    right = True
    for name, kind in product(arguments.strategies.split(","), arguments.aggregates.split(",")):
        ends = Counter(run(spark, name, kind, i) for i in range(arguments.runs))
        print(json.dumps({"strategy": name, "aggregates": kind, "spark": spark.version, **ends}), flush=True)
        right &= set(ends) == {"right"}
    spark.stop()
    return int(not right)


def start() -> SparkSession:
    builder = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        # Executors start again and again, with the options that the tests start their other JVMs with.
        .config("spark.executor.extraJavaOptions", os.environ.get("SPARK_SUBMIT_OPTS", ""))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "6")
        .config("spark.executor.heartbeatInterval", "2s")
        .config("spark.deploy.maxExecutorRetries", "-1")
        # On a busy machine a dead executor is found out only after several fetches, which must not end the job.
        .config("spark.stage.maxConsecutiveAttempts", "20")
        .config("spark.task.maxFailures", "20")
        .config("spark.shuffle.io.maxRetries", "1")
        .config("spark.shuffle.io.retryWait", "100ms")
        .config("spark.saltwise.auto.smallInput", "0")
        # Six tasks in the last stage, of which the fifth halts its executor.
        .config("spark.sql.adaptive.coalescePartitions.enabled", "false")
    )
    spark = saltwise.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def run(spark: SparkSession, name: str, kind: str, i: int) -> str:
    """Run one query and lose an executor in it; return "right", "wrong" or "aborted: <Spark's message>"."""
    spark.conf.set("spark.sql.adaptive.enabled", "true" if i % 2 or name == "split" else "false")
    # A skewed key, and a payload that is the same on every run; the shuffle below parts rows by payload.
    rows = spark.range(0, ROWS, 1, 5).select(
        (F.col("id") * F.col("id") % 7919 * F.col("id") % KEYS).alias("spread"), (F.col("id") % 10_007).alias("v")
    )
    keyed = rows.select(F.when(F.col("v") % 10 < 6, 0).otherwise(F.col("spread")).alias("k"), "v")
    below = keyed.repartition(6, "k" if name == "hot-keys-only" else "v")
    aggregates = [F.expr(each) for each in AGGREGATES[kind][: 1 if name == "hot-keys-only" else None]]
    exact = name.startswith("hot")
    strategy: Any = "dchoices" if exact else name
    hot: Any = {0: 0.6} if exact else None
    stock = name == "stock"
    grouped: Any = below.groupBy("k") if stock else skew_groupby(below, "k", strategy=strategy, partitions=7, hot=hot)
    skewed = grouped.agg(*aggregates)
    with tempfile.TemporaryDirectory() as folder:
        doomed = skewed.mapInPandas(halt_once(Path(folder, "halted")), skewed.schema)
        # Of four runs the first two lose the executor in a stage whose output is shuffled, the others in the result stage.
        query = doomed if i % 4 >= 2 else doomed.repartition(3, "k")
        try:
            answer = sorted(map(tuple, query.collect()))
        except PySparkException as e:
            return "aborted: " + message(e)
        except Exception as e:  # Py4JJavaError: Spark aborts the job without an error class
            if type(e).__name__ != "Py4JJavaError":
                raise
            return "aborted: " + message(e)
        if not Path(folder, "halted").exists():
            raise AssertionError("no executor was halted")
    return "right" if answer == expected(keyed, aggregates) else "wrong"


def halt_once(marker: Path) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Hand batches on; task 4 halts its executor's JVM, the first time only."""
    path = str(marker)

    def halt(batches: Iterator[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == 4:
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass  # it was halted before, and this is the task that runs again
            else:
                os.kill(executor_jvm(), 9)
        yield from batches

    return halt


def executor_jvm() -> int:
    """The process above this Python worker that is a JVM: the worker's parent is the daemon that forked it."""
    pid = os.getpid()
    while Path(f"/proc/{pid}/comm").read_text().strip() != "java":
        pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return pid


def expected(keyed: DataFrame, aggregates: list[Any]) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, keyed.groupBy("k").agg(*aggregates).collect()))


def message(e: BaseException) -> str:
    """The sentence in which Spark says why it aborted."""
    lines = [line.strip() for line in str(e).splitlines()]
    why = next((line for line in lines if "abort" in line.lower()), lines[0])
    return re.sub(r"\d+", "N", why).split(". ")[0]


if __name__ == "__main__":
    sys.exit(main())
