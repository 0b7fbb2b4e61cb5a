"""Loses executors, files and tasks in the middle of rewritten aggregates, and says how each query ended.

    python tests/fire/retry.py --runs 10 [--strategies auto,pkg,...] [--aggregates counts,objects] [--lose reduce] [--stock]
    python tests/fire/retry.py --plan --out build/losses.jsonl

Two executors of one core each. The rows come out of a shuffle, so a map task that runs again
reads them in another order. What is lost:

* map: a task that sends rows to the GROUP BY kills its executor.
* reduce: a task of the last stage kills its executor, which has shuffle files of all stages.
* slices: an executor is killed while partitions are read in slices.
* workers: an executor is killed while the workers to which rows were routed make states of them.
* replan: an executor is killed when the stage that sends rows to the GROUP BY has ended, and AQE plans the rest again.
* cache: as reduce, over rows that were in the executor's memory.
* files: a task of the last stage deletes the shuffle files of its executor, which lives on.
* disk: a task of the last stage lets its executor write no file for some seconds. A limit on the size of files does it
  (RLIMIT_FSIZE), so a write fails with "File too large", where a disk that is full says "No space left on device".
* twice: a task of the last stage waits until Spark runs a copy beside it (speculation).
* leaves: the executor of a task that sends rows to the GROUP BY is decommissioned, and goes before this stage ends.

A task may fail 200 times and a stage be tried 20 times in a row, where Spark's defaults are 4 and 4: what is asked is
whether the rows are right, and not how often Spark tries.

Each line that it prints is a run: how it ended, what of ours was in its plan, and what Spark's event log tells of it.
Where the log does not show the loss, the run is made again, a few times. With --stock, stock Spark runs the same query
with the same loss beside each of ours. --plan does so with each strategy and each loss, and more than a hundred
executors of ours are killed. With --out, the lines are also appended to a file, and what it has of this Spark and this
jar does not run again, unless nothing was lost.

Exits with 1, and says why, if

* an answer was wrong, ours or stock Spark's,
* one of ours was aborted, and not since rows may differ when they are computed again, or things were lost too often,
* ours were aborted more often than stock Spark's (`more_often`): all together, those of a strategy, or of a kind,
* one of ours was not rewritten, or, in slices, no partition was sliced,
* in some run nothing was lost.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from importlib import import_module
from itertools import product
from math import comb
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple, TextIO

import pandas as pd
import pyarrow as pa
import pyspark
from cluster import free_port, wait_for  # type: ignore[import-not-found]
from executors import JVM_OPTIONS, jvms, kill_one  # type: ignore[import-not-found]
from plan_parts import PLANS, WINDOW_PLANS  # type: ignore[import-not-found]
from pyspark import StorageLevel, TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf
from rich.console import Console
from rich.progress import track

import saltwise
from saltwise import skew_groupby
from saltwise._java import ensure_java

ROWS = 200_000
KEYS = 500
STRATEGIES = "auto,split,local,offgreedy,hash,shuffle,pkg,dchoices,wchoices,roundrobin,hot,hot-keys-only"
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
KINDS = list(AGGREGATES)[2:]
"""Those of --plan."""
WINDOWS = {
    "window in order": ["rank() OVER (PARTITION BY k ORDER BY v)", "sum(v) OVER (PARTITION BY k ORDER BY v)"],
    "window of near rows": ["lag(v) OVER (PARTITION BY k ORDER BY v)"],
    "window of totals": ["count(*) OVER (PARTITION BY k)", "max(v) OVER (PARTITION BY k)"],
    "window above another": [
        "row_number() OVER (PARTITION BY k ORDER BY v)",
        "sum(w0) OVER (PARTITION BY k ORDER BY v ROWS UNBOUNDED PRECEDING)",
    ],
}
"""In place of aggregates: windows, whose hot key runs in slices. Only `auto` has them, with AQE."""
NO_AGGREGATOR = ("split", "offgreedy", "hot", "hot-keys-only")
"""Strategies that an Aggregator refuses."""
GENERATED = ("count", "sum(double)")
"""Kinds that Spark generates code for, so auto leaves them alone."""
KILLS = ("map", "reduce", "slices", "workers", "replan", "cache")
"""Losses in which an executor is killed."""
LOSSES = (*KILLS, "files", "disk", "twice", "leaves")
BELOW = ("map", "leaves")
"""Losses by a task that sends rows to the GROUP BY."""
PROOFS = {
    **dict.fromkeys((*KILLS, "leaves"), ("ExecutorLostFailure", "FetchFailed", "Resubmitted")),
    "files": ("FetchFailed",),
    "disk": ("File too large",),
    "twice": ("Speculative",),
}
"""What the event log has, of all that `seen_in` counts, where something was lost: one of these."""
NAMES = {name: text for name, text in (PLANS | WINDOW_PLANS).items() if name != "left alone"} | {
    "Aggregator": "MapInArrow combine_rows("
}
"""How a plan shows what of ours is in it."""
HOSTS = ("127.0.0.1", "127.0.0.2")
TRIES = 3
KILLS_OF_A_STRATEGY = 9
"""So many executors of ours are killed in --plan for each strategy."""
SLOW_SECONDS = 3
"""A task that runs so long gets a copy."""
PATIENCE_SECONDS = 20
"""A task waits at most so long for what the driver does."""
DISK_SECONDS = 3
INDETERMINATE = ("indeterminate", "rollback", "ensure data correctness")
"""Words of Spark, where it ends a job since rows may differ when they are computed again."""
LOST_TOO_OFTEN = re.compile(
    r"maximum allowable|failed N times, most recent failure: .*(ExecutorLostFailure|FetchFailed|File too large)"
)
"""Words of Spark, where it ends a job since stages or tasks were lost too often."""
SIGNIFICANT = 0.05


class Trial(NamedTuple):
    """A query, and what is lost in it."""

    side: str
    """ours or stock: the query as Saltwise or as Spark plans it."""
    strategy: str
    """Of ours. Stock Spark gets the same rows, and loses the same."""
    aggregates: str
    lost: str
    run: int
    """Odd with AQE. Of four, the first two shuffle the result once more: the last stage of the GROUP BY is not the
    last one of the job."""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--strategies", default=STRATEGIES)
    parser.add_argument("--aggregates", default="counts", help=", ".join([*AGGREGATES, *WINDOWS]))
    parser.add_argument("--lose", default="reduce", help=", ".join(LOSSES))
    parser.add_argument("--stock", action="store_true")
    parser.add_argument("--plan", action="store_true")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_SUBMIT_OPTS", JVM_OPTIONS)
    os.environ["SPARK_LOCAL_IP"] = HOSTS[0]
    ensure_java()
    names = (each.split(",") for each in (given.strategies, given.aggregates, given.lose))
    ours = planned() if given.plan else [Trial("ours", *each) for each in product(*names, range(given.runs))]
    sides = ("ours", "stock") if given.plan or given.stock else ("ours",)
    wanted = [trial._replace(side=side) for trial in ours for side in sides]
    lines = lines_of(wanted, given.out)
    complaints = complaints_about(lines)
    print(*complaints, sep="\n", file=sys.stderr)
    return int(bool(complaints))


def lines_of(wanted: list[Trial], out: Path | None) -> list[dict[str, Any]]:
    """Return the line of each trial: of those in a file, and of the others when they have run."""
    spark_and_jar = {"spark": pyspark.__version__, "package": package()}
    lines = lines_before(out, spark_and_jar) if out else {}
    left = [trial for trial in wanted if trial not in lines]
    if left:
        with started(with_users_jar=any(trial.aggregates == "typed" for trial in left)) as (spark, events):
            for trial in track(left, console=Console(stderr=True), disable=not sys.stderr.isatty()):
                lines[trial] = trial._asdict() | spark_and_jar | run(spark, events, trial)
                text = json.dumps(lines[trial])
                print(text, flush=True)
                if out:
                    with out.open("a", encoding="utf-8") as file:
                        file.write(text + "\n")
    return [lines[trial] for trial in wanted]


def lines_before(path: Path, spark_and_jar: dict[str, str]) -> dict[Trial, dict[str, Any]]:
    """Return the lines of a file that were made with this Spark and this jar, and in which something was lost."""
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines()) if path.exists() else []
    return {
        Trial(*(line[name] for name in Trial._fields)): line
        for line in lines
        if spark_and_jar.items() <= line.items() and line["end"] != "nothing was lost"
    }


def package() -> str:
    """Return the version of Saltwise, and a checksum of its jar."""
    return f"{saltwise.__version__} {hashlib.sha256(saltwise.jar_path().read_bytes()).hexdigest()[:8]}"


def planned() -> list[Trial]:
    """Return the runs of ours of --plan: of each strategy each loss, and each kind of aggregate that it rewrites."""
    ours = []
    for p, strategy in enumerate(STRATEGIES.split(",")):
        kills = [lost for lost in KILLS if can_lose(strategy, lost)]
        used = dict.fromkeys([*KINDS[p % len(KINDS) :], *KINDS[: p % len(KINDS)]], 0)
        losses = [*(kills[i % len(kills)] for i in range(KILLS_OF_A_STRATEGY)), *LOSSES[len(KILLS) :]]
        for i, lost in enumerate(losses):
            kind = min((kind for kind in used if rewrites(strategy, kind, lost)), key=used.__getitem__)
            used[kind] += 1
            shapes = shapes_of(lost)
            ours.append(Trial("ours", strategy, kind, lost, 4 * i + shapes[(p + i // len(kills)) % len(shapes)]))
    return ours


def can_lose(strategy: str, lost: str) -> bool:
    """Whether a plan has what is lost."""
    if lost == "slices":
        return strategy in ("auto", "split")
    return lost != "workers" or strategy not in ("auto", "split", "local", "offgreedy")


def rewrites(strategy: str, kind: str, lost: str) -> bool:
    """Whether a strategy rewrites an aggregate, in slices if these are lost."""
    if strategy == "hot-keys-only":
        return kind == "count"
    if strategy == "auto":
        # States of other kinds are small, so there is nothing to slice.
        return kind == "percentile_approx" if lost == "slices" else kind not in GENERATED
    return kind != "python" or strategy not in NO_AGGREGATOR


def shapes_of(lost: str) -> list[int]:
    """Return the numbers of runs, of the first four, that can lose it."""
    if lost in ("slices", "replan"):
        return [1, 3]  # without AQE there is neither
    return [0, 1] if lost == "disk" else [0, 1, 2, 3]  # the last stage of a job writes no file


@contextmanager
def started(with_users_jar: bool) -> Iterator[tuple[SparkSession, TextIO]]:
    """Start Spark; yield it, and its event log."""
    with tempfile.TemporaryDirectory() as folder, workers(Path(folder)) as master:
        log = Path(folder, "log")
        log.mkdir()
        builder = (
            SparkSession.builder.master(master)
            .config("spark.driver.host", HOSTS[0])
            # Executors start again and again, with the options that the tests start their other JVMs with.
            .config("spark.executor.extraJavaOptions", os.environ["SPARK_SUBMIT_OPTS"])
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.eventLog.enabled", "true")
            .config("spark.eventLog.dir", log.as_uri())
            .config("spark.eventLog.rolling.enabled", "false")
            .config("spark.eventLog.compress", "false")
            .config("spark.sql.shuffle.partitions", "6")
            .config("spark.executor.heartbeatInterval", "2s")
            # On a busy machine a dead executor is found out only after several fetches, which must not end the job.
            .config("spark.stage.maxConsecutiveAttempts", "20")
            # A task fails again and again while the disk is full.
            .config("spark.task.maxFailures", "200")
            .config("spark.shuffle.io.maxRetries", "1")
            .config("spark.shuffle.io.retryWait", "100ms")
            .config("spark.saltwise.auto.smallInput", "0")
            # Six tasks in the last stage, of which the third loses something.
            .config("spark.sql.adaptive.coalescePartitions.enabled", "false")
            .config("spark.speculation", "true")
            .config("spark.speculation.quantile", "0.3")
            .config("spark.speculation.multiplier", "1.5")
            .config("spark.speculation.minTaskRuntime", f"{SLOW_SECONDS}s")
            .config("spark.decommission.enabled", "true")
        )
        if with_users_jar:
            builder = builder.config("spark.jars", users_jar())
        spark = saltwise.configure(builder).getOrCreate()
        if with_users_jar:
            spark._jvm.saltwise.benchmarks.UserAggregates.register(spark._jsparkSession)  # type: ignore[union-attr]
        spark.sparkContext.setLogLevel("OFF")
        [file] = log.iterdir()
        with file.open(encoding="utf-8") as events:
            yield spark, events
        spark.stop()


@contextmanager
def workers(folder: Path) -> Iterator[str]:
    """Start a master and two workers of Spark; yield the master's address.

    To Spark the workers are two hosts: it runs no copy of a task on the host of the task.
    """
    port = free_port()
    master = f"spark://{HOSTS[0]}:{port}"
    shared = os.environ | {
        "SPARK_DAEMON_JAVA_OPTS": os.environ["SPARK_SUBMIT_OPTS"],
        "SPARK_MASTER_OPTS": "-Dspark.deploy.maxExecutorRetries=-1",
    }

    def start(name: str, host: str, *arguments: object) -> None:
        program = Path(pyspark.__file__).parent / "bin" / "spark-class"
        command = [program, f"org.apache.spark.deploy.{name}", "--host", host, "--webui-port", 0, *arguments]
        environment = shared | {"SPARK_LOCAL_IP": host}
        process = subprocess.Popen([str(part) for part in command], env=environment, stdout=log, stderr=log)
        after.callback(process.wait)
        after.callback(process.terminate)

    with ExitStack() as after, Path(folder, "servers.log").open("w") as log:
        start("master.Master", HOSTS[0], "--port", port)
        wait_for(port)
        for i, host in enumerate(HOSTS):
            start("worker.Worker", host, "--cores", 1, "--memory", "1g", "--work-dir", folder / f"worker-{i}", master)
        yield master


def users_jar() -> str:
    """Return the jar of the benchmarks' aggregates in Scala."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    common = import_module("common")
    return str(common.users_jar())


