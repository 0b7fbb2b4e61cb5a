"""The cost of routing: SkewRoute and its exchange, against Spark's own repartition(n, key) of the same rows.

    python benchmarks/routing.py [rounds]

8 million rows of 3 columns from 16 Parquet files, 10^5 Zipf keys, n = 200, two cores. Both sides shuffle all rows
and read them back; nothing is aggregated. In the last table there is a shuffle below. The online strategies then sort
the rows first. hash does not sort, and shuffles like repartition.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from common import console, interleaved, print_ratios, session, zipf_parquet
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from saltwise import skew_groupby

N = 200
STRATEGIES = ("hash", "pkg", "dchoices", "wchoices", "roundrobin")
WANTED = {"pkg": 1.25, "dchoices": 1.4, "wchoices": 1.4}


def main(rounds: int) -> None:
    spark = session()
    for z in (0.8, 1.4, 2.0):
        scan = spark.read.parquet(zipf_parquet(8_000_000, 100_000, z, files=16))
        runs = {"repartition": drain(plan_of(scan.repartition(N, "k")))} | routed(scan)
        print_ratios(f"8 M rows, 10^5 keys, z = {z}, n = {N}", interleaved(runs, rounds), "repartition", WANTED)
    over_shuffle = routed(scan.repartition(16, "x"))
    print_ratios(f"the same over a shuffle, z = {z}", interleaved(over_shuffle, rounds), "hash", {})
    console.print("Each figure is the median of", rounds, "interleaved rounds.")


def routed(df: DataFrame) -> dict[str, Callable[[], object]]:
    """Return a function for each strategy that reads its exchange to the end."""
    grouped = {name: skew_groupby(df, "k", strategy=name, partitions=N) for name in STRATEGIES}
    plans = {name: plan_of(skewed.agg(F.max("v"), F.max("x"))) for name, skewed in grouped.items()}
    return {name: drain(below_aggregate(plan)) for name, plan in plans.items()}


def plan_of(df: Any) -> Any:
    return df._jdf.queryExecution().executedPlan()


def below_aggregate(plan: Any) -> Any:
    """Return the exchange under SkewReceive, which is all that the strategy adds."""
    while not plan.nodeName().startswith("SkewReceive"):
        plan = plan.children().apply(0)
    plan = plan.children().apply(0)
    return plan if "Exchange" in plan.nodeName() else plan.children().apply(0)


def drain(plan: Any) -> Callable[[], object]:
    """Return a function that shuffles again in each call: it reads a new RDD of a copy of the plan to the end."""
    return lambda: plan.clone().execute().count()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
