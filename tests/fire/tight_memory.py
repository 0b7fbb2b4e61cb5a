"""Aggregates with executors of 512 MB, on stock Spark and with Saltwise, on more and more rows until one of them fails.

    python tests/fire/tight_memory.py [--only NAME,...]

Each query runs in a Spark of its own (local-cluster, two executors of one core), the sides by turns. A side that fails
runs once more, half way between that size and the last one that it could do. Prints a line for each: a query, its size, a
side, whether the plan was ours, how it ended, and the most that the heap of an executor and of the driver ever held. Exits
with 1 where Saltwise fails at a size that stock Spark can do, has more than 1.2 times its heap there, or did not plan the
query.
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
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from math import isqrt
from pathlib import Path
from typing import Any

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import saltwise

SIDES = {
    "stock": {"spark.saltwise.mode": "off"},
    "auto": {"spark.saltwise.mode": "on", "spark.saltwise.auto.smallInput": "0"},
    "split": {"spark.saltwise.mode": "on", "spark.saltwise.strategy": "split"},
    "dchoices": {"spark.saltwise.mode": "on", "spark.saltwise.strategy": "dchoices"},
}
OURS = ("Combine [", "SkewSplit", "SkewRoute", "SkewWindow")
"""Parts of our plans."""
FINISHED = "finished"
FOUND = "found.json"
"""Where a query's process writes how it ended."""
TIMEOUT_SECONDS = 1200
MOST_TASKS = 10_000
MEMORY = "512m"
HEAP = "-XX:+UseSerialGC -Xms32m -Xmn16m -XX:MinHeapFreeRatio=5 -XX:MaxHeapFreeRatio=10"
"""A heap that grows for what is in use, and 16 MB of new objects. Its peak is what was in use, and large buffers that were in
use a moment before. Any other heap grows with garbage, until it is full."""
MOST = 1.2
"""A heap may hold so many times what stock's holds."""
STUCK = 50
"""So many full collections in a row that leave FULL of a heap in use end a query. The JVM's parallel collector has a rule
like it (UseGCOverheadLimit: less than 2% recovered); this one would go on until the time is over."""
FULL = 0.98
_COLLECTED = re.compile(r"Pause (Young|Full).*?(\d+)M->(\d+)M\((\d+)M\)")


@dataclass(frozen=True)
class Case:
    """A query of some size."""

    sql: Callable[[int], str]
    sizes: list[int]
    conf: Callable[[int], dict[str, str]] = lambda size: {}
    routed: bool = False
    """Whether it also runs by a strategy that routes rows."""

    splits: bool = True
    """Whether `split` has a plan of its own for it."""

    def sides(self) -> list[str]:
        without = ["dchoices"] * (not self.routed) + ["split"] * (not self.splits)
        return [side for side in SIDES if side not in without]


def rows(size: int, tasks: int = 8) -> str:
    return f"range(0, {size}, 1, {tasks})"


def hot(size: int, value: str) -> str:
    return f"(SELECT if(id % 2 = 0, 0, id % 1000) AS k, {value} AS v, id FROM {rows(size)})"


def partitions(size: int) -> dict[str, str]:
    # AQE would make few tasks of them, so it does not. It may where 100,000 tasks would take half an hour.
    few = size > MOST_TASKS
    return {"spark.sql.shuffle.partitions": str(size), "spark.sql.adaptive.coalescePartitions.enabled": str(few)}


