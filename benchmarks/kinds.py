"""The kinds of aggregate in the grid: the calls, how answers are compared, and how it is salted by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.group import GroupedData
from pyspark.sql.pandas.functions import pandas_udf


@dataclass(frozen=True)
class Kind:
    """A kind of aggregate over k (bigint), v (double, whole numbers) and s (string)."""

    calls: Callable[[], list[Column]]
    compared: Callable[[], Column] = lambda: F.col("r0")
    """The part of the first result that is compared between plans."""
    tolerance: float = 0.0
    """How much the sums of this part may differ. With 0, every value is compared."""
    salted: tuple[Callable[[], list[Column]], Callable[[], list[Column]]] | None = None
    """The aggregates of each salt of a key (as p0, p1, ...), and those that merge them; None if they do not merge."""
    merges: bool = True
    """Whether Spark merges its states. If not, there is only one plan, and Saltwise leaves it alone."""
    rows_to_one: int = 1
    """It gets one of so many rows."""

    def named(self, calls: Sequence[Column]) -> list[Column]:
        return [call.alias(f"r{i}") for i, call in enumerate(calls)]

    def grouped(self, grouped: GroupedData) -> DataFrame:
        return grouped.agg(*self.named(self.calls()))

    def salted_by_hand(self, df: DataFrame, salts: int) -> DataFrame:
        assert self.salted is not None
        first, merged = self.salted
        parts = [call.alias(f"p{i}") for i, call in enumerate(first())]
        of_salts = df.groupBy("k", F.floor(F.rand(1) * salts).alias("salt")).agg(*parts)
        return of_salts.groupBy("k").agg(*self.named(merged()))

    def digest(self) -> Column:
        """Return an aggregate over the answer that differs for different answers."""
        if self.tolerance:
            return F.sum(self.compared())
        others = [f"r{i}" for i in range(1, len(self.calls()))]
        return F.bit_xor(F.xxhash64("k", self.compared(), *others))


def spread() -> Column:
    @pandas_udf("double")
    def max_less_min(v: pd.Series) -> float:
        return float(v.max() - v.min())

    return max_less_min("v")


KINDS = {
    "sum_count": Kind(
        lambda: [F.sum("v"), F.count("*")],
        salted=(lambda: [F.sum("v"), F.count("*")], lambda: [F.sum("p0"), F.sum("p1")]),
    ),
    "max_string": Kind(lambda: [F.max("s")], salted=(lambda: [F.max("s")], lambda: [F.max("p0")])),
    "approx_count_distinct": Kind(lambda: [F.approx_count_distinct("v")]),
    "hll": Kind(
        lambda: [F.hll_sketch_agg("s")],
        lambda: F.hll_sketch_estimate("r0"),
        tolerance=0.05,
        salted=(lambda: [F.hll_sketch_agg("s")], lambda: [F.hll_union_agg("p0")]),
    ),
    "percentile_approx": Kind(lambda: [F.percentile_approx("v", 0.5)], tolerance=0.001),
    "median": Kind(lambda: [F.median("v")]),
    "mode": Kind(lambda: [F.mode("v", deterministic=True)]),
    "collect_set": Kind(
        lambda: [F.collect_set("v")],
        lambda: F.sort_array("r0"),
        salted=(lambda: [F.collect_set("v")], lambda: [F.array_distinct(F.flatten(F.collect_list("p0")))]),
    ),
    "max_by": Kind(
        lambda: [F.max_by("s", "v")],
        salted=(lambda: [F.max_by("s", "v"), F.max("v")], lambda: [F.max_by("p0", "p1")]),
    ),
    "user_scala": Kind(lambda: [F.call_function("root_mean_square", "v")]),
    "user_python": Kind(lambda: [spread()], merges=False, rows_to_one=40),
}
