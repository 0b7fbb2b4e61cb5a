"""Shared parts of the benchmarks: Zipf data, a quiet session, a user's Scala functions, and interleaved timing."""

from __future__ import annotations

import csv
import hashlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from saltwise.streams import zipf

RESULTS = Path(__file__).parent / "results"
CACHE = Path(__file__).parent.parent / "build" / "benchmarks"
IN_MEMORY = Path("/dev/shm")
console = Console()


def session(cores: int = 2, **conf: str) -> SparkSession:
    """Start local Spark with the plugin, on two cores by default. AQE is off, so that plans run as they are printed.

    Other causes of slow and uneven times are avoided. A shuffle makes hundreds of files, and a disk takes up to half a
    millisecond to create one: here the files are in memory, if there is a file system for it. Spark keeps a hundred
    generated classes, and the JVM has to compile a class again after Spark has dropped it: here Spark keeps all.
    """
    if IN_MEMORY.is_dir():
        os.environ.setdefault("SPARK_LOCAL_DIRS", str(IN_MEMORY))
    builder = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.driver.memory", "8g")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.files.maxPartitionBytes", "1g")
        .config("spark.sql.codegen.cache.maxEntries", "5000")
    )
    return started(builder, **conf)


def started(builder: SparkSession.Builder, **conf: str) -> SparkSession:
    """Start Spark with the plugin, without its UI, and quietly. In the names of `conf`, `__` stands for a dot."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    for key, value in conf.items():
        builder = builder.config(key.replace("__", "."), value)
    spark = saltwise.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def users_jar() -> str:
    """Return the jar of UserAggregates.scala."""
    return compiled_jar(Path(__file__).with_name("UserAggregates.scala"))


def compiled_jar(source: Path) -> str:
    """Return the jar of a Scala file, which the Scala compiler in pyspark compiles the first time."""
    digest = hashlib.sha256(source.read_bytes() + pyspark.__version__.encode()).hexdigest()[:8]
    jar = CACHE / f"{source.stem}-{digest}.jar"
    if not jar.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        part = jar.with_suffix(".part.jar")
        libraries = f"{Path(pyspark.__file__).parent / 'jars' / '*'}:{saltwise.jar_path(pyspark.__version__)}"
        scalac = [find_java().path, "-Xss4m", "-cp", libraries, "scala.tools.nsc.Main", "-usejavacp"]
        subprocess.run([*scalac, "-d", part, source], check=True)
        part.rename(jar)
    return str(jar)


def register_users_aggregates(spark: SparkSession) -> None:
    """Register root_mean_square and waiting_count in a session with the jar of users_jar()."""
    spark._jvm.saltwise.benchmarks.UserAggregates.register(spark._jsparkSession)


def zipf_keys(rows: int, keys: int, z: float, seed: int = 1) -> np.ndarray:
    """Draw keys from 0 to keys - 1. The r-th key has a share proportional to r^-z, so key 0 is the hottest."""
    return np.asarray(zipf(rows, keys, z, seed).keys - 1)


def zipf_parquet(rows: int, keys: int, z: float, files: int) -> str:
    """Return a folder of `files` equal Parquet files with columns k (bigint), v (bigint), x (double)."""

    def tables() -> Iterator[pa.Table]:
        values = np.random.default_rng(2)
        for k in np.array_split(zipf_keys(rows, keys, z), files):
            yield pa.table({"k": k, "v": values.integers(0, 1000, len(k)), "x": values.random(len(k))})

    return parquet_folder(f"zipf-{rows}-{keys}-{z}-{files}", tables)


def parquet_folder(name: str, tables: Callable[[], Iterable[pa.Table]], **options: object) -> str:
    """Return a folder of this name with a Parquet file of each table. The files are made the first time.

    `options` are options of pyarrow's write_table.
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
    """Run all sides in turn, `rounds` times after warm-up; return the median of each side in seconds."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for i in track(range(warmup + rounds), "rounds", console=console, transient=True):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            if i >= warmup:
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}


def print_ratios(title: str, medians: Mapping[str, float], against: str, wanted: Mapping[str, float]) -> None:
    """Print medians, their ratios to one side, and the wanted ratios."""
    table = Table("side", title=title, title_justify="left")
    for heading in ("median s", f"/ {against}", "wanted"):
        table.add_column(heading, justify="right")
    for name, median in medians.items():
        limit = f"<= {wanted[name]}" if name in wanted else ""
        table.add_row(name, f"{median:.3f}", f"{median / medians[against]:.3f}", limit)
    console.print(table)


def write_csv(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write rows of the same columns, and make the folder if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
