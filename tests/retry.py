"""Kills an executor in the middle of a rewritten aggregate, again and again, and says how each query ended.

    python tests/retry.py --runs 10 [--strategies stock,auto,pkg,...] [--aggregates counts,objects] [--lose reduce]

Two executors of one core each (local-cluster). The rows come out of a shuffle, so a map task that runs again
reads them in another order. What is lost:

* reduce: while the last stage runs, one of its tasks halts its own executor: the shuffle files of three stages are
  lost, and Spark runs SkewRoute again for part of the sources.
* map: a task that sends rows to the GROUP BY halts its executor.
* files: a task of the last stage deletes the shuffle files of its executor, which lives on.
* twice: a task of the last stage is slow, and Spark runs it a second time beside the first (speculation).
* leaves: the executor of a task of the last stage is decommissioned.

Prints one line a strategy, kind of aggregates and loss: how many runs gave the right answer, a wrong one, or were
aborted by Spark, and with which messages. Exits with 1 where a run ended in anything but the right answer.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import product
from pathlib import Path
from threading import Thread
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
    "count": ["count(*) AS n"],
    "sum(double)": ["round(sum(v / 7), 3) AS s"],
    "collect_list": ["sort_array(collect_list(v)) AS l"],
    "percentile_approx": ["percentile_approx(v, 0.5, 1000000) AS p"],
    "count_min_sketch": ["count_min_sketch(v, 0.01D, 0.9D, 7) AS c"],
    "typed": ["round(root_mean_square(v), 6) AS r"],
}
LOSSES = ("reduce", "map", "files", "twice", "leaves")
SLOW_SECONDS = 8


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--strategies", default=STRATEGIES)
    parser.add_argument("--aggregates", default="counts", help=", ".join(AGGREGATES))
    parser.add_argument("--lose", default="reduce", help=", ".join(LOSSES))
    arguments = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = start("typed" in arguments.aggregates)
    right = True
    names = (arguments.strategies, arguments.aggregates, arguments.lose)
    for name, kind, loss in product(*(each.split(",") for each in names)):
        ends = Counter(run(spark, name, kind, loss, i) for i in range(arguments.runs))
        found = {"strategy": name, "aggregates": kind, "lost": loss, "spark": spark.version}
        print(json.dumps(found | counted(ends)), flush=True)
        right &= set(ends) == {"right"}
    spark.stop()
    return int(not right)


def counted(ends: Counter[str]) -> dict[str, Any]:
    """Return the number of right, wrong and aborted runs, and the messages of these."""
    aborted = {how.removeprefix("aborted: "): count for how, count in ends.items() if how.startswith("aborted")}
    return {"right": ends["right"], "wrong": ends["wrong"], "aborted": sum(aborted.values()), "messages": aborted}


def start(with_users_jar: bool) -> SparkSession:
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
        .config("spark.speculation", "true")
        .config("spark.speculation.quantile", "0.5")
        .config("spark.speculation.minTaskRuntime", f"{SLOW_SECONDS // 2}s")
        .config("spark.decommission.enabled", "true")
    )
    if with_users_jar:
        builder = builder.config("spark.jars", users_jar())
    spark = saltwise.configure(builder).getOrCreate()
    if with_users_jar:
        spark._jvm.saltwise.benchmarks.UserAggregates.register(spark._jsparkSession)  # type: ignore[union-attr]
    spark.sparkContext.setLogLevel("OFF")
    return spark


def users_jar() -> str:
    """Return the jar of the benchmarks' aggregates in Scala."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
    common = import_module("common")
    return str(common.users_jar())


