"""Turns the arguments of ``groupBy`` into Columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def flattened(cols: Sequence[Any]) -> list[Any]:
    """Return the arguments of ``groupBy`` as a list. They may be given as one list.

    >>> flattened((["k", "l"],)), flattened(("k", 2))
    (['k', 'l'], ['k', 2])
    """
    return list(cols[0]) if len(cols) == 1 and isinstance(cols[0], list) else list(cols)


def as_column(df: DataFrame, key: Any) -> Column:
    """Return the Column of one argument of ``groupBy``: a Column, a name, or a position counted from 1."""
    if isinstance(key, int):
        return df[key - 1]
    return F.col(key) if isinstance(key, str) else key


def quoted(name: str) -> str:
    """Return the name of a column as Spark reads it, whatever characters it has.

    >>> quoted("a.b")
    '`a.b`'
    """
    return "`" + name.replace("`", "``") + "`"
