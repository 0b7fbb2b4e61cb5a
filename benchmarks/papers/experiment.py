"""An experiment of a paper: what it finds, and what the paper says of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .lab import Lab

Row = dict[str, Any]
"""A text or a number for each column."""

_VARIED = {"data", "n", "z", "|K|", "theta n", "sources", "feed", "scheme", "technique"}
_VARIED |= {"migrations", "varies", "share", "nodes"}
"""Columns that tell what was varied."""


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, and what we found."""

    where: str
    """The paper's section or figure."""
    says: str
    """What the paper says, in our words."""
    found: str = "not measured"
    """What we found, with numbers."""
    holds: bool | None = None
    """None if the claim needs a cluster."""
    why: str = ""
    """Why the claim does not hold, or a note if it does."""
    seeds: tuple[int, int] = (0, 0)
    """With how many draws it held, and how many were tried: a seed is a draw, or has several. One, if not said."""

    def __post_init__(self) -> None:
        if not self.seeds[1]:
            object.__setattr__(self, "seeds", (int(self.holds is True), 1))

    @property
    def by_the_draw(self) -> bool:
        """Whether it does not hold, but does in one draw of twenty or more: what the paper saw is within our spread."""
        return self.holds is False and 20 * self.seeds[0] >= self.seeds[1]


class Claims(list[Claim]):
    """Claims of a paper, most of them of one section or figure.

    Args:
        where: the paper's section or figure.
    """

    def __init__(self, where: str) -> None:
        self._where = where

    def add(
        self, says: str, found: str, holds: bool | Sequence[bool], *reasons: str, note: str = "", where: str = ""
    ) -> None:
        """Add a claim.

        Args:
            says: what the paper says, in our words.
            found: what we found, with numbers.
            holds: whether that is what the paper says, or whether it is in each of several draws.
            reasons: why it does not hold, if it does not.
            note: a remark, whether it holds or not.
            where: its section or figure, if it is another one.
        """
        draws = holds if isinstance(holds, Sequence) else [holds]
        held, tried = sum(map(bool, draws)), len(draws)
        why = note or unless(2 * held > tried, *reasons)
        self.append(Claim(where or self._where, says, found, 2 * held > tried, why, (held, tried)))


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


def mean(numbers: Iterable[float]) -> float:
    """Return the mean of some numbers."""
    return float(np.mean(list(numbers)))


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

    def setting(row: Row) -> tuple[object, ...]:
        return tuple(row.get(name) for name in _VARIED if name != by)

    rows = list(rows)
    second = {setting(row): float(row[column]) for row in rows if row[by] == other}
    return [
        (row, float(row[column]), second[setting(row)]) for row in rows if row[by] == one and setting(row) in second
    ]
