"""Types of numpy arrays by name, and checks of arrays that callers give."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import SaltwiseValueError

Bools = npt.NDArray[np.bool_]
Int32s = npt.NDArray[np.int32]
"""Workers, and positions of keys."""
Int64s = npt.NDArray[np.int64]
"""Hashes of keys, counts, and nodes of key groups."""
Floats = npt.NDArray[np.float64]
"""Loads, shares and costs."""


def checked_numbers(name: str, values: Any, length: int | None = None) -> Floats:
    """Return finite numbers of at least 0 as an array.

    Args:
        name: of the argument, for the error.
        values: the numbers.
        length: how many there must be; any number but 0 if not given.

    Raises:
        SaltwiseValueError: there are no numbers or not as many as needed, or one is negative, NaN or infinite.

    >>> checked_numbers("load", [1, 2])
    array([1., 2.])
    """
    numbers = np.asarray(values, dtype=float)
    if numbers.ndim != 1 or len(numbers) == 0 or length not in (None, len(numbers)):
        needed = "a flat list of at least one number" if length is None else f"a flat list of {length} numbers"
        raise SaltwiseValueError(f"{name} has the shape {numbers.shape}; it must be {needed}.")
    wrong = np.flatnonzero(~(np.isfinite(numbers) & (numbers >= 0)))
    if len(wrong):
        raise SaltwiseValueError(
            f"{name} {int(wrong[0])} is {float(numbers[wrong[0]])}; it must be a finite number of at least 0."
        )
    return numbers


def check_one_for_each_key(name: str, numbers: Floats, keys: Int64s) -> None:
    """Raise unless there is one number for each key, and no key occurs twice.

    Args:
        name: of the numbers, for the error.
        numbers: shape (k,).
        keys: hashes of the keys, shape (k,).

    Raises:
        SaltwiseValueError: a number is missing, or a key occurs twice.
    """
    if numbers.shape != keys.shape or keys.ndim != 1:
        raise SaltwiseValueError(
            f"{name} have shape {numbers.shape}; it must be that of keys, {keys.shape}, in one dimension."
        )
    if len(np.unique(keys)) < len(keys):
        raise SaltwiseValueError(f"keys has the same hash twice; add the {name} of equal keys up first.")
