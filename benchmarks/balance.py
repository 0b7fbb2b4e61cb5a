"""How evenly each strategy spreads rows, measured by the rows that each worker really received.

    python benchmarks/balance.py

10^6 rows, 10^4 Zipf keys, 5 sources, n = 100. States are those that the workers send to the final aggregation.
"""

from __future__ import annotations

import numpy as np
from common import console, session, zipf_keys, zipf_parquet
from pyspark.sql import functions as F
from rich.table import Table

from saltwise.loads import worker_loads

ROWS, KEYS, SOURCES, N = 1_000_000, 10_000, 5, 100
STRATEGIES = ("hash", "shuffle", "pkg", "dchoices", "wchoices", "roundrobin")


def main() -> None:
    spark = session()
    for z in (0.8, 1.4, 2.0):
        shares = np.sort(np.bincount(zipf_keys(ROWS, KEYS, z)))[::-1] / ROWS
        head = int((shares >= 1 / (5 * N)).sum())
        table = Table("strategy", title=f"z = {z}: p1 = {shares[0]:.3f}, {head} keys in the head")
        for heading in ("max/mean", "states", "states / keys", "seconds"):
            table.add_column(heading, justify="right")
        df = spark.read.parquet(zipf_parquet(ROWS, KEYS, z, SOURCES))
        keys = df.select("k").distinct().count()
        for strategy in STRATEGIES:
            grouped = df.skew_groupby("k", strategy=strategy, partitions=N).agg(F.sum("v"))
            loads = worker_loads(spark, grouped.collect)
            table.add_row(
                strategy,
                f"{loads.max_to_mean:.3f}",
                f"{loads.states:,}",
                f"{loads.states / keys:.2f}",
                f"{loads.seconds:.2f}",
            )
        console.print(table)


if __name__ == "__main__":
    main()
