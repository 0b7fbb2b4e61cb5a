"""Shared parts of the benchmarks of state that moves: executors that come and go, and a stream batch by batch."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from common import started
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import saltwise
from saltwise.spark.compat import state_streams
from saltwise.spark.moving_state.batches import StateBatch
from saltwise.spark.moving_state.report import StateReport


def cluster_session(executors: int, partitions: int, **conf: str) -> SparkSession:
    """Start Spark on executors of their own, with states in RocksDB. In the names of `conf`, `__` stands for a dot."""
    builder = (
        SparkSession.builder.master(f"local-cluster[{executors},1,1024]")
        .config("spark.decommission.enabled", "true")
        .config("spark.sql.shuffle.partitions", partitions)
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
    )
    spark = started(builder, **conf)
    wait_until(lambda: len(executor_ids(spark)) == executors)
    return spark


def executor_ids(spark: SparkSession) -> list[str]:
    found = spark.sparkContext._jsc.sc().statusStore().executorList(True)
    return sorted(each for i in range(found.size()) if (each := found.apply(i).id()) != "driver")


def resize(spark: SparkSession, executors: int) -> None:
    """Let the application have so many executors."""
    context = spark.sparkContext._jsc.sc()
    java = spark.sparkContext._jvm
    assert java is not None
    surplus = executor_ids(spark)[executors:]
    if surplus:
        context.killExecutors(java.PythonUtils.toSeq(surplus))
    else:
        context.requestTotalExecutors(executors, 0, java.PythonUtils.toScalaMap({}))
    wait_until(lambda: len(executor_ids(spark)) == executors)


def decommission(spark: SparkSession, executor: str) -> None:
    """Send an executor away, as a cluster manager does when its node goes."""
    java = spark.sparkContext._jvm
    assert java is not None
    info = java.org.apache.spark.scheduler.ExecutorDecommissionInfo("benchmark", java.scala.Option.empty())
    spark.sparkContext._jsc.sc().schedulerBackend().decommissionExecutor(executor, info, True, False)
    wait_until(lambda: executor not in executor_ids(spark))


def wait_until(holds: Callable[[], bool]) -> None:
    while not holds():
        time.sleep(0.1)


def waiting(millis: int) -> Column:
    """Let each row wait in the JVM, which takes no core."""
    return F.expr(f"reflect('java.lang.Thread', 'sleep', {millis}L)")


class Stream:
    """A query over batches that are written one by one."""

    def __init__(
        self, spark: SparkSession, query: Callable[[DataFrame], DataFrame], batches: Iterable[np.ndarray]
    ) -> None:
        self.spark, self.query, self.batches, self.written = spark, query, iter(batches), 0
        self.streams = state_streams(spark)

    def __enter__(self) -> Stream:
        # Executors may still write snapshots of the state when the stream has stopped.
        self.folder = tempfile.TemporaryDirectory(prefix="saltwise-state-", ignore_cleanup_errors=True)
        self.source = Path(self.folder.name, "source")
        self.source.mkdir()
        rows = self.spark.readStream.schema("k long").option("maxFilesPerTrigger", 1).parquet(str(self.source))
        self.running = (
            self.query(rows)
            .writeStream.outputMode("update")
            .option("checkpointLocation", str(Path(self.folder.name, "checkpoint")))
            .format("noop")
            .start()
        )
        return self

    def timed(self) -> float:
        """Run the next batch; return how long it took."""
        part = Path(self.folder.name, "part")
        pq.write_table(pa.table({"k": next(self.batches)}), part)
        begun = time.perf_counter()
        part.rename(self.source / f"{self.written:04}.parquet")
        self.running.processAllAvailable()
        self.written += 1
        return time.perf_counter() - begun

    def batch(self) -> StateBatch:
        """Run the next batch; return what it took."""
        self.timed()
        while True:
            text = self.streams.next(60_000, False)
            assert text is not None, "no batch was reported"
            found = StateBatch.parse(text)
            if found.batch == self.written - 1:
                return found

    def move(self, last: StateBatch, there: Sequence[str]) -> None:
        """Let each state partition be on an executor in the batch after the next one."""
        operators = last.stages[-1].operators
        moves = [{"operators": operators, "partition": i, "executor": each} for i, each in enumerate(there)]
        self.streams.move(last.run, json.dumps(moves))

    def report(self, balancer: saltwise.StateBalancer) -> StateReport:
        """Return what a balancer knows of the last batch, a moment after it has ended."""
        while True:
            try:
                found = balancer.report(self.running)
                if found.batch >= self.written - 1:
                    return found
            except saltwise.SaltwiseError:
                pass  # it has learned of no batch yet
            time.sleep(0.05)

    def __exit__(self, *error: object) -> None:
        self.running.stop()
        self.folder.cleanup()
