"""skew_report: which keys are hot, how balanced each strategy would be, and what to do."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.sql import functions as F

from ..._optional import OptionalPackageError, required_by
from ...errors import SaltwiseValueError
from ...options import SettledOptions, SkewOptions, settle
from ...splitting.prediction import PREDICTED, predict
from ...tables import Printable, Table, bar, counted
from ..columns import WITHOUT_HASH, check_keys, holds_type, levels
from ..compat import check_batch
from ..session import require_plugin, session_options
from .explain import explain

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column, DataFrame, Row
    from rich.text import Text

_PRINTED_KEYS = 10
"""How many hot keys are printed. All of them are in `hot_keys`."""

_NOT_IN_SKETCHES = (*WITHOUT_HASH, "interval")
"""Types without an order, which a sketch needs."""

_MAX_LEVELS = 19
"""Levels of structs and arrays that a key of a sketch may have."""

_EXACT_TIMES = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "timeZone": "UTC",
}
"""Options of to_json, which drops microseconds without them."""

_BALANCED = 1.2
"""Up to this max/mean, nothing needs to be done."""


@dataclass(frozen=True)
class HotKey:
    """A key whose share of the rows is at least theta."""

    key: tuple[Any, ...]
    """The values of the key columns."""
    count: int
    """Rows counted, and the upper bound of the true number."""
    lower: int
    """The lower bound of the true number of rows."""
    share: float
    """count as a share of all rows."""
    text: tuple[str | None, ...]
    """The values as Spark spells them, which the `hot` option reads back."""

    def __str__(self) -> str:
        return ", ".join("NULL" if value is None else value for value in self.text)


@dataclass(frozen=True)
class SkewReport(Printable):
    """Hot keys with bounds, predicted balance, and advice. Prints as tables, in a notebook as HTML."""

    keys: tuple[str, ...]
    """Names of the key columns."""
    rows: int
    partitions: int
    theta: float
    hot_keys: tuple[HotKey, ...]
    """Most frequent first."""
    predicted: dict[str, float]
    """Strategy to max/mean of rows per worker. `stock` is Spark's own hash of the keys, and `hash` is ours."""
    advice: str
    auto: str
    """What the strategy ``auto`` does if states grow with their rows, and why."""
    placements: dict[str, float]
    """Placement to max/mean of rows per worker, if no group may be split; empty if numpy is not installed."""
    lower_bound: float
    """max(1, p1 n), where p1 is the share of the heaviest key. No placement gets below it."""
    placement_advice: str
    """Whether placement is enough, or only splitting helps, and how exact the prediction is."""

    def to_pandas(self) -> pd.DataFrame:
        """Return the hot keys as a pandas DataFrame: a column for each key column, count, lower, share."""
        import pandas as pd

        names = [*self.keys, "count", "lower", "share"]
        return pd.DataFrame([(*k.key, k.count, k.lower, k.share) for k in self.hot_keys], columns=names)

    def hot_json(self) -> str:
        """Return the hot keys in the format of the conf and the option `hot`."""
        if not self.hot_keys:
            raise SaltwiseValueError(
                f"the report has no hot key among its {self.rows} rows; leave hot out, or lower theta."
            )
        return json.dumps([{"key": list(k.text), "share": k.share} for k in self.hot_keys])

    def _parts(self) -> Iterator[str | Text | Table]:
        from rich.text import Text

        title = Text.assemble((f"Skew of {', '.join(self.keys)}", "bold"))
        yield title + (
            f": {self.rows:,} rows on {counted(self.partitions, 'task')}; a key is hot if it has {self.theta:.3g} of "
            "them or more (theta)"
        )
        hot = [(str(k), f"{k.count:,}", f"{k.lower:,}", f"{k.share:.2%}") for k in self.hot_keys[:_PRINTED_KEYS]]
        yield Table(hot, ("hot key", "rows (at most)", "at least", "share"))
        if len(self.hot_keys) > _PRINTED_KEYS:
            yield f"and {len(self.hot_keys) - _PRINTED_KEYS} more"
        yield Table(_shown_ratios(self.predicted), ("strategy", "predicted max/mean", ""))
        yield self.advice
        yield f"auto, for states that grow: {self.auto}"
        placements = self.placements | {"lower bound": self.lower_bound}
        yield Table(_shown_ratios(placements), ("placement, no group split", "predicted max/mean", ""))
        yield self.placement_advice


