"""Mean, variance and covariance, computed in one pass without cancellation.

Chan, Golub, LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979, equations 2.1:
two parts with sums of squared deviations S_a and S_b have S = S_a + S_b + (mean_b - mean_a)^2 n_a n_b / n together. For
several columns, S is the matrix of co-moments, and the square is an outer product.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from ..spark.aggregators.protocol import Aggregator
from .columns import Doubles, matrix

if TYPE_CHECKING:
    from pyspark.sql import Column


_ROUNDING = 16 * float(np.finfo(float).eps)
"""A mean of many batches is off by a few units in its last place."""


class CoMoments(NamedTuple):
    """Number of rows, means and co-moments of rows of d numbers."""

    rows: int
    mean: Doubles
    """Shape (d,)."""
    squares: Doubles
    """Sums of products of deviations from the mean, shape (d, d)."""


def no_moments(columns: int) -> CoMoments:
    """Return the co-moments of no rows."""
    return CoMoments(0, np.zeros(columns), np.zeros((columns, columns)))


def moments_of(rows: Doubles) -> CoMoments:
    """Return the co-moments of at least one row.

    >>> moments_of(np.array([[1.0], [3.0]]))
    CoMoments(rows=2, mean=array([2.]), squares=array([[2.]]))
    """
    mean = rows.sum(axis=0) / len(rows)
    deviations = rows - mean
    return CoMoments(len(rows), mean, deviations.T @ deviations)


def merge_moments(a: CoMoments, b: CoMoments) -> CoMoments:
    """Return the co-moments of all rows of both."""
    if a.rows == 0 or b.rows == 0:
        return b if a.rows == 0 else a
    rows = a.rows + b.rows
    apart = b.mean - a.mean
    return CoMoments(
        rows,
        a.mean + apart * (b.rows / rows),
        a.squares + b.squares + apart[:, None] * apart * (a.rows * b.rows / rows),
    )


def without_rounding(state: CoMoments) -> CoMoments:
    """Return the same co-moments, and exactly 0 for columns that deviate from their mean by rounding alone.

    Of a constant column, the deviations are noise, and so is what is divided by them.

    >>> without_rounding(CoMoments(3, np.array([7.3]), np.array([[2e-30]]))).squares
    array([[0.]])
    """
    noise = state.rows * (_ROUNDING * np.abs(state.mean)) ** 2
    varies = (np.diag(state.squares) > noise).astype(float)
    return state._replace(squares=state.squares * np.outer(varies, varies))


class MomentsAggregator(Aggregator):
    """An aggregate that is computed from co-moments. Rows with a NULL are skipped."""

    def zero(self) -> CoMoments:
        return no_moments(len(self.columns))

    def update(self, state: CoMoments, batch: pa.RecordBatch) -> CoMoments:
        rows = matrix(batch)
        return merge_moments(state, moments_of(rows)) if len(rows) else state

    def merge(self, a: CoMoments, b: CoMoments) -> CoMoments:
        return merge_moments(a, b)


class Moments(MomentsAggregator):
    """Rows, mean and sample variance of a number column, as a struct; NULL if there are too few rows.

    Args:
        column: the numbers. NULLs are skipped.

    >>> delay = Moments("delay")
    >>> delay.finish(delay.update(delay.zero(), pa.record_batch({"delay": [1, 3, None]})))
    {'rows': 2, 'mean': 2.0, 'variance': 2.0}
    """

    returns = "struct<rows: bigint, mean: double, variance: double>"

    def __init__(self, column: str | Column) -> None:
        super().__init__(column)

    def finish(self, state: CoMoments) -> dict[str, Any]:
        state = without_rounding(state)
        rows = state.rows
        return {
            "rows": rows,
            "mean": float(state.mean[0]) if rows else None,
            "variance": float(state.squares[0, 0]) / (rows - 1) if rows > 1 else None,
        }


class Covariance(MomentsAggregator):
    """Sample covariance of two number columns and their correlation, as a struct; NULL if there are too few rows.

    Args:
        x: numbers.
        y: numbers. Rows where x or y is NULL are skipped.

    >>> both = Covariance("x", "y")
    >>> both.finish(both.update(both.zero(), pa.record_batch({"x": [0, 2], "y": [0, 8]})))
    {'rows': 2, 'covariance': 8.0, 'correlation': 1.0}
    """

    returns = "struct<rows: bigint, covariance: double, correlation: double>"

    def __init__(self, x: str | Column, y: str | Column) -> None:
        super().__init__(x, y)

    def finish(self, state: CoMoments) -> dict[str, Any]:
        state = without_rounding(state)
        (x, product), (_, y) = state.squares.tolist()
        return {
            "rows": state.rows,
            "covariance": product / (state.rows - 1) if state.rows > 1 else None,
            # The two slopes of regression. The product of x and y themselves may overflow.
            "correlation": math.copysign(math.sqrt(product / x * (product / y)), product) if x and y else None,
        }
