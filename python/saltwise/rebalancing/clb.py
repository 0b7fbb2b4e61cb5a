"""CLB, the correlation-based algorithm: substreams whose loads rise together are kept apart.

Guo and Zhou, "Stateful Load Balancing for Parallel Stream Processing", section 4, Algorithm 2; its symbols stand beside
the names here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Int64s, checked_numbers
from ..errors import SaltwiseValueError, check_number, check_whole

_ROUNDING = 1e-12

THETA = 0.5
"""The paper allows 0 <= theta < 1, which is a correlation, and names none."""


def clb(series: Any, n: int, theta: float = THETA) -> Int64s:
    """Return an assignment for the next m windows under which the loads of m windows vary little (equation 5).

    It starts with all substreams in one set. The weight of a substream is the sum of its covariances with those of its
    set that correlate with it by at least theta. Each run takes the substream s_k with the largest weight, and moves
    these others to a new set. It ends with n sets, or earlier if no two substreams of a set correlate by theta. Then
    some instances stay empty.

    The paper compares a covariance with theta. But covariances grow with the square of the loads. With a theta below
    1 all positive ones would count, and independent substreams would be halved at each split. So theta is compared with
    the covariance of loads in units of their deviations.

    Args:
        series: X, the rows of each substream in each window, shape (m, p), m > 1.
        n: the number of instances.
        theta: substreams are kept apart if they correlate by at least this much; 0 <= theta < 1.

    Returns:
        The instance of each substream, 0 ... n - 1, shape (p,).

    Raises:
        SaltwiseValueError: there are fewer than two windows, a load is negative or NaN, or n or theta is not allowed.

    >>> clb([[1, 2, 9, 8], [2, 3, 7, 6], [3, 4, 5, 4]], n=2)
    array([0, 0, 0, 1])
    """
    check_whole("n", n)
    windows = np.asarray(series, dtype=float)
    if windows.ndim != 2 or len(windows) < 2:
        raise SaltwiseValueError(f"series has the shape {windows.shape}; it must be at least two windows of loads.")
    for window in windows:
        checked_numbers("load", window)
    check_number("theta", theta, lambda share: 0 <= share < 1, "a number from 0 to below 1")
    covariance = np.atleast_2d(np.cov(windows, rowvar=False, bias=True))
    deviation = np.sqrt(covariance.diagonal())
    # Of loads that do not correlate, rounding leaves about 1e-16.
    covariance[covariance <= max(theta - _ROUNDING, _ROUNDING) * np.outer(deviation, deviation)] = 0
    np.fill_diagonal(covariance, 0)
    instance = np.zeros(windows.shape[1], dtype=np.int64)
    for r in range(1, n):
        together = instance[:, None] == instance
        weight = (covariance * together).sum(axis=1)
        k = int(np.argmax(weight))
        if weight[k] == 0:
            break
        instance[together[k] & (covariance[k] > 0)] = r
    return instance
