"""Moves the state partitions of a stream at random while its keys drift, kills executors, restarts it, and compares its
answer.

    python tests/moving_states.py --batches 300 [--queries aggregate,join,duplicates] [--stores rocksdb,hdfs]
                                  [--move-every 3] [--kill-every 50] [--restart-every 40] [--watch 100]

Three executors of one core each (local-cluster), eight state partitions. Prints one line a query and store: whether the
answer is that of a batch query over the same files, how many moves were sent, and how many of them the next batch ran
where it was told. With --watch, it also prints what the driver and the executors hold every so many batches, and judges
whether that stays flat. Exits with 1 where an answer is wrong, or something grows.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from collections.abc import Callable
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from executors import jvms, kill_one  # type: ignore[import-not-found]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import saltwise
from saltwise.spark.compat import state_streams
from saltwise.spark.state_batches import StateBatch

PARTITIONS, EXECUTORS, ROWS, KEYS = 8, 3, 300, 400
DRIFT = 50
"""Batches with the same hot keys."""
STORES = {"rocksdb": "RocksDBStateStoreProvider", "hdfs": "HDFSBackedStateStoreProvider"}
MAY_GROW = {"heap_mb": 16, "threads": 3, "files": 10, "shuffles": 20}
"""What the driver may hold more in the last quarter of a run than in the second one: at a time, as a median."""
PROVIDER = "spark.sql.streaming.stateStore.providerClass"


def aggregate(events: DataFrame, others: DataFrame) -> DataFrame:
    return events.groupBy("k").agg(F.sum("v").alias("v"), F.count("*").alias("n"))


def join(events: DataFrame, others: DataFrame) -> DataFrame:
    return events.join(others, "k").select("k", "v", "w")


def duplicates(events: DataFrame, others: DataFrame) -> DataFrame:
    return events.select("k").dropDuplicates(["k"])


QUERIES: dict[str, Callable[[DataFrame, DataFrame], DataFrame]] = {
    "aggregate": aggregate,
    "join": join,
    "duplicates": duplicates,
}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=30)
    parser.add_argument("--queries", default=",".join(QUERIES))
    parser.add_argument("--stores", default=",".join(STORES))
    parser.add_argument("--move-every", type=int, default=3)
    parser.add_argument("--kill-every", type=int, default=50)
    parser.add_argument("--restart-every", type=int, default=40)
    parser.add_argument("--watch", type=int, default=0)
    given = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = start()
    right = True
    for name, store in product(given.queries.split(","), given.stores.split(",")):
        spark.conf.set(PROVIDER, f"org.apache.spark.sql.execution.streaming.state.{STORES[store]}")
        moving = Moving(spark, QUERIES[name], given.watch)
        found = moving.run(given.batches, given.move_every, given.kill_every, given.restart_every)
        print(json.dumps({"query": name, "store": store, "spark": spark.version, **found}), flush=True)
        right &= found["right"] and not found.get("grew")
    spark.stop()
    return int(not right)


def start() -> SparkSession:
    builder = (
        SparkSession.builder.master(f"local-cluster[{EXECUTORS},1,1024]")
        .config("spark.executor.extraJavaOptions", os.environ.get("SPARK_SUBMIT_OPTS", ""))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", str(PARTITIONS))
        .config("spark.executor.heartbeatInterval", "2s")
        .config("spark.deploy.maxExecutorRetries", "-1")
        .config("spark.task.maxFailures", "20")
        .config("spark.stage.maxConsecutiveAttempts", "20")
    )
    spark = saltwise.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


class Moving:
    """One stream. Its answer is kept by batch, so that a batch that runs again counts once."""

    def __init__(self, spark: SparkSession, query: Callable[[DataFrame, DataFrame], DataFrame], watch: int) -> None:
        self.spark, self.query, self.watch = spark, query, watch
        self.random = random.Random(7)
        self.streams = state_streams(spark)
        self.answers: dict[int, list[tuple[Any, ...]]] = {}
        self.waiting: dict[int, str] = {}

    def run(self, batches: int, move_every: int, kill_every: int, restart_every: int) -> dict[str, Any]:
        while self.streams.next(0, False) is not None:
            pass  # of the query before
        sent, arrived, killed = 0, 0, 0
        told: dict[int, str] = {}
        held: list[dict[str, float]] = []
        with tempfile.TemporaryDirectory(prefix="saltwise-moving-") as name:
            folder = Path(name)
            for side in ("events", "others"):
                (folder / side).mkdir()
            stream = self.started(folder)
            for i in range(batches):
                self.feed(folder, i)
                if kill_every and i % kill_every == kill_every - 1:
                    killed += kill_one(self.spark, self.random)
                stream.processAllAvailable()
                batch = self.last()
                stage = batch.stages[-1]
                arrived += sum(stage.executor[partition] == executor for partition, executor in told.items())
                told = self.waiting if i % move_every == 1 % move_every else {}
                if i % move_every == 0:
                    self.waiting = self.moves(batch)
                    sent += len(self.waiting)
                if self.watch and i % self.watch == self.watch - 1:
                    held.append(footprint(self.spark))
                    print(json.dumps({"query": self.query.__name__, "batch": i + 1, **held[-1]}), flush=True)
                if restart_every and i % restart_every == restart_every - 1:
                    stream.stop()
                    told = {}
                    stream = self.started(folder)
            stream.stop()
            wanted = self.query(*(self.spark.read.parquet(str(folder / side)) for side in ("events", "others")))
            right = self.answer() == sorted(map(tuple, wanted.collect()))
        found = {"right": right, "batches": batches, "sent": sent, "arrived": arrived, "killed": killed}
        return found | ({"grew": growth(held)} if self.watch else {})

    def started(self, folder: Path) -> Any:
        sides = [
            self.spark.readStream.schema(f"k long, {column} long")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(folder / side))
            for side, column in (("events", "v"), ("others", "w"))
        ]
        mode = "update" if self.query is aggregate else "append"
        return (
            self.query(*sides)
            .writeStream.outputMode(mode)
            .option("checkpointLocation", str(folder / "checkpoint"))
            .foreachBatch(self.keep)
            .start()
        )

    def keep(self, rows: DataFrame, batch: int) -> None:
        self.answers[batch] = [tuple(row) for row in rows.collect()]

    def answer(self) -> list[tuple[Any, ...]]:
        rows = [row for batch in sorted(self.answers) for row in self.answers[batch]]
        return sorted({row[0]: row for row in rows}.values()) if self.query is aggregate else sorted(rows)

    def feed(self, folder: Path, i: int) -> None:
        drift = i // DRIFT * 10  # other keys are hot then
        keys = [(min(int(self.random.paretovariate(0.7)), KEYS) + drift) % KEYS for _ in range(ROWS)]
        events = pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array(range(ROWS), pa.int64())})
        others = pa.table({"k": pa.array([i % KEYS + 2], pa.int64()), "w": pa.array([i], pa.int64())})
        tables = {"events": events, "others": others}
        for side, table in tables.items():
            pq.write_table(table, folder / f"{side}.part")
        # A reader must not see half of a file, and finds one on each side in most batches.
        for side in tables:
            (folder / f"{side}.part").rename(folder / side / f"{i:05}.parquet")

    def last(self) -> StateBatch:
        """Return the batch that ended last."""
        text, last = self.streams.next(10_000, False), None
        while text is not None:
            last, text = text, self.streams.next(0, False)
        assert last is not None, "no batch was reported"
        return StateBatch.parse(last)

    def moves(self, batch: StateBatch) -> dict[int, str]:
        """Send every other partition that may move, at random, to some executor; return where to."""
        executors = [each.id for each in batch.executors]
        chosen = [i for i in range(PARTITIONS) if self.random.random() < 0.5 and i not in batch.pinned]
        told = {i: self.random.choice(executors) for i in chosen}
        operators = batch.stages[-1].operators
        moves = [{"operators": operators, "partition": i, "executor": executor} for i, executor in told.items()]
        self.streams.move(batch.run, json.dumps(moves))
        return told


def growth(held: list[dict[str, float]]) -> dict[str, float]:
    """Return what the driver holds more in the last quarter than in the second one, where that is too much."""
    quarter = len(held) // 4
    if not quarter:
        return {}
    grown = {
        name: median(each[name] for each in held[-quarter:])
        - median(each[name] for each in held[quarter : 2 * quarter])
        for name in MAY_GROW
    }
    return {name: more for name, more in grown.items() if more > MAY_GROW[name]}


def footprint(spark: SparkSession) -> dict[str, float]:
    """What the driver holds: megabytes of heap, threads, open files, and shuffles that it knows of; and of all executors
    together, the resident memory, threads and open files."""
    java = spark.sparkContext._jvm
    assert java is not None
    java.System.gc()
    runtime = java.Runtime.getRuntime()
    pid = java.java.lang.ProcessHandle.current().pid()
    tracker = java.org.apache.spark.SparkEnv.get().mapOutputTracker()
    return {
        "heap_mb": round((runtime.totalMemory() - runtime.freeMemory()) / 2**20, 1),
        "threads": java.java.lang.management.ManagementFactory.getThreadMXBean().getThreadCount(),
        "files": len(list(Path(f"/proc/{pid}/fd").iterdir())),
        "shuffles": tracker.shuffleStatuses().size(),
        **{f"executors_{name}": value for name, value in of_processes(jvms(spark)).items()},
    }


def of_processes(pids: list[int]) -> dict[str, int]:
    total = {"rss_mb": 0, "threads": 0, "files": 0}
    for pid in pids:
        process = Path(f"/proc/{pid}")
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        total["rss_mb"] += int(status["VmRSS"].split()[0]) >> 10
        total["threads"] += int(status["Threads"])
        total["files"] += len(list((process / "fd").iterdir()))
    return total


if __name__ == "__main__":
    sys.exit(main())
