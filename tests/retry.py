"""Kills an executor in the middle of a rewritten aggregate, again and again, and says how each query ended.

    python tests/retry.py --runs 10 [--strategies stock,auto,pkg,...] [--aggregates counts,objects] [--lose reduce]
    python tests/retry.py --plan --out results.jsonl

Two executors of one core each (local-cluster). The rows come out of a shuffle, so a map task that runs again
reads them in another order. What is lost:

* reduce: while the last stage runs, one of its tasks halts its own executor: the shuffle files of three stages are
  lost, and Spark runs SkewRoute again for part of the sources.
* map: a task that sends rows to the GROUP BY halts its executor.
* slices: an executor is killed while the first stage after the exchange of the GROUP BY runs.
* replan: an executor is killed when the stage before that exchange has ended, and AQE plans the rest again.
* cache: as reduce, over rows that were in the executor's memory.
* files: a task of the last stage deletes the shuffle files of its executor, which lives on.
* disk: the executor of a task of the last stage can write no file for some seconds.
* twice: a task of the last stage is slow, and Spark runs it a second time beside the first (speculation).
* leaves: the executor of a task of the last stage is decommissioned.

Prints one line a run: it was right, wrong, aborted by Spark, and with which message, or nothing was lost in it.
With --out, the lines are also appended to a file, and runs that the file has for this Spark do not run again.
--plan runs each strategy, kind of aggregate and loss with each other once or more, and stock Spark with the same.
Exits with 1 where a run ended in anything but the right answer.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from importlib import import_module
from itertools import product
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
from executors import kill_one  # type: ignore[import-not-found]
from pyspark import StorageLevel, TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf
from rich.console import Console
from rich.progress import track

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
    "python": ["sum(v * v) AS q"],
}
"""What is computed. "python" has the answer of this SQL, and is a pandas UDF in stock Spark, and an Aggregator in ours."""
NO_AGGREGATOR = ("split", "offgreedy", "hot", "hot-keys-only")
"""Strategies that an Aggregator refuses."""
LOSSES = ("map", "reduce", "slices", "replan", "cache", "files", "disk", "twice", "leaves")
SLOW_SECONDS = 4
DISK_SECONDS = 3


class Trial(NamedTuple):
    """A query, and what is lost in it."""

    strategy: str
    aggregates: str
    lost: str
    run: int
    """From 0 to 3: odd with AQE; below 2, the stage in which something is lost is not the last one."""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--strategies", default=STRATEGIES)
    parser.add_argument("--aggregates", default="counts", help=", ".join(AGGREGATES))
    parser.add_argument("--lose", default="reduce", help=", ".join(LOSSES))
    parser.add_argument("--plan", action="store_true")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    names = (each.split(",") for each in (given.strategies, given.aggregates, given.lose))
    wanted = planned() if given.plan else [Trial(*each) for each in product(*names, range(given.runs))]
    spark = start(any(trial.aggregates == "typed" for trial in wanted))
    before = ends_in(given.out, spark.version) if given.out else {}
    left = [trial for trial in wanted if trial not in before]
    ends = [before[trial] for trial in wanted if trial in before]
    for trial in track(left, console=Console(stderr=True), disable=not sys.stderr.isatty()):
        begun = time.perf_counter()
        end = run(spark, trial)
        seconds = round(time.perf_counter() - begun, 1)
        line = json.dumps({**trial._asdict(), "spark": spark.version, "end": end, "seconds": seconds})
        print(line, flush=True)
        if given.out:
            with given.out.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        ends.append(end)
    spark.stop()
    return int(set(ends) != {"right"})


def planned() -> list[Trial]:
    """Return the runs of --plan: ours, and those of stock Spark with the same losses."""
    kinds = list(AGGREGATES)[2:]
    ours = []
    for p, strategy in enumerate(STRATEGIES.split(",")[1:]):
        for number, lost in enumerate(LOSSES):
            kind = kinds[(p + number) % len(kinds)]
            if kind == "python" and strategy in NO_AGGREGATOR:
                kind = "count"
            first = p + 2 * number
            if lost in ("slices", "replan"):
                runs = [1, 3]  # without AQE there is neither
            elif lost in ("map", "reduce"):
                runs = [first % 4, (first + 1) % 4]
            else:
                runs = [first % (2 if lost == "disk" else 4)]  # the last stage writes no file
            ours += [Trial(strategy, kind, lost, run) for run in runs]
    return ours + list(dict.fromkeys(trial._replace(strategy="stock") for trial in ours))


def ends_in(path: Path, version: str) -> dict[Trial, str]:
    """Return how the runs of a file ended that were made with this Spark."""
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines()) if path.exists() else []
    return {Trial(*(line[name] for name in Trial._fields)): line["end"] for line in lines if line["spark"] == version}


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
        # A task fails again and again while the disk is full.
        .config("spark.task.maxFailures", "200")
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


def run(spark: SparkSession, trial: Trial) -> str:
    """Run one query and lose something in it.

    Returns:
        "right", "wrong", "nothing was lost", or "aborted: <Spark's message>".
    """
    name, kind, lost, i = trial
    spark.conf.set("spark.sql.adaptive.enabled", "true" if i % 2 or name == "split" else "false")
    keyed = skewed_rows(spark)
    rows_below = keyed.repartition(6, "k" if name == "hot-keys-only" else "v")
    few = 1 if name == "hot-keys-only" else None
    right = expected(spark, tuple(AGGREGATES[kind][:few]))
    exact = name.startswith("hot")
    strategy: Any = "dchoices" if exact else name
    hot: Any = {0: 0.6} if exact else None
    with tempfile.TemporaryDirectory() as folder, ExitStack() as after:
        marker = Path(folder, "lost")
        losing = lose_once(marker, lost)
        if lost == "cache":
            rows_below.persist(StorageLevel.MEMORY_ONLY).count()
            after.callback(rows_below.unpersist)
        below = rows_below.mapInPandas(losing, rows_below.schema) if lost == "map" else rows_below
        grouped: Any = (
            below.groupBy("k")
            if name == "stock"
            else skew_groupby(below, "k", strategy=strategy, partitions=7, hot=hot)
        )
        skewed = grouped.agg(*calls(kind, name == "stock")[:few])
        by_task = lost not in ("map", "slices", "replan")
        doomed = skewed.mapInPandas(losing, skewed.schema) if by_task else skewed
        # Of four runs the first two lose it in a stage whose output is shuffled, the others in the result stage.
        query = doomed if i % 4 >= 2 else doomed.repartition(3, "k")
        if lost in BESIDE:
            after.enter_context(beside(BESIDE[lost], spark, marker))
        try:
            answer = sorted(map(tuple, query.collect()))
        except PySparkException as e:
            return "aborted: " + message(e)
        except Exception as e:  # Py4JJavaError: Spark aborts the job without an error class
            if type(e).__name__ != "Py4JJavaError":
                raise
            return "aborted: " + message(e)
        if answer != right:
            return "wrong"
        return "right" if marker.exists() else "nothing was lost"


def skewed_rows(spark: SparkSession) -> DataFrame:
    """A skewed key, and a payload that is the same on every run."""
    rows = spark.range(0, ROWS, 1, 5).select(
        (F.col("id") * F.col("id") % 7919 * F.col("id") % KEYS).alias("spread"), (F.col("id") % 10_007).alias("v")
    )
    return rows.select(F.when(F.col("v") % 10 < 6, 0).otherwise(F.col("spread")).alias("k"), "v")


class SumOfSquares(saltwise.Aggregator):
    """The sum of v * v, which is the same in any order."""

    returns = "bigint"

    def zero(self) -> int:
        return 0

    def update(self, state: int, batch: pa.RecordBatch) -> int:
        values = batch.column(0).to_numpy()
        return state + int(values @ values)

    def merge(self, a: int, b: int) -> int:
        return a + b

    def finish(self, state: int) -> int:
        return state


def calls(kind: str, stock: bool) -> list[Any]:
    """Return the aggregates of a kind."""
    if kind != "python":
        return [F.expr(each) for each in AGGREGATES[kind]]
    if not stock:
        return [SumOfSquares("v").alias("q")]

    def sum_of_squares(v: pd.Series) -> int:
        return int(v @ v)

    return [pandas_udf(sum_of_squares, "bigint")("v").alias("q")]  # type: ignore[call-overload]


def lose_once(marker: Path, lost: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
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
                if lost == "files":
                    for file in shuffle_files(jvm):
                        file.unlink(missing_ok=True)
                elif lost in ("twice", "leaves"):
                    Path(path).write_text(str(jvm))
                    time.sleep(SLOW_SECONDS)
                elif lost == "disk":
                    _, hard = resource.prlimit(jvm, resource.RLIMIT_FSIZE)
                    resource.prlimit(jvm, resource.RLIMIT_FSIZE, (0, hard))
                    Path(path).write_text(str(jvm))
                else:
                    os.kill(jvm, 9)
        yield from batches

    return lose


def shuffle_files(jvm: int) -> list[Path]:
    """The shuffle files of an executor, in the folders that its environment names."""
    environment = Path(f"/proc/{jvm}/environ").read_bytes().split(b"\0")
    [folders] = [each.split(b"=", 1)[1].decode() for each in environment if each.startswith(b"SPARK_EXECUTOR_DIRS=")]
    return [file for folder in folders.split(os.pathsep) for file in Path(folder).rglob("shuffle_*")]


@contextmanager
def beside(lose: Callable[[SparkSession, Path, Event], None], spark: SparkSession, marker: Path) -> Iterator[None]:
    """Lose something in another thread while a query runs."""
    over = Event()
    thread = Thread(target=lose, args=(spark, marker, over))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def jvm_in(marker: Path, over: Event) -> int | None:
    """Wait for the executor's JVM that a task writes into the marker; None if the query ends before."""
    while not (marker.exists() and (jvm := marker.read_text())):
        if over.wait(0.1):
            return None
    return int(jvm)