def run(spark: SparkSession, events: TextIO, trial: Trial) -> dict[str, Any]:
    """Run a query and lose something in it, again where nothing was lost; return what its line has beside the trial.

    The end is "right", "wrong", "nothing was lost", or what `how_aborted` returns.
    """
    begun = time.perf_counter()
    line: dict[str, Any] = {}
    for tries in range(1, TRIES + 1):
        wait_for_executors(spark)
        events.read()
        end, why, plan = end_of(spark, trial)
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        seen = seen_in(events)
        lost = end != "right" or any(seen[proof] for proof in PROOFS[trial.lost])
        line = {"end": end if lost else "nothing was lost", "why": why, "plan": plan, "seen": seen, "tries": tries}
        if lost:
            break
    return line | {"seconds": round(time.perf_counter() - begun, 1)}


def wait_for_executors(spark: SparkSession) -> None:
    """Wait until both executors are there, and the driver knows them."""
    while len(jvms(spark)) < 2 or spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() < 3:
        time.sleep(0.1)


def seen_in(events: Iterable[str]) -> Counter[str]:
    """Count what an event log tells of a query: executors that went, copies of tasks, and why tasks failed."""
    seen: Counter[str] = Counter()
    lines = list(events)
    jobs = [i for i, line in enumerate(lines) if line.startswith('{"Event":"SparkListenerJob')]
    for line in lines[min(jobs, default=0) : max(jobs, default=0)]:
        event = json.loads(line)
        if event["Event"] == "SparkListenerExecutorRemoved":
            seen["ExecutorRemoved"] += 1
        elif event["Event"] == "SparkListenerTaskStart":
            seen["Speculative"] += event["Task Info"]["Speculative"]
        elif event["Event"] == "SparkListenerTaskEnd":
            reason = event["Task End Reason"]
            seen[reason["Reason"]] += reason["Reason"] != "Success"
            seen["File too large"] += "File too large" in reason.get("Description", "")
    return +seen


