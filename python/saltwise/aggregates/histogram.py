"""Histograms of bounded size, from which a decision tree takes its splits.

Ben-Haim and Tom-Tov, "A Streaming Parallel Decision Tree Algorithm", JMLR 2010, section 2.1: bins are points with
counts. If there are too many, the closest two become one. Here many rows come at once, so several of the closest pairs
are merged in one step, but never two pairs that share a point. That keeps the work in numpy. The result depends
slightly on the batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ..errors import check_whole
from ..spark.aggregators.protocol import Aggregator
from .columns import Doubles, doubles

if TYPE_CHECKING:
    from pyspark.sql import Column

State = tuple[Doubles, Doubles]


class StreamingHistogram(Aggregator):
    """At most `bins` points with the number of rows around each, in ascending order, as an array of structs.

    Args:
        column: the numbers. NULLs and NaNs are skipped.
        bins: the largest number of points, at least 2.

    Raises:
        SaltwiseValueError: bins is not a whole number of at least 2.

    >>> shape = StreamingHistogram("ms", bins=2)
    >>> shape.finish(shape.update(shape.zero(), pa.record_batch({"ms": [1, 2, 9, 9]})))
    [{'center': 1.5, 'rows': 2}, {'center': 9.0, 'rows': 2}]
    """

    returns = "array<struct<center: double, rows: bigint>>"
    approximate = True

    def __init__(self, column: str | Column, bins: int = 64) -> None:
        super().__init__(column)
        check_whole("bins", bins, 2)
        self.bins = bins

    def zero(self) -> State:
        return np.empty(0), np.empty(0)

    def update(self, state: State, batch: pa.RecordBatch) -> State:
        values = doubles(batch.column(0))
        points, rows = np.unique(values[~np.isnan(values)], return_counts=True)
        return self.merge(state, (points, rows.astype(float)))

    def merge(self, a: State, b: State) -> State:
        points, at = np.unique(np.concatenate([a[0], b[0]]), return_inverse=True)
        return merge_closest(points, np.bincount(at, np.concatenate([a[1], b[1]]), len(points)), self.bins)

    def finish(self, state: State) -> list[dict[str, Any]]:
        return [
            {"center": center, "rows": int(rows)} for center, rows in zip(*(s.tolist() for s in state), strict=True)
        ]


def merge_closest(points: Doubles, rows: Any, bins: int) -> State:
    """Merge the closest points until at most `bins` are left.

    >>> merge_closest(np.array([1.0, 2.0, 10.0]), np.array([3.0, 1.0, 1.0]), 2)
    (array([ 1.25, 10.  ]), array([4., 1.]))
    """
    while len(points) > bins:
        closest = np.sort(np.argsort(np.diff(points), kind="stable")[: max(1, (len(points) - bins) // 2)])
        # If two pairs share a point, only the lower pair is merged in this step.
        pairs = closest[np.diff(closest, prepend=-2) > 1]
        both = rows[pairs] + rows[pairs + 1]
        points[pairs] += (points[pairs + 1] - points[pairs]) * rows[pairs + 1] / both
        rows[pairs] = both
        points, rows = np.delete(points, pairs + 1), np.delete(rows, pairs + 1)
    return points, rows


def split_points(histogram: Iterable[Mapping[str, Any]], parts: int) -> list[float]:
    """Return the numbers that split the rows into parts of about the same size: the splits that a tree tries.

    Between two points, the density of rows changes linearly from one count to the next (Algorithm 4, Uniform).

    Args:
        histogram: the result of a :class:`StreamingHistogram`, as dicts or as Rows.
        parts: the number of parts, at least 2.

    >>> split_points([{"center": 0.0, "rows": 10}, {"center": 10.0, "rows": 10}], 2)
    [5.0]
    """
    check_whole("parts", parts, 2)
    pairs = [(bin_["center"], bin_["rows"]) for bin_ in histogram]
    if len(pairs) < 2:
        return []
    centers, rows = (np.array(column, float) for column in zip(*pairs, strict=True))
    below = np.concatenate([[0.0], np.cumsum((rows[:-1] + rows[1:]) / 2)]) + rows[0] / 2
    wanted = rows.sum() * np.arange(1, parts) / parts
    wanted = wanted[(wanted >= below[0]) & (wanted < below[-1])]
    i = np.searchsorted(below, wanted, side="right") - 1
    more, rest = rows[i + 1] - rows[i], wanted - below[i]
    # Solves rest = rows z + more z^2 / 2, in a form without 0 / 0 if more is 0.
    z = 2 * rest / (rows[i] + np.sqrt(rows[i] ** 2 + 2 * more * rest))
    return (centers[i] + (centers[i + 1] - centers[i]) * z).tolist()  # type: ignore[no-any-return]
