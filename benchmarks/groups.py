"""How evenly applyInPandas is spread if no group may be split: the rows of each task, for stock Spark and placed.

    python benchmarks/groups.py [seeds]

300 Zipf groups, n = 16, 400,000 rows in 8 map tasks; a group's work is proportional to its rows. The bound is the
load that the heaviest key alone puts on one task, max(1, p1 n). Both sides run in turn in one session.
"""

from __future__ import annotations

import statistics
import sys

import numpy as np
import pandas as pd
from common import console, session, zipf_parquet
from rich.table import Table

from saltwise.loads import worker_loads

ROWS, GROUPS, SOURCES, N = 400_000, 300, 8, 16


def spread(group: pd.DataFrame) -> pd.DataFrame:
    """Do some work for each row."""
    values = np.sort(np.sin(np.repeat(group["v"].to_numpy(), 50)))
    return pd.DataFrame({"k": [group["k"].iloc[0]], "rows": [len(group)], "x": [float(values[0])]})


def main(seeds: int) -> None:
    spark = session(spark__sql__shuffle__partitions=str(N))
    table = Table("z", title=f"applyInPandas: {GROUPS} groups, n = {N}, medians (worst) of {seeds} seeds")
    headings = ("bound", "stock max/mean", "placed max/mean", "placed / bound", "stock s", "placed s", "placed / stock")
    for heading in headings:
        table.add_column(heading, justify="right")
    for z in (0.6, 0.9, 1.2):
        found: dict[str, list[float]] = {heading: [] for heading in headings}
        for seed in range(seeds + 1):
            # Other names for the keys, so that Spark's hash puts them elsewhere.
            df = spark.read.parquet(zipf_parquet(ROWS, GROUPS, z, SOURCES)).selectExpr(f"xxhash64(k, {seed}) AS k", "v")
            stock, placed = (
                worker_loads(spark, grouped.applyInPandas(spread, "k long, rows long, x double").collect)
                for grouped in (df.groupBy("k"), df.skew_groupby("k"))
            )
            assert sorted(stock.result) == sorted(placed.result)
            if seed == 0:
                continue  # warm-up
            bound = max(1.0, N * max(row["rows"] for row in stock.result) / ROWS)
            values = (bound, stock.max_to_mean, placed.max_to_mean, placed.max_to_mean / bound)
            for heading, value in zip(
                headings, (*values, stock.seconds, placed.seconds, placed.seconds / stock.seconds), strict=True
            ):
                found[heading].append(value)
        table.add_row(str(z), *(f"{statistics.median(found[h]):.3f} ({max(found[h]):.3f})" for h in headings))
    console.print(table)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