def end_of(spark: SparkSession, trial: Trial) -> tuple[str, str, str]:
    """Run a query and lose something in it; return how it ended, why Spark aborted it, and what of ours was in its plan."""
    _, name, kind, lost, i = trial
    stock = trial.side == "stock"
    adaptive = i % 2 or name == "split" or kind in WINDOWS
    spark.conf.set("spark.sql.adaptive.enabled", "true" if adaptive else "false")
    few = 1 if name == "hot-keys-only" else None
    right = expected(spark, kind, few)
    exact = name.startswith("hot")
    strategy: Any = "dchoices" if exact else name
    hot: Any = {0: 0.6} if exact else None
    with tempfile.TemporaryDirectory() as folder, ExitStack() as after:
        marker = Path(folder, "lost")
        # A pass over the keys reads the rows before offgreedy sends them.
        passes = name == "offgreedy" and not stock
        losing = lose_in(2 if passes and lost in BELOW else 1, marker, lost)
        # Of hot-keys-only nothing but the key travels.
        rows = skewed_rows(spark).repartition(6, F.col("k") % 97 if name == "hot-keys-only" else "v")
        if lost == "cache":
            rows.persist(StorageLevel.MEMORY_ONLY).count()
            after.callback(rows.unpersist)
        below = rows.withColumn("k", through(losing)("k")) if lost in BELOW else rows
        if kind in WINDOWS:
            # Two cores leave windows above windows alone.
            for conf, value in (("saltwise.enabled", str(not stock).lower()), ("sql.leafNodeDefaultParallelism", "3")):
                spark.conf.set(f"spark.{conf}", value)
                after.callback(spark.conf.unset, f"spark.{conf}")
            skewed = with_windows(below, kind)
        else:
            grouped: Any = (
                below.groupBy("k") if stock else skew_groupby(below, "k", strategy=strategy, partitions=7, hot=hot)
            )
            skewed = grouped.agg(*calls(kind, stock)[:few])
        by_driver = lost in ("slices", "workers", "replan")
        doomed = skewed if by_driver or lost in BELOW else skewed.mapInPandas(losing, skewed.schema)
        query = doomed if i % 4 >= 2 else doomed.repartition(3, "k")
        query = summed(query) if kind in WINDOWS else query
        if lost in BESIDE:
            running = Running(spark, marker, 3 if passes else 1, random.Random(i), Event())
            after.enter_context(beside(BESIDE[lost], running))
        why = ""
        try:
            end = "right" if sorted(map(tuple, query.collect())) == right else "wrong"
        except Exception as e:
            # Spark aborts a job without an error class, too.
            if not isinstance(e, PySparkException) and type(e).__name__ != "Py4JJavaError":
                raise
            why = message(e)
            end = how_aborted(why)
    return end, why, plan_of(query)


