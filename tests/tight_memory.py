"""Aggregates with executors of 512 MB, on stock Spark and with Saltwise, on more and more rows until one of them fails.

    python tests/tight_memory.py [--only NAME,...]

Each query runs in a Spark of its own (local-cluster, two executors of one core), the sides by turns. Prints a line for
each: a query, its size, a side, whether the plan was ours, how it ended, and the largest heap that was left after a full
garbage collection, of an executor and of the driver. Exits with 1 where Saltwise fails at a size that stock Spark can
do, or has more than 1.2 times its heap there.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import saltwise

SIDES = {
    "stock": {"spark.saltwise.mode": "off"},
    "auto": {"spark.saltwise.auto.smallInput": "0"},
    "split": {"spark.saltwise.strategy": "split"},
    "dchoices": {"spark.saltwise.strategy": "dchoices"},
}
OURS = ("Combine [", "SkewSplit", "SkewRoute")
"""Parts of our plans."""
TIMEOUT_SECONDS = 900
MEMORY = "512m"
MOST = 1.2
"""A heap may be so many times stock's, and not less than SMALL more."""
SMALL = 16.0
"""Megabytes that no garbage collector tells apart."""
_LEFT = re.compile(r"Pause Full.*?\d+M->(\d+)M\(")


@dataclass(frozen=True)
class Case:
    """A query of some size."""

    sql: Callable[[int], str]
    sizes: list[int]
    conf: Callable[[int], dict[str, str]] = lambda size: {}
    routed: bool = False
    """Whether it also runs by a strategy that routes rows."""

    def sides(self) -> list[str]:
        return [side for side in SIDES if self.routed or side != "dchoices"]


def rows(size: int, tasks: int = 8) -> str:
    return f"range(0, {size}, 1, {tasks})"


def hot(size: int, value: str) -> str:
    return f"(SELECT if(id % 2 = 0, 0, id % 1000) AS k, {value} AS v, id FROM {rows(size)})"


def partitions(size: int) -> dict[str, str]:
    # AQE would make a few of them, before their metadata grows.
    return {"spark.sql.shuffle.partitions": str(size), "spark.sql.adaptive.coalescePartitions.enabled": "false"}


