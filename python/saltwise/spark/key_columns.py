"""The columns that ``groupBy`` takes, however they are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def flattened(cols: Sequence[Any]) -> list[Any]:
    """Return the arguments of ``groupBy``, which may be one list of them.

    >>> flattened((["k", "l"],)), flattened(("k", 2))
    (['k', 'l'], ['k', 2])
    """
    return list(cols[0]) if len(cols) == 1 and isinstance(cols[0], list) else list(cols)


def as_column(df: DataFrame, key: Any) -> Column:
    """Return the Column of one argument of ``groupBy``: a Column, a name, or a position from 1 on."""
    if isinstance(key, int):
        return df[key - 1]
    return F.col(key) if isinstance(key, str) else key