def plan_of(query: DataFrame) -> str:
    """Name what of ours is in the plan of a query that has run."""
    plan = query._jdf.queryExecution().executedPlan().toString()
    names = [name for name, text in NAMES.items() if text in plan]
    # auto without AQE, where Spark compares rows that run again: rows travel as they are, and there are no states.
    return ", ".join(names) or ("" if "partial_" in plan else "one phase")


def complaints_about(lines: list[dict[str, Any]]) -> list[str]:
    """Return a sentence for each way in which runs ended as they must not."""
    ours = [line for line in lines if line["side"] == "ours"]
    stock = {pair_of(line): line for line in lines if line["side"] == "stock"}
    found = {
        "wrong": [line for line in lines if line["end"] == "wrong"],
        "aborted, and not as Spark aborts its own": [line for line in ours if line["end"] == "aborted: otherwise"],
        "not rewritten": [
            line for line in ours if not line["plan"] or (line["lost"] == "slices" and "Sliced" not in line["plan"])
        ],
        "without a loss: run them again": [line for line in lines if line["end"] == "nothing was lost"],
    }
    said = [f"{len(runs)} {what}: {[*map(pair_of, runs)]}" for what, runs in found.items() if runs]
    alone: dict[str, Counter[str]] = defaultdict(Counter)
    for line in ours:
        other = stock.get(pair_of(line), line)
        if is_aborted(line) != is_aborted(other):
            for group in ("all", line["strategy"], line["aggregates"]):
                alone[group]["ours" if is_aborted(line) else "stock"] += 1
    return said + [
        f"{group}: {counts['ours']} were aborted in ours alone, and {counts['stock']} in stock Spark alone"
        for group, counts in alone.items()
        if more_often(counts["ours"], counts["stock"])
    ]


