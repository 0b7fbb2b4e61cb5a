"""Least squares from sums that merge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .moments import CoMoments, MomentsAggregator, without_rounding

if TYPE_CHECKING:
    from pyspark.sql import Column


class LinearRegression(MomentsAggregator):
    """The line, or plane, with the least squared error: intercept, coefficients and R², as a struct.

    The sums are co-moments, so there is no cancellation. If features depend on each other, the coefficients with the
    smallest norm are returned, each multiplied by the deviation of its feature.

    Args:
        target: the column to predict.
        feature: a column to predict it from.
        features: more such columns. Rows with a NULL are skipped.

    >>> import pyarrow as pa
    >>> line = LinearRegression("y", "x")
    >>> line.finish(line.update(line.zero(), pa.record_batch({"y": [1.0, 3.0, 5.0], "x": [0, 1, 2]})))
    {'rows': 3, 'intercept': 1.0, 'coefficients': [2.0], 'r2': 1.0}
    """

    returns = "struct<rows: bigint, intercept: double, coefficients: array<double>, r2: double>"

    def __init__(self, target: str | Column, feature: str | Column, *features: str | Column) -> None:
        super().__init__(target, feature, *features)

    def finish(self, state: CoMoments) -> dict[str, Any]:
        if state.rows == 0:
            return {"rows": 0, "intercept": None, "coefficients": None, "r2": None}
        state = without_rounding(state)
        with_target, among = state.squares[1:, 0], state.squares[1:, 1:]
        # In units of their deviations, so that small features count as much as large ones.
        units = np.sqrt(np.diag(among))
        units[units == 0] = 1
        coefficients = np.linalg.lstsq(among / units[:, None] / units, with_target / units, rcond=None)[0] / units
        spread = float(state.squares[0, 0])
        return {
            "rows": state.rows,
            "intercept": float(state.mean[0] - coefficients @ state.mean[1:]),
            "coefficients": coefficients.tolist(),
            "r2": float(coefficients @ with_target) / spread if spread else None,
        }
