"""How long saltwise.analyze takes, and how much time it saves when a query is planned.

    python benchmarks/analyze.py [rows] [rounds]

It is compared with the simplest query that looks at every key, SELECT k, count(*) GROUP BY k. Planning of a GROUP BY
with the statistics of analyze is compared with planning with a sample. Nothing is known from an earlier query.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from common import console, interleaved, print_ratios, session, zipf_parquet
from pyspark.sql import SparkSession

from saltwise import analyze

KEYS, FILES = 1_000_000, 16


def main(rows: int, rounds: int) -> None:
    spark = session(spark__sql__shuffle__partitions="32", spark__saltwise__enabled="true")
    for z in (0.8, 1.2):
        plain = zipf_parquet(rows, KEYS, z, FILES)
        with tempfile.TemporaryDirectory(dir=Path(plain).parent) as analyzed:
            for file in Path(plain).glob("*.parquet"):
                Path(analyzed, file.name).hardlink_to(file)
            scans = {
                "GROUP BY": lambda plain=plain: counted(spark, plain),
                "analyze": lambda analyzed=analyzed: analyze(spark, analyzed, "k"),
            }
            print_ratios(f"{rows:,} rows, z = {z}", interleaved(scans, rounds), "GROUP BY", {})
            plans = {
                "from a sample": planned(spark, plain),
                "known from the query before": planned(spark, plain, forget=False),
                "from analyze": planned(spark, analyzed),
            }
            print_ratios("planning", interleaved(plans, 5 * rounds), "from a sample", {})
    console.print("Each figure is the median of", rounds, "interleaved rounds, five times as many of planning.")


def counted(spark: SparkSession, path: str) -> None:
    spark.read.parquet(path).groupBy("k").count().write.format("noop").mode("overwrite").save()


def planned(spark: SparkSession, path: str, forget: bool = True) -> Callable[[], None]:
    """Plan a GROUP BY of files whose schema is known."""
    df = spark.read.parquet(path)
    known = spark._jvm.org.apache.spark.sql.saltwise.auto.KnownKeys  # type: ignore[union-attr]

    def plan() -> None:
        if forget:
            known.forget()
        df.groupBy("k").agg({"v": "collect_list"})._jdf.queryExecution().executedPlan()  # type: ignore[operator]

    return plan


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]]
    main(*given, *(8_000_000, 5)[len(given) :])