def pair_of(line: dict[str, Any]) -> tuple[object, ...]:
    """Return what a run of ours and one of stock Spark have in common."""
    return tuple(line[name] for name in Trial._fields[1:])


def is_aborted(line: dict[str, Any]) -> bool:
    return str(line["end"]).startswith("aborted")


def more_often(ours: int, stock: int) -> bool:
    """Whether ours is aborted more often, where so many pairs were aborted in ours alone, and in stock Spark alone.

    If both were aborted as often, such a pair would fall to either side as a coin does. Ours is aborted more often if
    the coin would fall to its side so many times less than once in 20 (the sign test).
    """
    pairs = ours + stock
    return sum(comb(pairs, i) for i in range(ours, pairs + 1)) < SIGNIFICANT * 2.0**pairs


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


def lose_in(number: int, marker: Path, lost: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Hand batches on; the run of task 2 that has this number, from 1, loses something."""
    runs, told = marker.with_name("runs"), marker.with_name("told")

    def lose(batches: Iterator[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == 2:
            with runs.open("a") as file:
                file.write(".")
                file.flush()
                loses = file.tell() == number
            if loses:
                jvm = executor_jvm()
                if lost == "files":
                    for each in shuffle_files(jvm):
                        each.unlink(missing_ok=True)
                elif lost == "twice":
                    wait_in_task(lambda: runs.stat().st_size > number)
                elif lost == "leaves":
                    marker.write_text(str(jvm))
                    wait_in_task(told.exists)
                elif lost == "disk":
                    _, hard = resource.prlimit(jvm, resource.RLIMIT_FSIZE)
                    resource.prlimit(jvm, resource.RLIMIT_FSIZE, (0, hard))
                    marker.write_text(str(jvm))
                else:
                    os.kill(jvm, 9)
        elif lost == "leaves" and context.partitionId() == 5 and marker.exists():
            # So the executor has gone before the stage ends.
            leaving = int(marker.read_text())
            wait_in_task(lambda: executor_jvm() == leaving or not Path(f"/proc/{leaving}").exists())
        yield from batches

    return lose


def wait_in_task(over: Callable[[], bool]) -> None:
    """Wait until something is so, but not for ever."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not over() and time.monotonic() < until:
        time.sleep(0.01)


def through(losing: Callable[[Iterator[Any]], Iterator[Any]]) -> Callable[[str], Column]:
    """Return a column as it is, by a function in Python that Spark knows to return the same in a second run."""

    def same(column: Iterator[pd.Series]) -> Iterator[pd.Series]:
        return losing(column)

    return pandas_udf(same, "bigint")  # type: ignore[call-overload,no-any-return]


def shuffle_files(jvm: int) -> list[Path]:
    """The shuffle files of an executor, in the folders that its environment names."""
    environment = Path(f"/proc/{jvm}/environ").read_bytes().split(b"\0")
    [folders] = [each.split(b"=", 1)[1].decode() for each in environment if each.startswith(b"SPARK_EXECUTOR_DIRS=")]
    return [file for folder in folders.split(os.pathsep) for file in Path(folder).rglob("shuffle_*")]


class Running(NamedTuple):
    """A query that runs, seen from the driver."""

    spark: SparkSession
    marker: Path
    """Where a task writes the process of its executor."""
    sender: int
    """The number of the stage that sends rows to the GROUP BY, from 0, of those that run."""
    rng: random.Random
    over: Event


@contextmanager
def beside(lose: Callable[[Running], None], query: Running) -> Iterator[None]:
    """Lose something in another thread while a query runs."""
    thread = Thread(target=lose, args=(query,))
    thread.start()
    try:
        yield
    finally:
        query.over.set()
        thread.join()


def jvm_of(query: Running) -> int | None:
    """Wait for the executor's JVM that a task writes into the marker; None if the query ends before."""
    while not (query.marker.exists() and (jvm := query.marker.read_text())):
        if query.over.wait(0.1):
            return None
    return int(jvm)


def decommission(query: Running) -> None:
    """Send the executor away."""
    jvm = jvm_of(query)
    if jvm is None:
        return
    command = Path(f"/proc/{jvm}/cmdline").read_bytes().split(b"\0")
    executor = command[command.index(b"--executor-id") + 1].decode()
    java = query.spark.sparkContext._jvm
    assert java is not None
    info = java.org.apache.spark.scheduler.ExecutorDecommissionInfo("a test", java.scala.Option.empty())
    # False: another executor comes in its place.
    query.spark.sparkContext._jsc.sc().schedulerBackend().decommissionExecutor(executor, info, False, False)
    query.marker.with_name("told").touch()


def free_disk(query: Running) -> None:
    """Let the executor write files again, after some seconds."""
    jvm = jvm_of(query)
    if jvm is None:
        return
    time.sleep(DISK_SECONDS)
    with suppress(ProcessLookupError):
        _, hard = resource.prlimit(jvm, resource.RLIMIT_FSIZE)
        resource.prlimit(jvm, resource.RLIMIT_FSIZE, (hard, hard))


def kill_behind(query: Running) -> None:
    """Kill an executor in the stage behind the one that sends rows, when a task of it is done or all of them run."""
    tracker = query.spark.sparkContext.statusTracker()

    def is_busy(seen: list[int], active: list[int]) -> bool:
        stage = tracker.getStageInfo(seen[query.sender + 1]) if len(seen) > query.sender + 1 else None
        return stage is not None and (stage.numCompletedTasks > 0 or stage.numActiveTasks == stage.numTasks)

    kill_when(query, is_busy)


def kill_at_replan(query: Running) -> None:
    """Kill an executor when the stage that sends rows has ended."""
    kill_when(query, lambda seen, active: len(seen) > query.sender and seen[query.sender] not in active)


def kill_when(query: Running, now: Callable[[list[int], list[int]], bool]) -> None:
    """Kill an executor as soon as `now` says so of the stages that have run, in order, and of those that run."""
    tracker = query.spark.sparkContext.statusTracker()
    seen: dict[int, None] = {}
    while not query.over.wait(0.005):
        active = sorted(tracker.getActiveStageIds())
        seen |= dict.fromkeys(active)
        if now([*seen], active):
            kill_one(query.spark, query.rng)
            return


BESIDE: dict[str, Callable[[Running], None]] = {
    "slices": kill_behind,
    "workers": kill_behind,
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


def with_windows(rows: DataFrame, kind: str) -> DataFrame:
    found = rows.select("k", "v")
    for i, call in enumerate(WINDOWS[kind]):
        found = found.withColumn(f"w{i}", F.expr(call))
    return found


def summed(rows: DataFrame) -> DataFrame:
    """Put rows into one that differs if one of them differs."""
    return rows.agg(F.count("*"), F.sum(F.xxhash64(*rows.columns).cast("decimal(38,0)")))


@cache
def expected(spark: SparkSession, kind: str, few: int | None) -> list[tuple[Any, ...]]:
    """Return Spark's own answer, of a query in which nothing is lost."""
    rows = skewed_rows(spark)
    if kind in WINDOWS:
        return [*map(tuple, summed(with_windows(rows, kind)).collect())]
    return sorted(map(tuple, rows.groupBy("k").agg(*map(F.expr, AGGREGATES[kind][:few])).collect()))


def message(e: BaseException) -> str:
    """The sentence in which Spark says why it aborted, without its numbers and places."""
    lines = [line.strip() for line in str(e).splitlines()]
    why = next((line for line in lines if "abort" in line.lower()), lines[0])
    why = re.sub(r" \(\w+ at [^)]*\)", "", why.removeprefix(": org.apache.spark.SparkException: "))
    return re.sub(r"\d+", "N", why).split(". ")[0]


def how_aborted(why: str) -> str:
    """Return the kind of an abort, by Spark's message."""
    if any(words in why for words in INDETERMINATE):
        return "aborted: indeterminate"
    return "aborted: lost too often" if LOST_TOO_OFTEN.search(why) else "aborted: otherwise"


if __name__ == "__main__":
    sys.exit(main())
