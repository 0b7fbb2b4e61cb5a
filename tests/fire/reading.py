"""The ways in which a random query is read, and what a user sees of each beside its rows."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

PARTITIONS = 3
"""Of an exchange that a reading asks for. No more than the slots, so that a barrier stage can start."""

Rows = list[tuple[object, ...]]


def collected(df: DataFrame, column: str) -> Rows:
    return [tuple(row) for row in df.collect()]


def repartitioned(df: DataFrame, column: str) -> Rows:
    """The rows, and whether each lies where Spark's hash puts it."""
    return _placed(df.repartition(PARTITIONS, F.col(column)), column)


def sorted_within(df: DataFrame, column: str) -> Rows:
    return _placed(df.repartition(PARTITIONS, F.col(column)).sortWithinPartitions(F.col(column)), column)


def _placed(df: DataFrame, column: str) -> Rows:
    wanted = F.pmod(F.hash(F.col(column)), F.lit(PARTITIONS))
    return [tuple(row) for row in df.select("*", F.spark_partition_id() == wanted).collect()]


def ranged(df: DataFrame, column: str) -> Rows:
    return collected(df.repartitionByRange(PARTITIONS, F.col(column)), column)


def rebalanced(df: DataFrame, column: str) -> Rows:
    return collected(df.hint("rebalance", F.col(column)), column)


def written(df: DataFrame, column: str) -> Rows:
    """The rows of files, each with its bucket."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "table"))
        df.sparkSession.sql("DROP TABLE IF EXISTS written")
        try:
            df.write.bucketBy(PARTITIONS, column).option("path", path).saveAsTable("written")
            bucket = F.regexp_extract(F.input_file_name(), "_([0-9]{5})[.]c", 1)
            return [tuple(row) for row in df.sparkSession.table("written").select("*", bucket).collect()]
        finally:
            df.sparkSession.sql("DROP TABLE IF EXISTS written")
            shutil.rmtree(path, ignore_errors=True)


def in_order(df: DataFrame, column: str) -> Rows:
    """The rows, each with how many tasks of an ORDER BY had any."""
    rows = [tuple(row) for row in df.orderBy(F.col(column)).select("*", F.spark_partition_id()).collect()]
    tasks = len({row[-1] for row in rows})
    return [(*row[:-1], tasks) for row in rows]


def behind_a_barrier(df: DataFrame, column: str) -> Rows:
    """How many rows a barrier stage gets."""

    def count(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        yield pd.DataFrame({"n": [sum(len(frame) for frame in frames)]})

    text = df.select(F.to_json(F.struct("*")).alias("row"))
    return [(sum(row["n"] for row in text.mapInPandas(count, "n bigint", barrier=True).collect()),)]


READINGS: dict[str, Callable[[DataFrame, str], Rows]] = {
    "collect": collected,
    "repartition": repartitioned,
    "sort within partitions": sorted_within,
    "repartition by range": ranged,
    "rebalance": rebalanced,
    "bucketed table": written,
    "order by": in_order,
    "barrier": behind_a_barrier,
}
"""Each gets a DataFrame and the column to go by."""

SAME_LAYOUT = ("order by", "barrier")
"""Readings that only say the same under confs that leave the number of tasks alone."""
LAYOUT = {"spark.sql.adaptive.coalescePartitions.enabled": "false", "spark.sql.shuffle.partitions": "2"}
