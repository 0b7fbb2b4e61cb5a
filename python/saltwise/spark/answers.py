"""Compares the answers of two runs of a query, apart from what Spark itself leaves open.

Left open are the order of rows, the last bits of doubles, which depend on the order in which they were added, and the
order inside arrays that collect_list and collect_set make.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

TOLERANCE = 1e-9
"""Doubles are the same if they differ by less than this, relative to the larger one."""
SHOWN = 20
"""Differences that are kept."""

Parts = tuple[str, list[float]]
"""A value without its doubles, and its doubles."""


@dataclass(frozen=True)
class Comparison:
    """What is different between two answers."""

    rows: tuple[int, int]
    """How many rows each has."""
    differences: list[tuple[str, str]] = field(default_factory=list)
    """Rows of the one and of the other that have no partner, as text, at most 20; empty text where there is none."""
    different: int = 0
    """How many there are."""
    reordered: int = 0
    """Rows that differ only by the order inside arrays."""

    @property
    def same(self) -> bool:
        """Whether the answers are the same, apart from what Spark leaves open."""
        return self.different == 0


def compare(one: Iterable[Sequence[Any]], other: Iterable[Sequence[Any]]) -> Comparison:
    """Compare two answers.

    >>> compare([(1, 0.1 + 0.2), (2, None)], [(2, None), (1, 0.3)]).same
    True
    >>> compare([("a", [1, 2])], [("a", [2, 1])]).reordered
    1
    >>> compare([("a", 1)], [("a", 2)]).differences
    [("('a', 1)", "('a', 2)")]
    """
    left, right = _sorted(one), _sorted(other)
    differences: list[tuple[str, str]] = []
    different = reordered = i = j = 0
    while i < len(left) or j < len(right):
        if i < len(left) and j < len(right) and _same(left[i][0], right[j][0]):
            reordered += not _same(_parts(left[i][1], False), _parts(right[j][1], False))
            i, j = i + 1, j + 1
            continue
        # A row that has no partner is passed over, on the side where rows come first.
        step_left = j == len(right) or (i < len(left) and _order(left[i][0]) < _order(right[j][0]))
        step_right = i == len(left) or not step_left
        both = i < len(left) and j < len(right) and _follow(left, i + 1, right, j + 1)
        if both:
            step_left = step_right = True
        different += 1
        if len(differences) < SHOWN:
            differences.append((repr(left[i][1]) if step_left else "", repr(right[j][1]) if step_right else ""))
        i, j = i + step_left, j + step_right
    return Comparison((len(left), len(right)), differences, different, reordered)


def _follow(left: list[Any], i: int, right: list[Any], j: int) -> bool:
    """Whether the next rows are partners again, or there are none, so that the two before differ by a value."""
    if i == len(left) and j == len(right):
        return True
    return i < len(left) and j < len(right) and _same(left[i][0], right[j][0])


def _sorted(rows: Iterable[Sequence[Any]]) -> list[tuple[Parts, tuple[Any, ...]]]:
    return sorted(((_parts(tuple(row), True), tuple(row)) for row in rows), key=lambda each: _order(each[0]))


def _order(parts: Parts) -> tuple[str, list[tuple[bool, float]]]:
    # NaN comes last.
    return parts[0], [(math.isnan(number), 0.0 if math.isnan(number) else number) for number in parts[1]]


def _parts(value: Any, sorting: bool) -> Parts:
    """Take a value apart.

    Args:
        value: a row, or a value in it.
        sorting: whether the order inside arrays does not count.
    """
    if isinstance(value, float):
        return "double", [value]
    if isinstance(value, dict):
        items = sorted((_parts(item, sorting) for item in value.items()), key=_order)
        return f"map({', '.join(text for text, _ in items)})", [number for _, numbers in items for number in numbers]
    if isinstance(value, (list, tuple)):
        items = [_parts(item, sorting) for item in value]
        if isinstance(value, list) and sorting:
            items.sort(key=_order)
        kind = "array" if isinstance(value, list) else "row"
        return f"{kind}({', '.join(text for text, _ in items)})", [number for _, numbers in items for number in numbers]
    return repr(value), []


def _same(one: Parts, other: Parts) -> bool:
    return one[0] == other[0] and all(map(_close, one[1], other[1]))


def _close(one: float, other: float) -> bool:
    return (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=1e-300)
