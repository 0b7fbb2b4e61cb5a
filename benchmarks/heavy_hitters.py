"""heavy_hitters against Spark's approx_top_k (4.1 and later), with the same capacity.

    python benchmarks/heavy_hitters.py [rounds]

8 million rows from 16 Parquet files, 10^5 Zipf keys, top 10; keys as bigint and as string, two cores.
"""

from __future__ import annotations

import sys

from common import console, interleaved, print_ratios, session, zipf_parquet


def main(rounds: int) -> None:
    spark = session()
    for z in (0.8, 1.4):
        df = spark.read.parquet(zipf_parquet(8_000_000, 100_000, z, files=16))
        for key in ("k", "cast(k AS string)"):
            for capacity in (1_000, 10_000):
                calls = {
                    "approx_top_k": f"approx_top_k({key}, 10, {capacity})",
                    "heavy_hitters": f"heavy_hitters({key}, 10, {capacity})",
                }
                # A new DataFrame each time: a second collect of the same one would skip its map tasks.
                runs = {name: lambda df=df, call=call: df.selectExpr(call).collect() for name, call in calls.items()}
                medians = interleaved(runs, rounds)
                title = f"{key}, z = {z}, capacity {capacity}"
                print_ratios(title, medians, "approx_top_k", {"heavy_hitters": 1.0})
    console.print("Each figure is the median of", rounds, "interleaved rounds.")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