def decommission(spark: SparkSession, marker: Path, over: Event) -> None:
    """Send the executor away."""
    jvm = jvm_in(marker, over)
    if jvm is None:
        return
    command = Path(f"/proc/{jvm}/cmdline").read_bytes().split(b"\0")
    executor = command[command.index(b"--executor-id") + 1].decode()
    java = spark.sparkContext._jvm
    assert java is not None
    info = java.org.apache.spark.scheduler.ExecutorDecommissionInfo("a test", java.scala.Option.empty())
    # False: another executor comes in its place.
    spark.sparkContext._jsc.sc().schedulerBackend().decommissionExecutor(executor, info, False, False)


def free_disk(spark: SparkSession, marker: Path, over: Event) -> None:
    """Let the executor write files again, after some seconds."""
    jvm = jvm_in(marker, over)
    if jvm is None:
        return
    time.sleep(DISK_SECONDS)
    with suppress(ProcessLookupError):
        _, hard = resource.prlimit(jvm, resource.RLIMIT_FSIZE)
        resource.prlimit(jvm, resource.RLIMIT_FSIZE, (hard, hard))


def kill_in_slices(spark: SparkSession, marker: Path, over: Event) -> None:
    """Kill an executor when the third stage runs: the first makes rows, and the second sends them to the GROUP BY."""
    kill_when(spark, marker, over, lambda seen, active: len(seen) > 2)


