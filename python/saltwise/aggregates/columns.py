"""Functions with which the ready-made Aggregators read a batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

Doubles = np.ndarray[Any, np.dtype[np.float64]]


def doubles(column: pa.Array) -> Doubles:
    """Return the numbers of a column as doubles, without NULLs.

    >>> doubles(pa.array([1, None, 3]))
    array([1., 3.])
    """
    # Most batches of rare keys have only a few rows, so unnecessary calls are avoided.
    values = column.drop_null() if column.null_count else column
    values = values if values.type == pa.float64() else values.cast(pa.float64())
    numbers: Doubles = values.to_numpy(zero_copy_only=False)
    return numbers


def matrix(batch: pa.RecordBatch) -> Doubles:
    """Return the rows without NULLs as a matrix of doubles, of shape (rows, columns).

    >>> matrix(pa.record_batch({"x": [1, 2, None], "y": [0.5, None, 0.5]}))
    array([[1. , 0.5]])
    """
    rows = batch.drop_null() if any(column.null_count for column in batch.columns) else batch
    return np.stack([doubles(column) for column in rows.columns], axis=1)


def texts(column: pa.Array) -> pa.Array:
    """Return the values of a column as strings, without NULLs."""
    return column.drop_null().cast(pa.string())


def text(value: object) -> str:
    """Return one value as the string that :func:`texts` makes of it in a column.

    >>> text(True), text(7)
    ('true', '7')
    """
    return str(pa.array([value]).cast(pa.string())[0])