MILLIONS = [1_000_000 * 4**i for i in range(4)]
CASES = {
    "lists": Case(lambda n: f"SELECT k, size(collect_list(v)) FROM {hot(n, 'id')} GROUP BY k", MILLIONS, routed=True),
    "strings": Case(
        lambda n: f"SELECT k, size(collect_list(v)) FROM {hot(n, 'sha2(string(id), 256)')} GROUP BY k",
        [n // 4 for n in MILLIONS],
    ),
    "sets": Case(
        lambda n: f"SELECT k, size(collect_set(v)) FROM {hot(n, 'id')} GROUP BY k", [n // 4 for n in MILLIONS]
    ),
    "medians": Case(lambda n: f"SELECT k, median(v) FROM {hot(n, 'id / 7.0D')} GROUP BY k", MILLIONS),
    "wide rows": Case(
        lambda n: (
            "SELECT k, max_by(v, id) FROM "
            + hot(n, f"struct({', '.join(f'sha2(string(id + {i}), 512) AS c{i}' for i in range(60))})")
            + " GROUP BY k"
        ),
        [25_000 * 4**i for i in range(4)],
    ),
    "sketches of 100 KB": Case(
        lambda n: f"SELECT id % {n} AS k, count_min_sketch(id, 0.001D, 0.99D, 7) FROM {rows(20 * n)} GROUP BY 1",
        [250 * 4**i for i in range(4)],
    ),
    "keys": Case(
        lambda n: (
            f"SELECT id * 7919 % {n} AS k, collect_list(id), percentile_approx(id, 0.5) FROM {rows(2 * n)} GROUP BY 1"
        ),
        [n // 4 for n in MILLIONS],
    ),
    "shuffle partitions": Case(
        lambda n: f"SELECT id % 50000 AS k, collect_list(id) FROM {rows(400_000)} GROUP BY 1",
        [1_000, 10_000, 100_000],
        partitions,
    ),
    "map tasks, and as many partitions": Case(
        lambda n: f"SELECT id % 50000 AS k, collect_list(id) FROM {rows(400_000, n)} GROUP BY 1",
        [1_000, 10_000],
        partitions,
        routed=True,
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(CASES))
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(asdict(run(given.one[0], int(given.one[1]), given.one[2]))))
        return 0
    found: list[End] = []
    for name in given.only:
        for size in CASES[name].sizes:
            ends = [child(name, size, side) for side in CASES[name].sides()]
            found += ends
            for end in ends:
                print(json.dumps(asdict(end)), flush=True)
            if all(end.how != "finished" for end in ends):
                break
    worse = [sentence for end in found for sentence in [judged(end, found)] if sentence]
    print(*worse, sep="\n", file=sys.stderr)
    return int(bool(worse))


@dataclass(frozen=True)
class End:
    """How a query ended."""

    query: str
    size: int
    side: str
    how: str
    """finished, or why not."""
    seconds: float
    executor_mb: int = 0
    """The largest heap after a full garbage collection; 0 where there was none."""
    driver_mb: int = 0
    ours: bool = False
    """Whether the plan has a part of ours."""
    spark: str = ""


def run(name: str, size: int, side: str) -> End:
    """Run a query in a Spark of its own."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    case = CASES[name]
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder)
        builder = SparkSession.builder.master("local-cluster[2,1,512]").config("spark.executor.memory", MEMORY)
        options = {
            "spark.driver.memory": "1g",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.task.maxFailures": "2",
            "spark.sql.shuffle.partitions": "4",
            "spark.driver.extraJavaOptions": gc_log(logs / "driver.log"),
            "spark.executor.extraJavaOptions": gc_log(logs / "executor-%p.log"),
            **case.conf(size),
            **SIDES[side],
        }
        for key, value in options.items():
            builder = builder.config(key, value)
        spark = saltwise.configure(builder).getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        begun = time.perf_counter()
        ours = False
        try:
            query = spark.sql(case.sql(size))
            plan = str(query._jdf.queryExecution().executedPlan())
            ours = any(name in plan for name in OURS)
            query.write.format("noop").mode("overwrite").save()
            how = "finished"
        except PySparkException as error:
            how = reason(error)
        except Exception as error:  # Py4JJavaError: Spark aborts the job without an error class
            if type(error).__name__ != "Py4JJavaError":
                raise
            how = reason(error)
        seconds = time.perf_counter() - begun
        version = spark.version
        spark.stop()
        executors = max((left(log) for log in logs.glob("executor-*.log")), default=0)
        return End(name, size, side, how, round(seconds, 1), executors, left(logs / "driver.log"), ours, version)


def gc_log(path: Path) -> str:
    return f"-XX:+UseSerialGC -Xlog:gc:file={path}"


def left(log: Path) -> int:
    """The largest heap that was left after a full collection; 0 where there was none: others leave garbage."""
    found = _LEFT.findall(log.read_text()) if log.exists() else []
    return max(map(int, found), default=0)


def reason(error: BaseException) -> str:
    text = str(error)
    known = ("OutOfMemoryError", "SparkOutOfMemoryError", "ExecutorLostFailure", "heartbeat")
    return "failed: " + next((each for each in known if each in text), text.splitlines()[0][:80])


def child(name: str, size: int, side: str) -> End:
    command = [sys.executable, __file__, "--one", name, str(size), side]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            out, _ = process.communicate(timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # its JVMs too
            return End(name, size, side, "failed: hung", TIMEOUT_SECONDS)
    if process.returncode:
        return End(name, size, side, f"failed: the driver ended with {process.returncode}", 0.0)
    return End(**json.loads(out.splitlines()[-1]))


def judged(end: End, found: list[End]) -> str:
    """Say how a side is worse than stock Spark; empty if it is not."""
    [stock] = [each for each in found if (each.query, each.size, each.side) == (end.query, end.size, "stock")]
    if stock.how != "finished":
        return ""
    if end.how != "finished":
        return f"{end.query}, {end.size:,}: {end.side} {end.how}, and stock Spark finished."
    for what in ("executor_mb", "driver_mb"):
        ours, theirs = getattr(end, what), getattr(stock, what)
        # Without a full collection nobody knows what was garbage.
        if min(ours, theirs) > 0 and ours > max(MOST * theirs, theirs + SMALL):
            return f"{end.query}, {end.size:,}: {end.side} has {what} {ours}, and stock Spark {theirs}."
    return ""


if __name__ == "__main__":
    sys.exit(main())