def _shown_ratios(ratios: dict[str, float]) -> list[tuple[str, str, Text]]:
    largest = max(ratios.values(), default=1.0)
    return [(name, f"{ratio:.2f}", bar(ratio, largest)) for name, ratio in ratios.items()]


def skew_report(
    df: DataFrame,
    *keys: Column | str,
    partitions: int | None = None,
    theta: float | None = None,
    epsilon: float | None = None,
) -> SkewReport:
    """Find the hot keys of a DataFrame, and predict how each strategy would spread its rows.

    This takes one pass over the key columns, with a SpaceSaving sketch of 4/theta counters. If an option is left out,
    the session's conf counts, as for :func:`saltwise.skew_groupby`.

    Args:
        df: the rows to be grouped.
        keys: the key columns.
        partitions: n, the number of workers; the shuffle partitions by default.
        theta: the share of rows from which a key is hot; 1/(5n) by default.
        epsilon: the imbalance that ``dchoices`` may leave, as a share of all rows; 1e-4 by default.

    Raises:
        SaltwiseValueError: `df` is a stream, there is no key column, a key holds a map, or a value is out of range.
        PluginMissingError: the session has no plugin.

    >>> print(skew_report(df, "carrier", partitions=100).advice)  # doctest: +SKIP
    """
    check_batch("df", df)
    if not keys:
        raise SaltwiseValueError("keys is empty; name at least one column to group by.")
    options = SkewOptions(partitions=partitions, theta=theta, epsilon=epsilon)
    require_plugin(df.sparkSession)
    settled = settle(options, session_options(df.sparkSession))
    columns = df.select(*keys)
    check_keys(columns.schema, _NOT_IN_SKETCHES)
    for key in columns.schema:
        if levels(key.dataType) > _MAX_LEVELS:
            raise SaltwiseValueError(
                f"key {key.name!r} has {levels(key.dataType)} levels of structs and arrays; it must have at most "
                f"{_MAX_LEVELS}: take a part of it."
            )
    numbered = columns.toDF(*(f"k{i}" for i in range(len(columns.columns))))
    n = settled.workers
    rows, heavy = _heavy_keys(numbered, settled)
    hot = tuple(
        HotKey(
            key=tuple(row["item"]),
            count=row["count"],
            lower=row["count"] - row["error"],
            share=row["count"] / rows,
            text=tuple(row["text"]),
        )
        for row in heavy
        if row["count"] >= settled.theta * rows
    )
    # Only lower bounds are safe: if keys are even, each counter has the rows of many keys.
    shares = [(row["hash"], (row["count"] - row["error"]) / rows) for row in heavy]
    tail = 1 - math.fsum(share for _, share in shares)
    by_spark: dict[int, float] = defaultdict(float)
    for row, (_, share) in zip(heavy, shares, strict=True):
        by_spark[row["partition"]] += share
    predicted = {"stock": n * max(by_spark.values(), default=0.0) + tail} | {
        name: predict(shares, name, n, theta=settled.theta, epsilon=settled.epsilon) if rows else 1.0
        for name in PREDICTED
    }
    bound = max(1.0, n * max((share for _, share in shares), default=0.0))
    placements: dict[str, float] = {}
    if rows == 0:
        placement_advice = "There are no rows, so there is nothing to place."
    else:
        try:
            placements = _placements(shares, n, settled.theta)
            deviation = math.sqrt(n * max(0.0, tail) / settled.capacity)
            placement_advice = _placement_advice(placements, n, bound=bound, tail=tail, deviation=deviation)
        except OptionalPackageError as error:
            placement_advice = str(error)
    return SkewReport(
        keys=tuple(columns.columns),
        rows=rows,
        partitions=n,
        theta=settled.theta,
        hot_keys=hot,
        predicted=predicted,
        advice=_advice(hot, predicted, rows, n),
        auto=_auto(numbered, n),
        placements=placements,
        lower_bound=bound,
        placement_advice=placement_advice,
    )


def _heavy_keys(numbered: DataFrame, settled: SettledOptions) -> tuple[int, list[Row]]:
    """Return the number of rows, and the keys with a share of at least 1/capacity, the most frequent first."""
    names, capacity = numbered.columns, settled.capacity
    top = F.call_function("heavy_hitters", F.struct(*names), F.lit(capacity), F.lit(capacity))
    heavy = (
        numbered.agg(F.count(F.lit(1)).alias("rows"), top.alias("top"))
        # One row stays, with the number of rows, even if no key is heavy.
        .select(
            "rows", F.explode_outer(F.filter("top", lambda key: key["count"] >= F.col("rows") / capacity)).alias("top")
        )
        .select("rows", "top.*")
        .select(
            "rows",
            "count",
            "error",
            F.struct(*(_shown(numbered, name) for name in names)).alias("item"),
            F.xxhash64(*(f"item.{name}" for name in names)).alias("hash"),
            # Where Spark's own exchange sends the key.
            F.pmod(F.hash(*(f"item.{name}" for name in names)), F.lit(settled.workers)).alias("partition"),
            F.array(*(_text(numbered, name) for name in names)).alias("text"),
        )
        .collect()
    )
    return heavy[0]["rows"], [row for row in heavy if row["count"] is not None]