def kill_at_replan(spark: SparkSession, marker: Path, over: Event) -> None:
    """Kill an executor when the second stage has ended."""
    kill_when(spark, marker, over, lambda seen, active: len(seen) > 1 and seen[1] not in active)


def kill_when(spark: SparkSession, marker: Path, over: Event, now: Callable[[list[int], list[int]], bool]) -> None:
    """Kill an executor as soon as `now` says so of the stages that have run, in order, and of those that run."""
    tracker = spark.sparkContext.statusTracker()
    seen: dict[int, None] = {}
    while not over.wait(0.005):
        active = sorted(tracker.getActiveStageIds())
        seen |= dict.fromkeys(active)
        if now([*seen], active):
            if kill_one(spark, random.Random()):
                marker.touch()
            return


BESIDE: dict[str, Callable[[SparkSession, Path, Event], None]] = {
    "slices": kill_in_slices,
    "replan": kill_at_replan,
    "disk": free_disk,
    "leaves": decommission,
}
"""Losses that take the driver's help."""


def executor_jvm() -> int:
    """The process above this Python worker that is a JVM: the worker's parent is the daemon that forked it."""
    pid = os.getpid()
    while Path(f"/proc/{pid}/comm").read_text().strip() != "java":
        pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return pid


@cache
def expected(spark: SparkSession, aggregates: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """Return Spark's own answer, of a query in which nothing is lost."""
    return sorted(map(tuple, skewed_rows(spark).groupBy("k").agg(*map(F.expr, aggregates)).collect()))


def message(e: BaseException) -> str:
    """The sentence in which Spark says why it aborted."""
    lines = [line.strip() for line in str(e).splitlines()]
    why = next((line for line in lines if "abort" in line.lower()), lines[0])
    return re.sub(r"\d+", "N", why).split(". ")[0]


if __name__ == "__main__":
    sys.exit(main())
