"""An experiment of a paper: what it finds, and what the paper says of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .lab import Lab

Row = dict[str, str | int | float]


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, and what we found."""

    where: str
    """The paper's section or figure."""
    says: str
    """What the paper says, in our words."""
    found: str
    """What we found, with numbers; or why the claim needs a cluster."""
    holds: bool | None
    """None if the claim needs a cluster."""
    why: str = ""
    """Why the claim does not hold, or a note if it does."""


@dataclass(frozen=True)
class Outcome:
    """What an experiment found."""

    rows: list[Row]
    figure: Figure
    claims: list[Claim]


@dataclass(frozen=True)
class Experiment:
    """One table or figure of a paper."""

    name: str
    """The paper's short name and the figure's number, such as dchoices-fig10."""
    title: str
    run: Callable[[Lab], Outcome]


def unless(holds: bool, *reasons: str) -> str:
    """Return why a claim does not hold; an empty text if it holds.

    >>> unless(False, "Few keys.", "")
    'Few keys.'
    """
    return "" if holds else " ".join(filter(None, reasons))


def pick(rows: Iterable[Row], **where: object) -> list[Row]:
    """Return the rows that have these values.

    >>> pick([{"n": 5, "I": 0.1}, {"n": 10, "I": 0.2}], n=10)
    [{'n': 10, 'I': 0.2}]
    """
    return [row for row in rows if all(row[name] == value for name, value in where.items())]


def values(rows: Iterable[Row], column: str, **where: object) -> list[float]:
    """Return a column of numbers, of the rows that have these values."""
    return [float(row[column]) for row in pick(rows, **where)]


def highest(rows: Iterable[Row], column: str, **where: object) -> float:
    """Return the highest value of a column; 0 if no row has these values."""
    return max(values(rows, column, **where), default=0.0)


def paired(rows: Iterable[Row], column: str, by: str, one: object, other: object) -> list[tuple[Row, float, float]]:
    """Pair the rows of two kinds that agree in all other settings, and return their values of a column.

    Args:
        rows: of the experiment.
        column: the number.
        by: the column that tells the two kinds apart.
        one: its value in the first kind.
        other: its value in the second.

    Returns:
        The first row, its number, and the second row's number.

    >>> rows = [{"n": 5, "by": "a", "I": 0.1}, {"n": 5, "by": "b", "I": 0.3}]
    >>> [(x, y) for _, x, y in paired(rows, "I", "by", "a", "b")]
    [(0.1, 0.3)]
    """
    settings = {"data", "n", "z", "|K|", "theta n", "sources", "feed", "technique", "scheme"} - {by}
    rows = list(rows)
    second = {_setting(row, settings): float(row[column]) for row in rows if row[by] == other}
    return [
        (row, float(row[column]), second[_setting(row, settings)])
        for row in rows
        if row[by] == one and _setting(row, settings) in second
    ]


def _setting(row: Row, names: set[str]) -> tuple[object, ...]:
    return tuple(row.get(name) for name in sorted(names))
