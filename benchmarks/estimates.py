"""The sample of keys against the truth: which share of rows batches of each size combine, for the rows of orders.py.

    python benchmarks/estimates.py

For each order of arrival, number of keys and number of rows of orders.py, and each of its map tasks. The sample has no
hot keys, as in a task, where they have states at once: the 500 keys with the most rows are left out. A key is combined
in a batch that has eight of its rows or more. Batches have 2^12, 2^14, ... rows, as many as a task has at least.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from common import compiled_jar, console, session
from orders import FILES, KEYS, ORDERS, ROWS, cells
from pyspark.sql import SparkSession

SIZES = [1 << bits for bits in (12, 14, 16, 18, 20)]
HOTTEST = 500
LEAST = 8
SCALA = Path(__file__).parents[1] / "tests" / "plans" / "KeySamples.scala"


def main() -> None:
    spark = session(spark__jars=compiled_jar(SCALA))
    largest = []
    for order, keys, rows in sorted({(cell.order, cell.keys, cell.rows) for cell in cells()}):
        off = [error for task in tasks_of(order, KEYS[keys], ROWS[rows]) for error in errors(spark, task)]
        largest.append(max(off, default=0.0))
        console.print(f"{order:14} {keys:>9} {rows:5} {len(off):3} estimates, off by {largest[-1]:.3f} at most")
    console.print(
        f"{len(largest)} streams: off by {max(largest):.3f} at most, {sum(e > 0.05 for e in largest)} above 0.05"
    )


def tasks_of(order: str, keys: int, share: float) -> list[np.ndarray]:
    """Return the keys of each map task."""
    row = np.arange(int(share * 1_600_000))
    return np.array_split(ORDERS[order](row, keys, np.random.default_rng(1)), FILES)


def errors(spark: SparkSession, keys: np.ndarray) -> list[float]:
    """Return by how much the estimate for each size is off."""
    found, counts = np.unique(keys, return_counts=True)
    rare = keys[~np.isin(keys, found[np.argsort(counts)[-HOTTEST:]])]
    samples = spark._jvm.org.apache.spark.sql.saltwise.local.KeySamples
    estimates = samples.combined(bytearray(hashes(rare).tobytes()), LEAST)
    return [abs(estimate - combined(rare, size)) for estimate, size in zip(estimates, SIZES, strict=False)]


def hashes(keys: np.ndarray) -> np.ndarray:
    """Return a random number of 64 bits for each key."""
    found, key = np.unique(keys, return_inverse=True)
    return np.random.default_rng(5).integers(-(1 << 63), (1 << 63) - 1, len(found))[key]


def combined(keys: np.ndarray, size: int) -> float:
    """Return the share of rows in full batches whose key has at least LEAST rows in its batch."""
    full = keys[: len(keys) // size * size]
    keys_of_all, key = np.unique(full, return_inverse=True)
    counts = np.unique(np.arange(len(full)) // size * len(keys_of_all) + key, return_counts=True)[1]
    return float(counts[counts >= LEAST].sum() / max(1, len(full)))


if __name__ == "__main__":
    main()
