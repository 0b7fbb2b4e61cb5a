"""What routing costs: SkewRoute and its exchange, against Spark's own repartition(n, key) of the same rows.

    python benchmarks/routing.py [rounds]

8 million rows of 3 columns from 16 Parquet files, 10^5 Zipf keys, n = 200, two cores. Both sides shuffle all rows
and read them back; nothing is aggregated.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from common import console, interleaved, print_ratios, session, zipf_parquet
from pyspark.sql import functions as F

N = 200
STRATEGIES = ("hash", "pkg", "dchoices", "wchoices", "roundrobin")
WANTED = {"pkg": 1.25, "dchoices": 1.4, "wchoices": 1.4}


def main(rounds: int) -> None:
    spark = session()
    for z in (0.8, 1.4, 2.0):
        df = spark.read.parquet(zipf_parquet(8_000_000, 100_000, z, files=16))
        runs: dict[str, Callable[[], object]] = {"repartition": drain(plan_of(df.repartition(N, "k")))}
        for strategy in STRATEGIES:
            grouped = df.skew_groupby("k", strategy=strategy, partitions=N)
            runs[strategy] = drain(below_aggregate(plan_of(grouped.agg(F.max("v"), F.max("x")))))
        medians = interleaved(runs, rounds)
        print_ratios(f"8 M rows, 10^5 keys, z = {z}, n = {N}", medians, "repartition", WANTED)
    console.print("Each figure is the median of", rounds, "interleaved rounds.")


def plan_of(df: Any) -> Any:
    return df._jdf.queryExecution().executedPlan()


def below_aggregate(plan: Any) -> Any:
    """The exchange under SkewReceive: all that the strategy adds."""
    while not plan.nodeName().startswith("SkewReceive"):
        plan = plan.children().apply(0)
    plan = plan.children().apply(0)
    return plan if "Exchange" in plan.nodeName() else plan.children().apply(0)


def drain(plan: Any) -> Callable[[], object]:
    """Shuffle anew each time: a new RDD from a copy of the plan, read to its end."""
    return lambda: plan.clone().execute().count()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
