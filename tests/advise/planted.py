"""Runs queries whose skew is known, and healthy ones, on stock Spark, and leaves their event log.

    python tests/advise/planted.py FOLDER [--cores 8] [--cases REGEX] [--follow] [--rounds 1] [--cold] [--wait 0.001]

Where `cores` is 8, rows wait and need no core, so that two cores carry eight. Where it is 2, they are computed. With
`--follow`, each query runs as the advice for it says. The description of an execution is the name of its case.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import LongType

import saltwise

PARTITIONS = 16
WAIT = 0.001
"""Seconds that a row takes, where --wait says nothing else."""

_SCHEMA = "k bigint, n bigint"


@dataclass(frozen=True)
class Case:
    """A query, and what is to be found in its log."""

    stock: Callable[[SparkSession], DataFrame]
    finds: tuple[str, list[str], str] | None = None
    """Kind of the operator, its keys, and a part of the advice; None if the query is healthy."""
    followed: Callable[[SparkSession], DataFrame] | None = None
    """The query as the advice says; None if nothing helps, or a conf alone."""
    conf: dict[str, str] = field(default_factory=dict)
    """Confs that the advice says."""
    before: dict[str, str] = field(default_factory=dict)
    """Confs of both sides."""
    cores: int = 8


def waiting(group: pd.DataFrame) -> pd.DataFrame:
    time.sleep(WAIT * len(group))
    return pd.DataFrame({"k": [group["k"].iloc[0]], "n": [len(group)]})


def straggling(group: pd.DataFrame) -> pd.DataFrame:
    """A group that takes longer than the others with as many rows."""
    time.sleep(3.0 if group["k"].iloc[0] == 7 else WAIT * len(group))
    return pd.DataFrame({"k": [group["k"].iloc[0]], "n": [len(group)]})


@pandas_udf(LongType())  # type: ignore[call-overload, untyped-decorator]
def waited(column: pd.Series) -> pd.Series:
    time.sleep(WAIT * len(column))
    return pd.Series([1] * len(column))


@pandas_udf(LongType())  # type: ignore[call-overload, untyped-decorator]
def counted(column: pd.Series) -> int:
    time.sleep(WAIT * len(column))
    return len(column)


class Counted(saltwise.Aggregator):
    """As `counted`, by parts that merge."""

    returns = "bigint"

    def zero(self) -> int:
        return 0

    def update(self, state: int, batch: pa.RecordBatch) -> int:
        time.sleep(WAIT * batch.num_rows)
        return state + int(batch.num_rows)

    def merge(self, a: int, b: int) -> int:
        return a + b

    def finish(self, state: int) -> int:
        return state


def keys_by_partition(spark: SparkSession, *more: Column) -> list[list[int]]:
    """Return keys from 0 on by the shuffle partition that has them, where `more` follows them in the hash."""
    found: list[list[int]] = [[] for _ in range(PARTITIONS)]
    rows = spark.range(4000).select("id", F.pmod(F.hash("id", *more), F.lit(PARTITIONS))).collect()
    for key, partition in rows:
        found[partition].append(key)
    return found


def of_keys(spark: SparkSession, keys: list[int], rows_of_key: int) -> DataFrame:
    """Return rows with k and v, as many for each key, in eight partitions."""
    array = F.array(*(F.lit(key).cast("long") for key in keys))
    ids = spark.range(0, len(keys) * rows_of_key, 1, 8)
    return ids.select(F.get(array, (F.col("id") % len(keys)).cast("int")).alias("k"), F.col("id").alias("v"))


def colliding(spark: SparkSession, *more: Column) -> DataFrame:
    """Equal groups: eight in one partition, one in each of the others."""
    first, *others = keys_by_partition(spark, *more)
    return of_keys(spark, first[:8] + [keys[0] for keys in others], 400)


def colliding_in_two(spark: SparkSession) -> DataFrame:
    return colliding(spark, F.lit(1)).withColumn("c", F.lit(1))


def even(spark: SparkSession) -> DataFrame:
    return of_keys(spark, [key for keys in keys_by_partition(spark) for key in keys[:2]], 100)


def hot(spark: SparkSession, rows: int = 4_000, key: str = "cast(-1 AS bigint)", other: int = 4) -> DataFrame:
    """All rows but one in `other` have one key."""
    return spark.range(0, rows, 1, 8).selectExpr(f"if(id % {other} > 0, {key}, id % 97) AS k", "id AS v")


def window(rows: DataFrame) -> DataFrame:
    ranked = rows.selectExpr("k", "rank() OVER (PARTITION BY k ORDER BY v) AS r")
    return ranked.select("k", waited("r").alias("n"))


def numbered(spark: SparkSession) -> DataFrame:
    return spark.range(0, 4_000, 1, 8).selectExpr("row_number() OVER (ORDER BY id) AS r")


def joined(spark: SparkSession) -> DataFrame:
    """A sort-merge join with a hot key. Rows are wide, so that the hot partition has a size."""
    text = F.concat(*(F.sha2(F.concat("v", F.lit(f" {i}")), 512) for i in range(4)))
    wide = hot(spark).withColumn("text", text)
    names = spark.range(-1, 97, 1, 8).selectExpr("id AS k", "concat('name ', id) AS name")
    return wide.join(names.hint("merge"), "k")


def slept() -> Column:
    """Wait in the JVM: Python would hide from Spark that rows are grouped already."""
    return F.expr(f"reflect('java.lang.Thread', 'sleep', {round(1000 * WAIT)}L)")


AQE = "spark.sql.adaptive"
SMALL = {f"{AQE}.advisoryPartitionSizeInBytes": "64k", "spark.sql.autoBroadcastJoinThreshold": "-1"}
THRESHOLD = f"{AQE}.skewJoin.skewedPartitionThresholdInBytes"

CASES = {
    # The first, so that the start of Python workers is its own, and takes long in no other.
    "healthy: even groups": Case(lambda spark: even(spark).groupBy("k").applyInPandas(waiting, _SCHEMA)),
    "groups that collide": Case(
        lambda spark: colliding(spark).groupBy("k").applyInPandas(waiting, _SCHEMA),
        ("group map in Python", ["k"], 'df.skew_groupby("k")'),
        lambda spark: saltwise.skew_groupby(colliding(spark), "k").applyInPandas(waiting, _SCHEMA),
    ),
    "groups that collide, by two columns": Case(
        lambda spark: colliding_in_two(spark).groupBy("k", "c").applyInPandas(waiting, _SCHEMA),
        ("group map in Python", ["k", "c"], 'df.skew_groupby("k", "c")'),
        lambda spark: saltwise.skew_groupby(colliding_in_two(spark), "k", "c").applyInPandas(waiting, _SCHEMA),
    ),
    "one hot group": Case(
        lambda spark: hot(spark).groupBy("k").agg(counted("v").alias("n")),
        ("group map in Python", ["k"], "saltwise.Aggregator"),
        lambda spark: saltwise.skew_groupby(hot(spark), "k").agg(Counted("v").alias("n")),
    ),
    "hot NULL": Case(
        lambda spark: hot(spark, key="NULL").groupBy("k").agg(counted("v").alias("n")),
        ("group map in Python", ["k"], "saltwise.Aggregator"),
        lambda spark: saltwise.skew_groupby(hot(spark, key="NULL"), "k").agg(Counted("v").alias("n")),
    ),
    "window whose keys collide": Case(
        lambda spark: window(colliding(spark)),
        ("window", ["k"], "spark.saltwise.placement.enabled=true"),
        conf={"spark.saltwise.placement.enabled": "true"},
    ),
    "window with a hot key, which spills": Case(
        lambda spark: window(hot(spark)),
        ("window", ["k"], "spark.saltwise.placement.enabled=true"),
        before={
            "spark.sql.windowExec.buffer.in.memory.threshold": "100",
            "spark.sql.windowExec.buffer.spill.threshold": "500",
        },
    ),
    "window without PARTITION BY": Case(
        lambda spark: numbered(spark).select(waited("r").alias("n")),
        ("window", [], "in slices of its order"),
        conf={"spark.saltwise.enabled": "true"},
    ),
    "join below the threshold": Case(
        lambda spark: joined(spark).select(waited("v").alias("n"), "text"),
        ("join", ["k"], THRESHOLD),
        conf={THRESHOLD: "256k"},
        before=SMALL,
    ),
    "join that would need a shuffle": Case(
        lambda spark: (
            joined(spark).select("k", slept().alias("n"), "text").groupBy("k").agg(F.count("n"), F.max("text"))
        ),
        ("join", ["k"], "Spark itself then splits this join, which count and max grouped by k forbids otherwise"),
        conf={"spark.saltwise.enabled": "true"},
        before=SMALL | {THRESHOLD: "256k"},
    ),
    "repartition by a column": Case(
        lambda spark: hot(spark).repartition(PARTITIONS, "k").select(waited("v").alias("n")),
        ("repartition", ["k"], "repartition without columns"),
        lambda spark: hot(spark).repartition(PARTITIONS).select(waited("v").alias("n")),
    ),
    "growing states": Case(
        lambda spark: (
            hot(spark, 8_000_000, other=40).groupBy("k").agg(F.collect_list(F.md5(F.col("v").cast("string"))))
        ),
        ("aggregate", ["k"], "nothing helps a key whose collect_"),
        cores=2,
    ),
    "growing states of a hot NULL": Case(
        lambda spark: hot(spark, 8_000_000, "NULL", other=40).groupBy("k").agg(F.collect_set("v")),
        ("aggregate", ["k"], "SKEW_GROUPBY"),
        conf={"spark.saltwise.enabled": "true"},
        cores=2,
    ),
    "healthy: one slow group": Case(lambda spark: even(spark).groupBy("k").applyInPandas(straggling, _SCHEMA)),
    "healthy: a sum that the map side combines": Case(
        lambda spark: hot(spark, 3_000_000).groupBy("k").agg(F.sum("v"), F.count("*")), cores=2
    ),
    "healthy: a join of even keys": Case(
        lambda spark: even(spark).join(spark.range(4000).withColumnRenamed("id", "k").hint("merge"), "k"), cores=2
    ),
}
"""By name."""


def cases(cores: int, names: str = "") -> dict[str, Case]:
    """Return the cases for so many cores whose names match a pattern."""
    return {name: case for name, case in CASES.items() if case.cores == cores and re.search(names, name)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cores", type=int, default=8)
    parser.add_argument("--cases", default="", help="what the names of the cases match; all by default")
    parser.add_argument("--follow", action="store_true")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--cold", action="store_true", help="no run before, which starts workers and compiles plans")
    parser.add_argument("--wait", type=float, default=WAIT, help="seconds that a row takes")
    given = parser.parse_args()
    globals()["WAIT"] = given.wait
    given.folder.mkdir(parents=True, exist_ok=True)
    spark = started(given.folder, given.cores, given.follow)
    for name, case in cases(given.cores, given.cases).items():
        if given.follow and not case.followed and not case.conf:
            continue
        confs = case.before | (case.conf if given.follow else {})
        for conf, value in confs.items():
            spark.conf.set(conf, value)
        query = (case.followed if given.follow else None) or case.stock
        # Spark ends Python workers that are idle for a minute, so each case has a warm-up of its own.
        for i in range(1 if given.cold else 0, given.rounds + 1):
            spark.sparkContext.setJobDescription(name if i else "warm-up")
            query(spark).write.format("noop").mode("overwrite").save()
        for conf in confs:
            spark.conf.unset(conf)
    spark.stop()


def started(folder: Path, cores: int, follow: bool) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master(f"local[{cores}]")
        .appName("planted")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "4g")
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.dir", folder.absolute().as_uri())
        .config("spark.sql.shuffle.partitions", str(PARTITIONS))
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "200")
        .config(f"{AQE}.coalescePartitions.enabled", "false")
    )
    if follow:
        # The rows here are few, and stand for many.
        builder = saltwise.configure(builder).config("spark.saltwise.auto.smallInput", "0")
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


if __name__ == "__main__":
    main()
