"""Moves the state partitions of a stream at random while its keys drift, kills executors, restarts it, and compares its
answer.

    python tests/fire/moving_states.py --batches 300 [--queries aggregate,join,duplicates] [--stores rocksdb,hdfs]
                                  [--move-every 3] [--kill-every 50] [--restart-every 40]
    python tests/fire/moving_states.py --batches 2000 --watch 25 [--stores rocksdb] [...]

Three executors of one core each (local-cluster), eight state partitions. Prints one line a query and store: whether the
answer is that of a batch query over the same files, how many moves were sent, and how many of them the next batch ran
where it was told. Exits with 1 where an answer is wrong.

With --watch it is a long run of the aggregate with Saltwise on: its rows are routed by their hot keys, a StateBalancer
decides moves by turns with chance, and a StatefulAggregate keeps the same totals. Every so many batches it prints what the
driver, its Python and one executor hold. It also exits with 1 where one of these grows, where rows were not routed, or
where the balancer moved nothing.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from executors import jvms, kill_one  # type: ignore[import-not-found]
from growth import growth  # type: ignore[import-not-found]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

import saltwise
from saltwise import SaltwiseError, StateBalancer, StatefulAggregate
from saltwise.spark.compat import state_streams
from saltwise.spark.moving_state.batches import StateBatch

PARTITIONS, EXECUTORS, ROWS, KEYS = 8, 3, 300, 400
DRIFT = 50
"""Batches with the same hot keys."""
STORES = {"rocksdb": "RocksDBStateStoreProvider", "hdfs": "HDFSBackedStateStoreProvider"}
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROUTED = {
    "spark.saltwise.mode": "on",
    "spark.saltwise.strategy": "dchoices",
    "spark.saltwise.partitions": str(EXECUTORS),
    "spark.saltwise.report.keys": "true",
}
TURN = 15
"""Batches after which a balancer and chance take turns."""
SIDES = ("events", "others")
SOURCE = "source"
"""The folder of what a stream has still to read: what it has read costs Spark 1.5 KB a file, so Spark deletes it."""
UPDATE = 10
"""Batches whose rows a StatefulAggregate takes at once."""
JVM = (
    "-XX:+UseSerialGC -Xms64m -Xmn32m -XX:MinHeapFreeRatio=5 -XX:MaxHeapFreeRatio=10 -XX:-ShrinkHeapInSteps "
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
)
"""A heap that is collected before it grows, and code that is compiled once: so the memory of a process tells what it
keeps. The cache of code is as large as it is with all compilers: after a thousand batches the driver had filled the 48 MB
that it has with one."""
FLAT = {
    "spark.driver.extraJavaOptions": JVM,
    "spark.executor.extraJavaOptions": JVM,
    # Else the C library has eight pools for each core, and what is free in one is of no use to the others.
    "spark.executorEnv.MALLOC_ARENA_MAX": "2",
    # What Spark itself keeps of queries that have ended has to be full before a second quarter begins.
    "spark.sql.ui.retainedExecutions": "100",
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "1000",
    # Spark keeps the statuses of all files that it ever listed, up to 250 MB.
    "spark.sql.hive.filesourcePartitionFileCacheSize": "0",
}


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
    every = (given.move_every, given.kill_every, given.restart_every)
    spark = start(FLAT if given.watch else {})
    right = True
    for name, store in product(["aggregate"] if given.watch else given.queries.split(","), given.stores.split(",")):
        spark.conf.set(PROVIDER, f"org.apache.spark.sql.execution.streaming.state.{STORES[store]}")
        if given.watch:
            found = Watched(spark).soak(given.batches, *every, given.watch)
            right &= found["kept"] and found["balanced"] > 0 and found["routed"] == given.batches and not found["grew"]
        else:
            found = Moving(spark, QUERIES[name]).run(given.batches, *every)
        print(json.dumps({"query": name, "store": store, "spark": spark.version, **found}), flush=True)
        right &= found["right"]
    spark.stop()
    return int(not right)


def start(confs: dict[str, str]) -> SparkSession:
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
    for name, value in confs.items():
        builder = builder.config(name, value)
    spark = saltwise.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


class Moving:
    """One stream. Its answer is kept by batch, so that a batch that runs again counts once."""

    def __init__(self, spark: SparkSession, query: Callable[[DataFrame, DataFrame], DataFrame]) -> None:
        self.spark, self.query = spark, query
        self.random = random.Random(7)
        self.streams = state_streams(spark)
        self.answers: dict[int, list[tuple[Any, ...]]] = {}
        self.waiting: dict[int, str] = {}

    def run(self, batches: int, move_every: int, kill_every: int, restart_every: int) -> dict[str, Any]:
        while self.streams.next(0, False) is not None:
            pass  # of the query before
        sent, arrived, killed = 0, 0, 0
        told: dict[int, str] = {}
        # Spark keeps up the states of a stopped stream for a while, so it may write while the folder is removed.
        with tempfile.TemporaryDirectory(prefix="saltwise-moving-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
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
                if restart_every and i % restart_every == restart_every - 1:
                    stream.stop()
                    told = {}
                    stream = self.started(folder)
            stream.stop()
            right = self.answer() == self.wanted(folder)
        return {"right": right, "batches": batches, "sent": sent, "arrived": arrived, "killed": killed}

    def wanted(self, folder: Path) -> list[tuple[Any, ...]]:
        rows = self.query(*(self.spark.read.parquet(str(folder / side)) for side in SIDES))
        return sorted(map(tuple, rows.collect()))

    def started(self, folder: Path) -> StreamingQuery:
        for side in SIDES:
            (folder / side).mkdir(exist_ok=True)
            (folder / SOURCE / side).mkdir(parents=True, exist_ok=True)
        sides = [
            self.spark.readStream.schema(f"k long, {column} long")
            .option("maxFilesPerTrigger", 1)
            .option("cleanSource", "delete")
            .parquet(str(folder / SOURCE / side))
            for side, column in (("events", "v"), ("others", "w"))
        ]
        mode = "update" if self.query is aggregate else "append"
        writer = self.query(*sides).writeStream.outputMode(mode)
        return self.ending(writer.option("checkpointLocation", str(folder / "checkpoint"))).start()

    def ending(self, writer: DataStreamWriter) -> DataStreamWriter:
        return writer.foreachBatch(self.keep)

    def keep(self, rows: DataFrame, batch: int) -> None:
        self.answers[batch] = [tuple(row) for row in rows.collect()]

    def answer(self) -> list[tuple[Any, ...]]:
        rows = [row for batch in sorted(self.answers) for row in self.answers[batch]]
        return sorted({row[0]: row for row in rows}.values()) if self.query is aggregate else sorted(rows)

    def feed(self, folder: Path, i: int) -> None:
        keys = [(hottest(i) + min(int(self.random.paretovariate(0.7)), KEYS) - 1) % KEYS for _ in range(ROWS)]
        events = pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array(range(ROWS), pa.int64())})
        others = pa.table({"k": pa.array([i % KEYS + 2], pa.int64()), "w": pa.array([i], pa.int64())})
        for side, table in zip(SIDES, (events, others), strict=True):
            pq.write_table(table, folder / side / f"{i:05}.parquet")
        # A stream must not see half of a file, and finds one on each side in most batches.
        for side in SIDES:
            file = Path(side, f"{i:05}.parquet")
            os.link(folder / file, folder / SOURCE / file)

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


def hottest(batch: int) -> int:
    """Return the key that has the most rows in a batch: two in five."""
    return (batch // DRIFT * 10 + 1) % KEYS


class Watched(Moving):
    """The aggregate, routed by its hot keys, in a run that is long enough to see what grows."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark, aggregate)
        self.routed: set[int] = set()

    def soak(self, batches: int, move_every: int, kill_every: int, restart_every: int, watch: int) -> dict[str, Any]:
        for name, value in ROUTED.items():
            self.spark.conf.set(name, value)
        balancer = StateBalancer(self.spark, every=2)
        spared = jvms(self.spark)[0]
        sent, balanced, killed, restarts = 0, 0, 0, 0
        held: list[dict[str, float]] = []
        with tempfile.TemporaryDirectory(prefix="saltwise-moving-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            aggregates = {"v": F.sum("v"), "n": F.count("*")}
            totals = StatefulAggregate(folder / "totals", "k", aggregates, EXECUTORS, strategy="milp")
            stream = self.started(folder)
            for i in range(batches):
                balances = i // TURN % 2 == 0
                if i % TURN == 0:
                    balancer.start() if balances else balancer.stop()
                self.feed(folder, i)
                if kill_every and i % kill_every == kill_every - 1:
                    killed += self.kill(spared)
                stream.processAllAvailable()
                if not balances and i % move_every == 0:
                    sent += len(self.moves(self.last()))
                if i % UPDATE == UPDATE - 1 or i == batches - 1:
                    totals.update(self.events(folder, range(i // UPDATE * UPDATE, i + 1)), i // UPDATE)
                    self.see(stream)
                # Not in the batches right after a kill.
                if i % watch == watch // 4:
                    held.append({"batch": i + 1, **footprint(self.spark, spared)})
                    print(json.dumps(held[-1]), flush=True)
                if restart_every and i % restart_every == restart_every - 1:
                    balanced += moved(balancer, stream)
                    self.see(stream)
                    stream.stop()
                    stream = self.started(folder)
                    restarts += 1
            balanced += moved(balancer, stream)
            balancer.stop()
            stream.stop()
            self.spark.conf.set("spark.saltwise.mode", "off")
            wanted = self.wanted(folder)
            right = self.state(folder) == wanted
            kept = sorted(map(tuple, totals.state(self.spark).collect()))
        return {
            "right": right,
            "kept": kept == wanted,
            "batches": batches,
            "sent": sent,
            "balanced": balanced,
            "killed": killed,
            "restarts": restarts,
            "routed": len(self.routed),
            "grew": growth(held),
        }

    def see(self, stream: StreamingQuery) -> None:
        """Note the batches that were routed and know their hottest key.

        Not with a listener: pyspark keeps a connection and a thread of each stream that started while there was one.
        """
        batches = saltwise.skew_batches(stream)
        self.routed.update(each.batch for each in batches if each.hot and each.hot[0][0] == hottest(each.batch))

    def kill(self, spared: int) -> bool:
        """Kill an executor, but never the one that is watched; return whether there was one."""
        others = [pid for pid in jvms(self.spark) if pid != spared]
        if others:
            os.kill(self.random.choice(others), signal.SIGKILL)
        return bool(others)

    def events(self, folder: Path, batches: range) -> DataFrame:
        return self.spark.read.parquet(*(str(folder / "events" / f"{i:05}.parquet") for i in batches))

    def ending(self, writer: DataStreamWriter) -> DataStreamWriter:
        # Not foreachBatch: pyspark keeps a connection and a thread of each stream that has ended and called it.
        return writer.format("noop")

    def state(self, folder: Path) -> list[tuple[Any, ...]]:
        """Return the keys and totals in the stream's own state."""
        state = self.spark.read.format("statestore").load(str(folder / "checkpoint"))
        return sorted(map(tuple, state.select("key.*", "value.*").collect()))


def moved(balancer: StateBalancer, stream: StreamingQuery) -> int:
    """Return how many partitions a balancer has moved in this run of a stream."""
    with suppress(SaltwiseError):  # it has seen no batch of it
        return balancer.report(stream).moved
    return 0


def footprint(spark: SparkSession, executor: int) -> dict[str, float]:
    """What the driver holds: megabytes of heap after a full collection, threads, open files, and shuffles that it knows of;
    the resident memory of its JVM, of its Python and of an executor; and that executor's threads and open files."""
    java = spark.sparkContext._jvm
    assert java is not None
    # py4j holds objects of the JVM until Python has collected its cycles. Then the JVM finds what can go, Spark's cleaner
    # drops it, and the last collection frees it.
    gc.collect()
    for _ in range(2):
        time.sleep(1)
        java.System.gc()
    pools = java.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    (tenured,) = (pool for pool in pools if pool.getName() == "Tenured Gen")
    driver = java.java.lang.ProcessHandle.current().pid()
    # Not by its method: py4j reads the types of all methods, and those of Spark 4.3 name a class that is in no jar.
    environment = spark.sparkContext._jsc.sc().env()
    tracker = java.org.apache.commons.lang3.reflect.FieldUtils.readField(environment, "mapOutputTracker", True)
    return {
        # Not what is in use now: a stream that waits lists its folder all the time, and the more files, the more garbage.
        "heap_mb": round(tenured.getCollectionUsage().getUsed() / 2**20, 2),
        "driver_mb": resident_mb(driver),
        "python_mb": resident_mb(os.getpid()),
        "threads": count(driver, "task"),
        "files": count(driver, "fd"),
        "shuffles": tracker.shuffleStatuses().size(),
        "executor_mb": resident_mb(executor),
        "executor_threads": count(executor, "task"),
        "executor_files": count(executor, "fd"),
    }


def resident_mb(pid: int) -> float:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return round(int(status["VmRSS"].split()[0]) / 1024, 1)


def count(pid: int, what: str) -> int:
    return len(list(Path(f"/proc/{pid}/{what}").iterdir()))


if __name__ == "__main__":
    sys.exit(main())
