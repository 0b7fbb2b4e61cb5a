"""Queries with the toggle off and on, by turns: the ratio of their times, or of the heap that they need."""

from __future__ import annotations

import csv
import hashlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import median
from zipfile import ZipFile

import pyspark
from cells import standard_error
from common import console
from measure import Run, did, executed_nodes
from measure import measured as run_measured
from pyspark.sql import SparkSession
from rich.table import Table

from saltwise import jar_path
from saltwise.spark.session import confs as with_confs

Sides = Mapping[str, Mapping[str, str]]

TOGGLE = "spark.saltwise.enabled"
WARM_UP = 2
"""Rounds that are not measured, in which the JVM compiles what both sides run."""
LONGER = 5
"""Short queries run in up to so many times as many rounds, until each side has run for a second a round."""
BYPASSES = "spark.sql.execution.bypassPartialAggregation"
SIDES = {"stock": {TOGGLE: "false"}, "auto": {TOGGLE: "true"}}
"""The confs of each side."""
BYPASS = {"stock": {TOGGLE: "false", BYPASSES: "true"}, "auto": {TOGGLE: "true", BYPASSES: "false"}}
"""All rows are sent as they are, instead of stock Spark's partial aggregates."""
CLUSTER = {
    "spark.sql.shuffle.partitions": "128",
    "spark.sql.leafNodeDefaultParallelism": "128",
    "spark.sql.files.minPartitionNum": "128",
    "spark.sql.files.openCostInBytes": "0",
    "spark.sql.adaptive.coalescePartitions.minPartitionNum": "128",
}
"""The confs with which two cores plan as 128 do: as many tasks in each stage as there are files and partitions."""


@dataclass(frozen=True)
class Pair:
    """One query, on both sides."""

    query: str
    did: str
    """What ran with the toggle on, as in :class:`cells.Cell`."""
    rounds: int
    stock_seconds: float
    """Median."""
    ratio: float
    """Median of the time with the toggle on as a multiple of stock Spark's in the same round."""
    error: float
    """The standard error of `ratio`."""
    stock_heap_mb: float
    """The largest heap after a garbage collection while it runs; 0 if only times were measured."""
    auto_heap_mb: float
    spark: str
    plugin: str
    """The first digits of the SHA-256 of the jar."""


def run(
    spark: SparkSession,
    queries: Iterable[tuple[str, Callable[[], str]]],
    rounds: int,
    out: Path,
    memory: bool = False,
    sides: Sides = SIDES,
) -> list[Pair]:
    """Measure queries one after the other, and write what was measured after each of them.

    Args:
        spark: a session with the plugin.
        queries: names, and what makes the tables of a query and returns its SQL.
        rounds: how often each side runs at least, after :data:`WARM_UP` runs that are not measured. Times get an even
            number of rounds.
        out: a CSV file. A query that it has is replaced.
        memory: whether to measure the heap too.
        sides: the confs of each side.
    """
    table = Table("query", "stock s", "auto / stock", "did", *(["stock MB", "auto MB"] if memory else []))
    found = []
    for name, prepared in queries:
        pair = measured(spark, name, prepared(), rounds, memory, sides)
        found.append(pair)
        write(out, pair)
        console.print(line(pair), soft_wrap=True)
        table.add_row(
            name,
            f"{pair.stock_seconds:.2f}",
            f"{pair.ratio:.2f} ± {pair.error:.2f}",
            pair.did,
            *([f"{pair.stock_heap_mb:.0f}", f"{pair.auto_heap_mb:.0f}"] if memory else []),
        )
        spark.catalog.clearCache()
    console.print(table)
    return found


def line(pair: Pair) -> str:
    heap = f"  heap {pair.stock_heap_mb:.0f} -> {pair.auto_heap_mb:.0f} MB" if pair.stock_heap_mb else ""
    return f"{pair.query:40} {pair.stock_seconds:6.2f} s  x {pair.ratio:.3f} ± {pair.error:.3f}  {pair.did}{heap}"


