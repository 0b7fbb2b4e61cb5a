"""Compares the answers of two runs of a query, apart from what Spark itself leaves open.

Left open are the order of rows, the rounding of doubles, which depends on the order in which they were added, and the
order inside arrays that collect_list and collect_set make.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

DIGITS = 9
"""Doubles are the same if they agree in this many digits."""
FLOAT_DIGITS = 6
"""The same for floats."""
NEAR_ZERO = 1e-8
"""All doubles up to this size are the same. Rounding leaves a little where a sum or a deviation should be 0."""
CANCELLED = 1e-12
"""Doubles are the same if they differ by no more than this share of the largest one of the column.

Large numbers may have cancelled in a small sum.
"""
MAX_DIFFERENCES = 20
"""The most differences that a comparison lists."""


@dataclass(frozen=True)
class Comparison:
    """The differences between two answers."""

    rows: tuple[int, int]
    """How many rows each has."""
    differences: list[tuple[str, str]] = field(default_factory=list)
    """Rows of the one answer and of the other that have no partner, as text. Empty text stands for a missing row."""
    different: int = 0
    """How many differences there are. At most 20 of them are listed."""
    reordered: int = 0
    """Rows that differ only by the order inside arrays."""
    rounding: float = 0.0
    """The largest difference between doubles that is more than their last digits, and still counts as rounding."""

    @property
    def same(self) -> bool:
        """Whether the answers are the same, apart from what Spark leaves open."""
        return self.different == 0


def compare(
    one: Iterable[Sequence[Any]], other: Iterable[Sequence[Any]], floats: Collection[int] = (), ordered: bool = False
) -> Comparison:
    """Compare two answers.

    Args:
        one: the rows of one answer.
        other: the rows of the other answer.
        floats: the positions of the columns that hold floats, which have fewer digits than doubles.
        ordered: whether the order inside arrays counts.

    >>> compare([(1, 0.1 + 0.2), (2, None)], [(2, None), (1, 0.3)]).same
    True
    >>> compare([("a", [1, 2])], [("a", [2, 1])]).reordered
    1
    >>> compare([("a", 1)], [("a", 2)]).differences
    [("('a', 1)", "('a', 2)")]
    """
    rows, others = [tuple(row) for row in one], [tuple(row) for row in other]
    tolerances = _tolerances([*rows, *others], floats)
    left, right = _sorted(rows, tolerances, ordered), _sorted(others, tolerances, ordered)
    differences: list[tuple[str, str]] = []
    different = reordered = i = j = 0
    rounding = 0.0
    while i < len(left) or j < len(right):
        if i < len(left) and j < len(right) and _same(left[i][0], right[j][0]):
            rounding = max(rounding, *map(_Double.rounding, left[i][0][1], right[j][0][1]), 0.0)
            exact = [_row_parts(row, tolerances, ordered=True) for row in (left[i][1], right[j][1])]
            reordered += not _same(*exact)
            i, j = i + 1, j + 1
            continue
        # A row without a partner is skipped, on the side whose row comes first.
        step_left = j == len(right) or (i < len(left) and _order(left[i][0]) < _order(right[j][0]))
        step_right = i == len(left) or not step_left
        if i < len(left) and j < len(right) and _are_partners(left, i + 1, right, j + 1):
            step_left = step_right = True
        different += 1
        if len(differences) < MAX_DIFFERENCES:
            differences.append((repr(left[i][1]) if step_left else "", repr(right[j][1]) if step_right else ""))
        i, j = i + step_left, j + step_right
    return Comparison(
        rows=(len(left), len(right)),
        differences=differences,
        different=different,
        reordered=reordered,
        rounding=rounding,
    )


class _Tolerance(NamedTuple):
    """How far the doubles of a column may differ."""

    digits: int
    absolute: float


class _Double(NamedTuple):
    value: float
    tolerance: _Tolerance

    def agrees(self, other: _Double) -> bool:
        """Return whether two doubles differ only in their last digits."""
        both_nan = math.isnan(self.value) and math.isnan(other.value)
        return both_nan or math.isclose(self.value, other.value, rel_tol=10.0**-self.tolerance.digits)

    def same(self, other: _Double) -> bool:
        near_zero = abs(self.value) <= NEAR_ZERO and abs(other.value) <= NEAR_ZERO
        return self.agrees(other) or near_zero or abs(self.value - other.value) <= self.tolerance.absolute

    def rounding(self, other: _Double) -> float:
        """Return the difference of two doubles that are the same; 0 if it is in their last digits."""
        return 0.0 if self.agrees(other) else abs(self.value - other.value)

    def order(self) -> tuple[bool, float]:
        """Return the sort key. It has one digit less, so that equal doubles have the same place. NaN comes last."""
        digits, absolute = self.tolerance
        if math.isnan(self.value) or abs(self.value) <= max(NEAR_ZERO, absolute):
            return math.isnan(self.value), 0.0
        return False, float(f"{self.value:.{digits - 2}e}")


Parts = tuple[str, list[_Double]]
"""A value without its doubles, and its doubles."""


def _tolerances(rows: list[tuple[Any, ...]], floats: Collection[int]) -> list[_Tolerance]:
    """Return the tolerance of each column."""
    largest = [0.0] * max(map(len, rows), default=0)
    for row in rows:
        for column, value in enumerate(row):
            largest[column] = max(largest[column], *(abs(double) for double in _finite_doubles(value)), 0.0)
    return [
        _Tolerance(FLOAT_DIGITS if column in floats else DIGITS, CANCELLED * number)
        for column, number in enumerate(largest)
    ]


def _finite_doubles(value: Any) -> Iterator[float]:
    if isinstance(value, float) and math.isfinite(value):
        yield value
    elif isinstance(value, (dict, list, tuple)):
        for item in value.items() if isinstance(value, dict) else value:
            yield from _finite_doubles(item)


def _sorted(
    rows: list[tuple[Any, ...]], tolerances: list[_Tolerance], ordered: bool
) -> list[tuple[Parts, tuple[Any, ...]]]:
    return sorted(((_row_parts(row, tolerances, ordered), row) for row in rows), key=lambda pair: _order(pair[0]))


def _order(parts: Parts) -> tuple[str, list[tuple[bool, float]]]:
    return parts[0], [double.order() for double in parts[1]]


def _row_parts(row: tuple[Any, ...], tolerances: list[_Tolerance], ordered: bool) -> Parts:
    return _joined("row", [_parts(value, tolerances[column], ordered) for column, value in enumerate(row)])


def _parts(value: Any, tolerance: _Tolerance, ordered: bool) -> Parts:
    """Take a value apart.

    Args:
        value: a value of a row, or a value in it.
        tolerance: that of its column.
        ordered: whether the order inside arrays counts.
    """
    if isinstance(value, float):
        return "double", [_Double(value, tolerance)]
    if isinstance(value, dict):
        return _joined("map", sorted((_parts(item, tolerance, ordered) for item in value.items()), key=_order))
    if isinstance(value, list):
        items = [_parts(item, tolerance, ordered) for item in value]
        return _joined("array", items if ordered else sorted(items, key=_order))
    if isinstance(value, tuple):
        return _joined("row", [_parts(item, tolerance, ordered) for item in value])
    return repr(value), []


def _joined(kind: str, parts: list[Parts]) -> Parts:
    return f"{kind}({', '.join(text for text, _ in parts)})", [double for _, doubles in parts for double in doubles]


def _same(one: Parts, other: Parts) -> bool:
    return one[0] == other[0] and all(map(_Double.same, one[1], other[1]))


def _are_partners(left: list[Any], i: int, right: list[Any], j: int) -> bool:
    """Return whether two rows are partners, or both sides have ended. Then the two rows before differ by a value."""
    if i == len(left) and j == len(right):
        return True
    return i < len(left) and j < len(right) and _same(left[i][0], right[j][0])
