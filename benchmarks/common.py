"""What the benchmarks share: Zipf data, a quiet session, a user's Scala, and interleaved timing."""

from __future__ import annotations

import hashlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import track
from rich.table import Table

import saltwise
from saltwise._java import find_java

RESULTS = Path(__file__).parent / "results"
CACHE = Path(__file__).parent.parent / "build" / "benchmarks"
IN_MEMORY = Path("/dev/shm")
console = Console()


def session(cores: int = 2, **conf: str) -> SparkSession:
    """Start local Spark, on two cores unless told, with the plugin; AQE off, so that a plan is what it says.

    What is slow and uneven for reasons of its own stays out. A shuffle makes hundreds of files, and to create one takes
    a disk up to half a millisecond: they lie in memory, where there is a file system for it. Spark keeps a hundred
    generated classes, and the JVM compiles those that it generates again from the start: here it keeps all.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if IN_MEMORY.is_dir():
        os.environ.setdefault("SPARK_LOCAL_DIRS", str(IN_MEMORY))
    builder = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "8g")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.files.maxPartitionBytes", "1g")
        .config("spark.sql.codegen.cache.maxEntries", "5000")
    )
    for key, value in conf.items():
        builder = builder.config(key.replace("__", "."), value)
    spark = saltwise.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def users_jar() -> str:
    """Return the jar of UserAggregates.scala, compiled by the Scala compiler in pyspark, the first time only."""
    source = Path(__file__).with_name("UserAggregates.scala")
    digest = hashlib.sha256(source.read_bytes() + pyspark.__version__.encode()).hexdigest()[:8]
    jar = CACHE / f"users-{digest}.jar"
    if not jar.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        part = jar.with_suffix(".part.jar")
        libraries = Path(pyspark.__file__).parent / "jars" / "*"
        scalac = [find_java().path, "-Xss4m", "-cp", libraries, "scala.tools.nsc.Main", "-usejavacp"]
        subprocess.run([*scalac, "-d", part, source], check=True)
        part.rename(jar)
    return str(jar)


def register_users_aggregates(spark: SparkSession) -> None:
    """Give a session with the jar of users_jar() the functions root_mean_square and waiting_count."""
    spark._jvm.saltwise.benchmarks.UserAggregates.register(spark._jsparkSession)


def zipf_keys(rows: int, keys: int, z: float, seed: int = 1) -> np.ndarray:
    """Draw keys 0 ... keys - 1 of which the r-th has a share proportional to r^-z (key 0 is the hottest)."""
    shares = np.arange(1, keys + 1, dtype=float) ** -z
    cumulative = np.cumsum(shares / shares.sum())
    drawn = np.searchsorted(cumulative, np.random.default_rng(seed).random(rows))
    return np.minimum(drawn, keys - 1).astype(np.int64)


def zipf_parquet(rows: int, keys: int, z: float, files: int) -> str:
    """Return a folder of `files` equal Parquet files with columns k (bigint), v (bigint), x (double)."""

    def tables() -> Iterator[pa.Table]:
        values = np.random.default_rng(2)
        for k in np.array_split(zipf_keys(rows, keys, z), files):
            yield pa.table({"k": k, "v": values.integers(0, 1000, len(k)), "x": values.random(len(k))})

    return parquet_folder(f"zipf-{rows}-{keys}-{z}-{files}", tables)


def parquet_folder(name: str, tables: Callable[[], Iterable[pa.Table]], **options: object) -> str:
    """Return a folder of this name with a Parquet file of each table; they are made the first time only.

    `options` are those of pyarrow's write_table.
    """
    folder = CACHE / name
    if not folder.exists():
        part = folder.with_name(f"{name}.part")
        part.mkdir(parents=True, exist_ok=True)
        for i, table in enumerate(tables()):
            pq.write_table(table, part / f"{i:03}.parquet", **options)
        part.rename(folder)
    return str(folder)


def interleaved(runs: Mapping[str, Callable[[], object]], rounds: int, warmup: int = 2) -> dict[str, float]:
    """Run every side in turn, `rounds` times after warm-up; return each side's median in seconds."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for i in track(range(warmup + rounds), "rounds", console=console, transient=True):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            if i >= warmup:
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}


def print_ratios(title: str, medians: Mapping[str, float], against: str, wanted: Mapping[str, float]) -> None:
    """Print medians, their ratio to one side, and the ratio that is wanted."""
    table = Table("side", title=title, title_justify="left")
    for heading in ("median s", f"/ {against}", "wanted"):
        table.add_column(heading, justify="right")
    for name, median in medians.items():
        limit = f"<= {wanted[name]}" if name in wanted else ""
        table.add_row(name, f"{median:.3f}", f"{median / medians[against]:.3f}", limit)
    console.print(table)