def measured(spark: SparkSession, name: str, query: str, rounds: int, memory: bool, sides: Sides) -> Pair:
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    heap = dict.fromkeys(sides, 0.0)
    what = ""
    i = -WARM_UP
    while i < rounds or (not memory and (i % 2 or (i < LONGER * rounds and sum(seconds["stock"]) < rounds))):
        # The order changes from round to round, and each side is the first one as often: while the JVM still compiles,
        # the second one is faster.
        for side in list(sides)[:: 1 if i % 2 else -1]:
            choose(spark, sides[side])
            with live_heap(spark) if memory else nothing() as largest:
                started = time.perf_counter()
                spark.sql(query).write.format("noop").mode("overwrite").save()
                taken = time.perf_counter() - started
            if side == "auto" and not what:
                what = did(executed_nodes(spark))
            if i >= 0:
                seconds[side].append(taken)
                heap[side] = max(heap[side], largest())
        i += 1
    for conf in sides["stock"]:
        spark.conf.unset(conf)
    ratios = [ours / stock for ours, stock in zip(seconds["auto"], seconds["stock"], strict=True)]
    return Pair(
        name,
        what,
        i,
        round(median(seconds["stock"]), 4),
        round(median(ratios), 4),
        round(standard_error(ratios), 4),
        round(heap["stock"], 1),
        round(heap["auto"], 1),
        spark.version,
        plugin(),
    )


def choose(spark: SparkSession, confs: Mapping[str, str]) -> None:
    """Set the confs of a side."""
    for conf, value in confs.items():
        spark.conf.set(conf, value)


def run_on(spark: SparkSession, confs: Mapping[str, str], query: str) -> Run:
    """Run a query once with the confs of a side, and return what Spark's metrics tell."""
    with with_confs(spark, dict(confs)):
        return run_measured(spark, lambda: spark.sql(query).write.format("noop").mode("overwrite").save())


def cold_pair(name: str, seconds: dict[str, list[float]]) -> Pair:
    """A pair of times that were measured elsewhere, each in a JVM of its own."""
    ratios = [ours / stock for ours, stock in zip(seconds["auto"], seconds["stock"], strict=True)]
    return Pair(
        f"{name} cold",
        "",
        len(ratios),
        round(median(seconds["stock"]), 4),
        round(median(ratios), 4),
        round(standard_error(ratios), 4),
        0.0,
        0.0,
        pyspark.__version__,
        plugin(),
    )


def plugin() -> str:
    """Return a short name of the plugin's build: the same for the same classes."""
    digest = hashlib.sha256()
    with ZipFile(jar_path()) as jar:
        for name in sorted(jar.namelist()):
            if name.endswith(".class"):
                digest.update(name.encode() + jar.read(name))
    return digest.hexdigest()[:8]


@contextmanager
def nothing() -> Iterator[Callable[[], float]]:
    yield lambda: 0.0


@contextmanager
def live_heap(spark: SparkSession) -> Iterator[Callable[[], float]]:
    """Collect garbage again and again inside of a `with` block; then returns the largest heap that was left, in MB."""
    jvm = spark._jvm
    assert jvm is not None
    pools = [
        pool
        for pool in jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
        if pool.getType().name() == "HEAP"
    ]
    largest, done = 0.0, threading.Event()

    def watch() -> None:
        nonlocal largest
        while not done.wait(0.1):
            jvm.System.gc()
            usages = (pool.getCollectionUsage() for pool in pools)
            largest = max(largest, sum(usage.getUsed() for usage in usages if usage is not None) / 2**20)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield lambda: largest
    finally:
        done.set()
        watching.join()


def write(path: Path, pair: Pair) -> None:
    """Put a pair into a CSV file, in place of one of the same query. If that fails, the file stays as it was."""
    columns = [field.name for field in fields(Pair)]
    rows: dict[str, dict[str, object]] = {}
    if path.exists():
        with path.open(newline="") as file:
            rows = {row["query"]: dict(row) for row in csv.DictReader(file)}
    rows[pair.query] = asdict(pair)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with part.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows.values())
    part.replace(path)