CASES = {
    "lists": Case(
        lambda n: f"SELECT k, size(collect_list(v)) FROM {hot(n, 'id')} GROUP BY k",
        [8_000_000, 32_000_000],
        routed=True,
    ),
    "strings": Case(
        lambda n: f"SELECT k, size(collect_list(v)) FROM {hot(n, 'sha2(string(id), 256)')} GROUP BY k",
        [2_000_000, 8_000_000],
    ),
    "sets": Case(lambda n: f"SELECT k, size(collect_set(v)) FROM {hot(n, 'id')} GROUP BY k", [2_000_000, 8_000_000]),
    "medians": Case(lambda n: f"SELECT k, median(v) FROM {hot(n, 'id / 7.0D')} GROUP BY k", [2_000_000, 4_000_000]),
    "wide rows": Case(
        lambda n: (
            "SELECT k, max_by(v, id) FROM "
            + hot(n, f"struct({', '.join(f'sha2(string(id + {i}), 512) AS c{i}' for i in range(60))})")
            + " GROUP BY k"
        ),
        [25_000, 100_000],
    ),
    "sketches of 100 KB": Case(
        lambda n: f"SELECT id % {n} AS k, count_min_sketch(id, 0.001D, 0.99D, 7) FROM {rows(20 * n)} GROUP BY 1",
        [250, 1_000],
    ),
    "keys": Case(
        lambda n: (
            f"SELECT id * 7919 % {n} AS k, collect_list(id), percentile_approx(id, 0.5) FROM {rows(2 * n)} GROUP BY 1"
        ),
        [1_000_000, 4_000_000],
    ),
    "windows over one key": Case(
        lambda n: (
            "SELECT count(*), max(r), max(s) FROM (SELECT row_number() OVER w AS r, sum(v) OVER w AS s "
            f"FROM (SELECT id % 1 AS k, id * 7919 % 1000003 AS v FROM {rows(n)}) WINDOW w AS (PARTITION BY k ORDER BY v))"
        ),
        [10_000_000, 100_000_000],
        splits=False,
    ),
    "shuffle partitions": Case(
        lambda n: f"SELECT id % 50000 AS k, collect_list(id) FROM {rows(400_000)} GROUP BY 1",
        [1_000, 10_000, 100_000],
        partitions,
    ),
    "map tasks and partitions": Case(
        lambda n: f"SELECT id % 50000 AS k, collect_list(id) FROM {rows(400_000, n)} GROUP BY 1",
        [1_000, 10_000],
        partitions,
        routed=True,
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(CASES))
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        name, size, side, logs = given.one
        found = Path(logs, "found.new")
        found.write_text(json.dumps(run(name, int(size), side, Path(logs))))
        found.rename(Path(logs, FOUND))
        return 0
    ends: list[End] = []
    for name in given.only:
        for end in tried(name):
            print(json.dumps(asdict(end)), flush=True)
            ends.append(end)
    worse = [sentence for end in ends for sentence in [judged(end, ends)] if sentence]
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
    executor_mb: int
    """The most that the heap of an executor held."""
    driver_mb: int
    ours: bool = False
    """Whether the plan has a part of ours. A query that was not done does not tell."""
    spark: str = pyspark.__version__


def tried(name: str) -> Iterator[End]:
    """Run a query on more and more rows, each side until it fails."""
    last = dict.fromkeys(CASES[name].sides(), 0)
    for size in CASES[name].sizes:
        for side, before in list(last.items()):
            end = child(name, size, side)
            yield end
            last[side] = size
            if end.how != FINISHED:
                del last[side]
                if before:
                    yield child(name, isqrt(before * size), side)


def run(name: str, size: int, side: str, logs: Path) -> dict[str, Any]:
    """Run a query in this process; return what it can tell of its end. Its Spark goes on: `child` ends it."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    case = CASES[name]
    builder = SparkSession.builder.master("local-cluster[2,1,512]").config("spark.executor.memory", MEMORY)
    options = {
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.task.maxFailures": "1",  # a second try may end well by chance
        "spark.sql.shuffle.partitions": "4",
        "spark.local.dir": str(logs),
        "spark.driver.extraJavaOptions": heap(logs / "driver.log"),
        "spark.executor.extraJavaOptions": heap(logs / "executor-%p.log"),
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
        how = FINISHED
    except PySparkException as error:
        how = reason(error)
    except Exception as error:  # Py4JJavaError: Spark aborts the job without an error class
        if type(error).__name__ != "Py4JJavaError":
            raise
        how = reason(error)
    return {"how": how, "seconds": round(time.perf_counter() - begun, 1), "ours": ours}


def heap(log: Path) -> str:
    return f"{HEAP} -Xlog:gc:file={log}"


def collections(log: Path) -> list[tuple[str, int, int, int]]:
    """Each collection's kind, and the MB that were in use before it and after it, and that there were."""
    found = _COLLECTED.findall(log.read_text() if log.exists() else "")
    return [(kind, int(before), int(after), int(heap)) for kind, before, after, heap in found]


def peak(log: Path) -> int:
    """The most that a heap held before a collection: it only grows between two of them."""
    return max((before for _, before, _, _ in collections(log)), default=0)


def is_stuck(log: Path) -> bool:
    last = collections(log)[-STUCK:]
    return len(last) == STUCK and all(kind == "Full" and after >= FULL * heap for kind, _, after, heap in last)


def reason(error: BaseException) -> str:
    text = " ".join(str(error).split())
    known = ("OutOfMemoryError", "ExecutorLostFailure", "heartbeat")
    return "failed: " + next((each for each in known if each in text), text[:250])


def child(name: str, size: int, side: str) -> End:
    """Run a query in a Spark of its own."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        logs = Path(folder)
        command = [sys.executable, __file__, "--one", name, str(size), side, folder]
        with subprocess.Popen(command, start_new_session=True) as process:
            try:
                found = waited(process, logs)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # its JVMs too
        executors = max(map(peak, logs.glob("executor-*.log")), default=0)
        return End(name, size, side, **found, executor_mb=executors, driver_mb=peak(logs / "driver.log"))


def waited(process: subprocess.Popen[bytes], logs: Path) -> dict[str, Any]:
    """Wait until a query ends, or will not."""
    begun = time.monotonic()
    while (seconds := round(time.monotonic() - begun, 1)) < TIMEOUT_SECONDS:
        ended = process.poll()
        if (logs / FOUND).exists():
            return dict(json.loads((logs / FOUND).read_text()))
        if ended is not None:
            return {"how": f"failed: the driver ended with {ended}", "seconds": seconds}
        if any(map(is_stuck, logs.glob("*.log"))):
            return {"how": "failed: a full heap", "seconds": seconds}
        time.sleep(0.5)
    return {"how": f"not done in {TIMEOUT_SECONDS} s", "seconds": TIMEOUT_SECONDS}


def judged(end: End, found: list[End]) -> str:
    """Say what is wrong with a side, or worse than with stock Spark; empty if nothing is."""
    where = f"{end.query}, {end.size:,}, {end.side}"
    if end.how == FINISHED and end.ours == (end.side == "stock"):
        return f"{where}: the plan was {'ours' if end.ours else 'left alone'}."
    for stock in found:
        if (stock.query, stock.size, stock.side, stock.how) == (end.query, end.size, "stock", FINISHED):
            if end.how != FINISHED:
                return f"{where}: {end.how}, and stock Spark finished."
            for what in ("executor_mb", "driver_mb"):
                ours, theirs = getattr(end, what), getattr(stock, what)
                if ours > MOST * theirs:
                    return f"{where}: {what} is {ours}, and with stock Spark {theirs}."
    return ""


if __name__ == "__main__":
    sys.exit(main())
