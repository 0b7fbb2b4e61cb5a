"""The constants of the cost model (PlanCosts.scala), from the times of real plans on this machine.

    python benchmarks/calibrate.py [rows] [rounds]

For each kind of Spark's operators, stock, split and local run in turn over Zipf, uniform and few keys. The time per
row without the scan is linear in the constants. The terms are those of PlanCosts, with the true keys instead of those
of a sample. The constants are fitted by non-negative least squares, weighted so that relative errors count.
"""

from __future__ import annotations

import sys

import numpy as np
from common import console, interleaved, register_users_aggregates, session, users_jar
from grid import SKEWS, data
from kinds import KINDS
from pyspark.sql import DataFrame
from rich.table import Table
from scipy.optimize import nnls

from saltwise import skew_groupby

CORES, TASKS, PARTITIONS = 2, 16, 32
CONSTANTS = ("update", "group", "row", "state", "lookup")
OPERATORS = {
    "Growing": ["percentile_approx", "median", "collect_set"],
    "Objects": ["hll", "user_scala"],
    "Sorted": ["max_string", "max_by"],
    "Imperative": ["approx_count_distinct"],
}
SKEWED = ("uniform", "z=0.8", "z=1.2", "z=1.6", "20 keys")
KEYS_WITHOUT_SORT, CAPACITY, ROWS_IN_TASK = 128, 2048, 64


def main(rows: int, rounds: int) -> None:
    spark = session(
        spark__sql__adaptive__enabled="true",
        spark__sql__shuffle__partitions=str(PARTITIONS),
        spark__jars=users_jar(),
        spark__sql__files__maxPartitionBytes=str(rows * 2),
    )
    register_users_aggregates(spark)
    table = Table("operator", *CONSTANTS, "worst error", title="microseconds of a core a row")
    for operator, kinds in OPERATORS.items():
        terms, taken = [], []
        for skew in SKEWED:
            df = spark.read.parquet(data(skew, rows))
            weights_of = terms_of(SKEWS[skew](rows), operator)
            for kind in kinds:
                runs = {"scan": drained(df.select("k", "v", "s"))} | {
                    plan: drained(aggregated(df, kind, plan)) for plan in ("stock", "split", "local")
                }
                medians = interleaved(runs, rounds, warmup=1)
                for plan, weights in weights_of.items():
                    terms.append(weights)
                    taken.append((medians[plan] - medians["scan"]) * CORES / rows * 1e6)
        matrix, measured = np.array(terms), np.maximum(np.array(taken), 0.01)
        constants, _ = nnls(matrix / measured[:, None], np.ones(len(measured)))
        errors = np.abs(matrix @ constants / measured - 1)
        table.add_row(operator, *(f"{constant:.2f}" for constant in constants), f"{errors.max():.0%}")
    console.print(table)


def drained(df: DataFrame) -> object:
    return df.write.format("noop").mode("overwrite").save


def aggregated(df: DataFrame, kind: str, plan: str) -> DataFrame:
    grouped = df.groupBy("k") if plan == "stock" else skew_groupby(df, "k", strategy=plan)
    return KINDS[kind].grouped(grouped)


def terms_of(keys: np.ndarray, operator: str) -> dict[str, list[float]]:
    """Return how often each constant counts per row, by plan: as in PlanCosts, with the true keys of a task."""
    task = keys[::TASKS]
    counts = np.unique(task, return_counts=True)[1]
    states = len(counts) / len(task)
    grows, has_objects = operator == "Growing", operator in ("Growing", "Objects")
    groups = float(len(counts) > KEYS_WITHOUT_SORT or not has_objects)
    head = counts[counts >= max(ROWS_IN_TASK, len(task) / CAPACITY, len(task) / (5 * PARTITIONS) if grows else 0)]
    combined = head.sum() / len(task)
    rest = 1 - combined
    return {
        "stock": [1, groups * (1 + states), 0, states, 0],
        "split": [1, groups, 1, 0, 0],
        "local": [1, rest * groups, rest, len(head) / len(task), rest],
    }


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]]
    main(*given, *(2_000_000, 3)[len(given) :])
