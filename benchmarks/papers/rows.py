"""Rows of an experiment: numbers and texts by column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

Row = dict[str, Any]
"""A text or a number for each column. A row with the columns `fact` and `value` is a number of the whole experiment."""
Rows = Sequence[Row]
Numbers = dict[str, float]
"""Numbers, each with a label."""
Measure = Callable[[Rows], Numbers]

SETTINGS = {"data", "n", "z", "|K|", "theta n", "sources", "feed", "scheme", "technique", "strategy", "T"}
SETTINGS |= {"migrations", "varies", "share", "nodes"}
"""Columns that tell what was varied."""


def pick(rows: Iterable[Row], **where: object) -> list[Row]:
    """Return the rows that have these values. A tuple allows several values, and a function decides by itself.

    >>> pick([{"n": 5, "I": 0.1}, {"n": 10, "I": 0.2}], n=(10, 20))
    [{'n': 10, 'I': 0.2}]
    """
    return [row for row in rows if all(name in row and _allows(to, row[name]) for name, to in where.items())]


def _allows(allowed: Any, value: Any) -> bool:
    if callable(allowed):
        return bool(allowed(value))
    return value in allowed if isinstance(allowed, tuple) else bool(value == allowed)


def values(rows: Iterable[Row], column: str, **where: object) -> list[float]:
    """Return a column of numbers, of the rows that have these values."""
    return [float(row[column]) for row in pick(rows, **where)]


def curve(rows: Iterable[Row], x: str, column: str, **where: object) -> dict[float, float]:
    """Return a column over another."""
    return {float(row[x]): float(row[column]) for row in pick(rows, **where)}


def mean(numbers: Iterable[float]) -> float:
    """Return the mean of some numbers."""
    return float(np.mean(list(numbers)))


def facts(numbers: Mapping[str, float]) -> list[Row]:
    """Return the rows of numbers of the whole experiment."""
    return [{"fact": name, "value": value} for name, value in numbers.items()]


def paired(rows: Rows, column: str, by: str, one: object, other: object) -> list[tuple[Row, float, float]]:
    """Pair the rows of two kinds that agree in all other settings.

    Args:
        rows: of the experiment.
        column: the number.
        by: the column that tells the two kinds apart.
        one: its value in the first kind.
        other: its value in the second.

    Returns:
        The first row, its number, and the second row's number.

    >>> rows = [{"n": 5, "scheme": "a", "I": 0.1}, {"n": 5, "scheme": "b", "I": 0.3}]
    >>> [(x, y) for _, x, y in paired(rows, "I", "scheme", "a", "b")]
    [(0.1, 0.3)]
    """
    names = sorted(SETTINGS - {by})
    second = {_setting(row, names): float(row[column]) for row in pick(rows, **{by: other})}
    return [
        (row, float(row[column]), second[_setting(row, names)])
        for row in pick(rows, **{by: one})
        if _setting(row, names) in second
    ]


def _setting(row: Row, names: Sequence[str]) -> tuple[object, ...]:
    return tuple(row.get(name) for name in names)


def label(row: Row, names: Iterable[str]) -> str:
    """Return what a row has in some columns, as text."""
    return ", ".join(row[name] if isinstance(row[name], str) else f"{row[name]:g}" for name in names if name in row)
