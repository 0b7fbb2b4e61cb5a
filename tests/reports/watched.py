"""Runs some queries with Spark's UI and an event log, and prints as JSON what the tab Saltwise shows of them.

    python tests/reports/watched.py FOLDER [--conf KEY=VALUE]... [--rows 400000]

The event log is written to FOLDER. Each page is fetched once before the times are taken.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pandas as pd
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import saltwise

ROWS = 400_000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--conf", action="append", default=[])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--groups", type=int, default=0, help="so many more GROUP BYs of a few rows")
    parser.add_argument("--wait", action="store_true", help="serve the UI until the standard input ends")
    given = parser.parse_args()
    globals()["ROWS"] = given.rows
    spark = started(given.folder, dict(each.split("=", 1) for each in given.conf))
    queries(spark)
    for i in range(given.groups):
        spark.range(9).groupBy((F.col("id") % (i + 1)).alias("k")).agg(F.collect_list("id")).collect()
    found: dict[str, object] = {"spark": spark.version, "savings": str(saltwise.savings(spark))}
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    ui = spark.sparkContext.uiWebUrl
    if ui is not None:
        port = ui.rsplit(":", 1)[1]
        found["url"] = url = f"http://localhost:{port}/saltwise/"
        found["home"] = fetch(f"http://localhost:{port}/jobs/")[0]
        found["page"], _ = fetch(url)
        found["page_seconds"] = min(fetch(url)[1] for _ in range(5))
        links = re.findall(r"/saltwise/group/\?id=\d+", str(found["page"]))
        found["groups"] = [fetch(f"http://localhost:{port}{link}")[0] for link in links[:20]]
    print(json.dumps(found), flush=True)
    if given.wait:
        sys.stdin.read()
    spark.stop()


def started(folder: Path, confs: dict[str, str]) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("watched")
        .config("spark.ui.port", "0")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.dir", folder.absolute().as_uri())
        .config("spark.sql.shuffle.partitions", "8")
        .config("spark.sql.adaptive.coalescePartitions.enabled", "false")
    )
    for key, value in confs.items():
        builder = builder.config(key, value)
    spark = saltwise.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def queries(spark: SparkSession) -> None:
    """A skewed list, a sum that Spark combines itself, a window, two joins, a routed aggregate, a function that fails."""
    ids = spark.range(0, ROWS, 1, 4)
    skewed = ids.select(
        F.when(F.col("id") % 4 > 0, "hot").otherwise((F.col("id") % 97).cast("string")).alias("k"), "id"
    )
    skewed.createOrReplaceTempView("skewed")
    spark.range(97).selectExpr("CAST(id AS STRING) AS k", "id % 3 AS g").createOrReplaceTempView("sides")
    spark.conf.set("spark.saltwise.auto.smallInput", "0")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    for mode in ("observe", "on"):
        spark.conf.set("spark.saltwise.mode", mode)
        spark.sql("SELECT k, percentile_approx(id, 0.5) FROM skewed GROUP BY k").collect()
        spark.sql("SELECT upper(k) AS name, sum(id) FROM skewed GROUP BY upper(k)").collect()
        spark.sql("SELECT k, rank() OVER (PARTITION BY k ORDER BY id) AS r FROM skewed").where("r * 2 = 3").collect()
        spark.sql("SELECT g, max(id) FROM skewed JOIN sides ON skewed.k = sides.k GROUP BY g").collect()
        spark.sql("SELECT sides.k, min(id + g) FROM skewed JOIN sides ON skewed.k = sides.k GROUP BY sides.k").collect()
        if mode == "observe":
            with contextlib.suppress(PySparkException):
                skewed.groupBy("k").applyInPandas(full, "rows bigint").collect()
        if mode == "on":
            even = skewed.selectExpr("id % 97 AS g", "id").selectExpr("rank() OVER (PARTITION BY g ORDER BY id) AS r")
            even.where("r * 2 = 3").collect()
            spark.conf.set("spark.saltwise.report.keys", "false")
        # The last one: the ledger must have it as soon as it is asked. Its hot keys are shown as hashes.
        spark.sql("SELECT /*+ SKEW_GROUPBY(dchoices, 'partitions=8') */ k, count(*) FROM skewed GROUP BY k").collect()


def full(group: pd.DataFrame) -> pd.DataFrame:
    """Run out of memory on the hot key."""
    if len(group) > ROWS / 2:
        raise MemoryError
    return pd.DataFrame({"rows": [len(group)]})


def fetch(url: str) -> tuple[str, float]:
    begun = time.perf_counter()
    with urlopen(url) as answer:
        text = answer.read().decode()
    return text, time.perf_counter() - begun


if __name__ == "__main__":
    main()