def _placements(shares: list[tuple[int, float]], n: int, theta: float) -> dict[str, float]:
    """Return the predicted max/mean of each placement.

    Raises:
        OptionalPackageError: numpy cannot be imported.
    """
    with required_by("Predicting placements", extra="arrow"):
        from ...placement.prediction import predict_placements
    # Structs that differ only in the place of a NULL have the same hash, and are placed together.
    share_of_hash: dict[int, float] = {}
    for key, share in shares:
        share_of_hash[key] = share_of_hash.get(key, 0.0) + share
    return predict_placements([(key, share) for key, share in share_of_hash.items() if share > 0], n, theta)


def _placement_advice(placements: dict[str, float], n: int, *, bound: float, tail: float, deviation: float) -> str:
    """Return what placement can do, and how exact the prediction is.

    Rows whose key is not known have the share `tail`. Their number on a worker has the standard deviation `deviation`,
    as a multiple of the mean. None of these keys has more than 1/capacity of the rows, so the squares of their shares
    add up to tail/capacity at most. A hash gives each worker one n-th of that as variance.
    """
    best = min(placements, key=placements.__getitem__)
    need = (
        f"Splitting is needed to go below {bound:.2f}: the heaviest key alone has that many times the mean of {n} tasks"
        if bound > 1
        else f"No splitting is needed: the heaviest key has no more than the mean of {n} tasks"
    )
    least, by_hash = f"{placements[best]:.2f}", f"{placements['hash']:.2f}"
    placed = (
        f"the hash comes to {by_hash}, and no placement to less"
        if least == by_hash
        else f"placement by {best} comes to {least}, by hash to {by_hash}"
    )
    return (
        f"{need}; {placed}. Keys that are not known have {tail:.0%} of the rows and count as spread by the hash, so a "
        f"task may be off by some {deviation:.2f} of the mean."
    )


def _auto(numbered: DataFrame, n: int) -> str:
    """Return what auto would do with a state that grows."""
    view = f"saltwise_{uuid4().hex}"
    keys = ", ".join(numbered.columns)
    numbered.createTempView(view)
    try:
        query = f"SELECT {keys}, collect_list(1) FROM {view} GROUP BY {keys}"
        return explain(numbered.sparkSession, query, strategy="auto", partitions=n).reason
    finally:
        numbered.sparkSession.catalog.dropTempView(view)


def _shown(df: DataFrame, name: str) -> Column:
    """Return the value, as text if Python has no type for it."""
    column = F.col(f"item.{name}")
    return column.cast("string") if holds_type(df.schema[name].dataType, ("yearmonthinterval",)) else column


def _text(df: DataFrame, name: str) -> Column:
    """Return the value as text that the `hot` option reads."""
    kind = df.schema[name].dataType.typeName()
    column = F.col(f"item.{name}")
    if kind in ("struct", "array"):
        return F.to_json(column, _EXACT_TIMES)
    return F.base64(column) if kind == "binary" else column.cast("string")


def _advice(hot: tuple[HotKey, ...], predicted: dict[str, float], rows: int, n: int) -> str:
    if rows == 0:
        return "There are no rows, so there is nothing to balance."
    before = predicted["stock"]
    if before <= _BALANCED or not hot:
        return f"Leave it alone: by key, the largest of {n} tasks gets {before:.2f} times the mean."
    best = next(s for s in ("pkg", "dchoices", "wchoices") if predicted[s] <= _BALANCED or s == "wchoices")
    return (
        f"Key {hot[0]} has {hot[0].share:.0%} of the rows, so the largest of {n} tasks gets {before:.1f} times the "
        "mean where states grow with their rows, as in exact percentiles. There auto reads it in slices "
        f"({predicted['split']:.2f} times), and strategy={best!r} shuffles rows once more ({predicted[best]:.2f} "
        "times). A list as of collect_list is still made in one task. Sums and counts are combined before the shuffle "
        "and need nothing."
    )