def run(spark: SparkSession, name: str, kind: str, loss: str, i: int) -> str:
    """Run one query and lose something in it; return "right", "wrong" or "aborted: <Spark's message>"."""
    spark.conf.set("spark.sql.adaptive.enabled", "true" if i % 2 or name == "split" else "false")
    # A skewed key, and a payload that is the same on every run; the shuffle below parts rows by payload.
    rows = spark.range(0, ROWS, 1, 5).select(
        (F.col("id") * F.col("id") % 7919 * F.col("id") % KEYS).alias("spread"), (F.col("id") % 10_007).alias("v")
    )
    keyed = rows.select(F.when(F.col("v") % 10 < 6, 0).otherwise(F.col("spread")).alias("k"), "v")
    rows_below = keyed.repartition(6, "k" if name == "hot-keys-only" else "v")
    aggregates = [F.expr(each) for each in AGGREGATES[kind][: 1 if name == "hot-keys-only" else None]]
    exact = name.startswith("hot")
    strategy: Any = "dchoices" if exact else name
    hot: Any = {0: 0.6} if exact else None
    stock = name == "stock"
    with tempfile.TemporaryDirectory() as folder:
        marker = Path(folder, "lost")
        losing = lose_once(marker, loss)
        below = rows_below.mapInPandas(losing, rows_below.schema) if loss == "map" else rows_below
        grouped: Any = (
            below.groupBy("k") if stock else skew_groupby(below, "k", strategy=strategy, partitions=7, hot=hot)
        )
        skewed = grouped.agg(*aggregates)
        doomed = skewed if loss == "map" else skewed.mapInPandas(losing, skewed.schema)
        # Of four runs the first two lose it in a stage whose output is shuffled, the others in the result stage.
        query = doomed if i % 4 >= 2 else doomed.repartition(3, "k")
        leaving = Thread(target=decommission, args=(spark, marker)) if loss == "leaves" else None
        if leaving is not None:
            leaving.start()
        try:
            answer = sorted(map(tuple, query.collect()))
        except PySparkException as e:
            return "aborted: " + message(e)
        except Exception as e:  # Py4JJavaError: Spark aborts the job without an error class
            if type(e).__name__ != "Py4JJavaError":
                raise
            return "aborted: " + message(e)
        finally:
            if leaving is not None:
                leaving.join(SLOW_SECONDS)
        if not marker.exists():
            raise AssertionError("nothing was lost")
    return "right" if answer == expected(keyed, aggregates) else "wrong"


def lose_once(marker: Path, loss: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Hand batches on; the first run of task 4 loses something."""
    path = str(marker)

    def lose(batches: Iterator[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == 4:
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass  # it was lost before, and this is the task that runs again
            else:
                jvm = executor_jvm()
                if loss == "files":
                    for file in shuffle_files(jvm):
                        file.unlink(missing_ok=True)
                elif loss in ("twice", "leaves"):
                    Path(path).write_text(str(jvm))
                    time.sleep(SLOW_SECONDS)
                else:
                    os.kill(jvm, 9)
        yield from batches

    return lose


def shuffle_files(jvm: int) -> list[Path]:
    """The shuffle files of an executor, in the folders that its environment names."""
    environment = Path(f"/proc/{jvm}/environ").read_bytes().split(b"\0")
    [folders] = [each.split(b"=", 1)[1].decode() for each in environment if each.startswith(b"SPARK_EXECUTOR_DIRS=")]
    return [file for folder in folders.split(os.pathsep) for file in Path(folder).rglob("shuffle_*")]


def decommission(spark: SparkSession, marker: Path) -> None:
    """Send the executor away whose JVM a task has written into the marker."""
    for _ in range(600):
        if marker.exists() and (jvm := marker.read_text()):
            break
        time.sleep(0.1)
    else:
        return
    command = Path(f"/proc/{jvm}/cmdline").read_bytes().split(b"\0")
    executor = command[command.index(b"--executor-id") + 1].decode()
    java = spark.sparkContext._jvm
    assert java is not None
    info = java.org.apache.spark.scheduler.ExecutorDecommissionInfo("a test", java.scala.Option.empty())
    spark.sparkContext._jsc.sc().schedulerBackend().decommissionExecutor(executor, info, True, False)


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
