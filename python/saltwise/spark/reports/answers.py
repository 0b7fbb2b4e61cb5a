"""Compares the answers of two runs of a query, apart from what Spark itself leaves open.

Left open are the order of rows, the rounding of doubles, which depends on the order in which they were added, and the
order inside arrays that collect_list and collect_set make.

Two doubles may each be near a third one, and not near each other. So rows are paired as a whole: as many of them as can
be. The rows of a group have the same values, apart from their doubles. Within a group, sorting pairs nearly all rows.
The others are parted wherever a double leaves a gap, and what then is left is paired by augmenting paths.
"""

from __future__ import annotations

import math
from bisect import bisect, bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, NamedTuple

from pyspark.sql.types import ArrayType, DataType, FloatType, MapType, StructType

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
MAX_CANDIDATES = 32
"""With how many rows of a cell a row is compared at most, if many are near it in every double."""


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
    one: Iterable[Sequence[Any]],
    other: Iterable[Sequence[Any]],
    types: Sequence[DataType] = (),
    ordered: Collection[int] = (),
) -> Comparison:
    """Compare two answers.

    Args:
        one: the rows of one answer.
        other: the rows of the other answer.
        types: those of the columns. Floats have fewer digits than doubles. Without types there are no floats.
        ordered: the positions of the columns in whose arrays the order counts.

    >>> compare([(1, 0.1 + 0.2), (2, None)], [(2, None), (1, 0.3)]).same
    True
    >>> compare([("a", [1, 2])], [("a", [2, 1])]).reordered
    1
    >>> compare([("a", 1)], [("a", 2)]).differences
    [("('a', 1)", "('a', 2)")]
    """
    rows, others = [tuple(row) for row in one], [tuple(row) for row in other]
    columns = _columns([*rows, *others], types, ordered)
    left, right = ([_row(row, columns) for row in side] for side in (rows, others))
    pairs = list(_paired(left, right))
    paired = {id(item) for pair in pairs for item in pair}
    alone = [[item for item in side if id(item) not in paired] for side in (left, right)]
    found = list(_differences(pairs, *alone)) if any(alone) else []
    in_order = [column._replace(ordered=True) for column in columns]
    return Comparison(
        rows=(len(left), len(right)),
        differences=[(_shown(a), _shown(b)) for a, b in found[:MAX_DIFFERENCES]],
        different=len(found),
        reordered=sum(
            a.value != b.value and not _row(a.value, in_order).same(_row(b.value, in_order)) for a, b in pairs
        ),
        rounding=max(
            (rounded for a, b in pairs for rounded in map(_Double.rounding, a.doubles, b.doubles)), default=0.0
        ),
    )


class _Tolerance(NamedTuple):
    """How far the doubles of a column may differ."""

    digits: int
    absolute: float


class _Double(NamedTuple):
    """A finite double. What lies between two that are the same is the same as both."""

    value: float
    tolerance: _Tolerance

    def agrees(self, other: _Double) -> bool:
        """Return whether two doubles differ only in their last digits."""
        return math.isclose(self.value, other.value, rel_tol=10.0**-self.tolerance.digits)

    def same(self, other: _Double) -> bool:
        near_zero = abs(self.value) <= NEAR_ZERO and abs(other.value) <= NEAR_ZERO
        return self.agrees(other) or near_zero or abs(self.value - other.value) <= self.tolerance.absolute

    def rounding(self, other: _Double) -> float:
        """Return the difference of two doubles that are the same; 0 if it is in their last digits."""
        return 0.0 if self.agrees(other) else abs(self.value - other.value)


class _Column(NamedTuple):
    """What counts in a column."""

    type: DataType | None
    double: _Tolerance
    float: _Tolerance
    ordered: bool


@dataclass(slots=True, eq=False)
class _Item:
    """A row, or an item of an array or a map."""

    text: str
    """The value without its doubles. The items of arrays in any order are sorted."""
    doubles: list[_Double]
    """Its doubles: of items in any order, each double by size. Values that are the same have the same doubles."""
    inner: list[list[_Item]]
    """Items in any order that have several doubles. Doubles by size do not tell which of them belong together."""
    value: Any

    def same(self, other: _Item) -> bool:
        """Return whether two items with the same text are the same, apart from what Spark leaves open."""
        return (
            self.text == other.text
            and all(map(_Double.same, self.doubles, other.doubles))
            and all(
                sum(1 for _ in _pairs_of_group(mine, theirs)) == len(mine)
                for mine, theirs in zip(self.inner, other.inner, strict=True)
            )
        )

    def order(self, first: int = 0) -> tuple[str, list[float]]:
        """Return the sort key, by the text and then by the doubles, from one of them on."""
        return self.text, [double.value for double in (*self.doubles[first:], *self.doubles[:first])]


def _columns(rows: list[tuple[Any, ...]], types: Sequence[DataType], ordered: Collection[int]) -> list[_Column]:
    largest = [0.0] * max(map(len, rows), default=0)
    for row in rows:
        for column, value in enumerate(row):
            largest[column] = max(largest[column], *(abs(double) for double in _finite_doubles(value)), 0.0)
    return [
        _Column(
            types[column] if types else None,
            _Tolerance(DIGITS, CANCELLED * number),
            _Tolerance(FLOAT_DIGITS, CANCELLED * number),
            column in ordered,
        )
        for column, number in enumerate(largest)
    ]


def _finite_doubles(value: Any) -> Iterator[float]:
    if isinstance(value, float) and math.isfinite(value):
        yield value
    elif isinstance(value, (dict, list, tuple)):
        for item in value.items() if isinstance(value, dict) else value:
            yield from _finite_doubles(item)


def _row(row: tuple[Any, ...], columns: list[_Column]) -> _Item:
    return _joined("row", row, [_item(value, column.type, column) for value, column in zip(row, columns, strict=True)])


def _item(value: Any, data_type: DataType | None, column: _Column) -> _Item:
    """Take a value apart.

    Args:
        value: a value of a row, or a value in it.
        data_type: its type, if it is known.
        column: the column that it is in.
    """
    if isinstance(value, float):
        if not math.isfinite(value):
            return _Item(f"double {value}", [], [], value)
        tolerance = column.float if isinstance(data_type, FloatType) else column.double
        return _Item("double", [_Double(value, tolerance)], [], value)
    if isinstance(value, dict):
        types = (data_type.keyType, data_type.valueType) if isinstance(data_type, MapType) else (None, None)
        entries = ((item, [_item(*part, column) for part in zip(item, types, strict=True)]) for item in value.items())
        return _in_any_order("map", value, [_joined("entry", item, parts) for item, parts in entries])
    if isinstance(value, list):
        of_items = data_type.elementType if isinstance(data_type, ArrayType) else None
        items = [_item(item, of_items, column) for item in value]
        return _joined("array", value, items) if column.ordered else _in_any_order("array", value, items)
    if isinstance(value, tuple):
        fields = [f.dataType for f in data_type] if isinstance(data_type, StructType) else [None] * len(value)
        return _joined("row", value, [_item(*part, column) for part in zip(value, fields, strict=True)])
    return _Item(repr(value), [], [], value)


def _joined(kind: str, value: Any, parts: list[_Item]) -> _Item:
    return _Item(
        f"{kind}({', '.join(part.text for part in parts)})",
        [double for part in parts for double in part.doubles],
        [items for part in parts for items in part.inner],
        value,
    )


def _in_any_order(kind: str, value: Any, items: list[_Item]) -> _Item:
    doubles: list[_Double] = []
    inner: list[list[_Item]] = []
    groups = _groups(items)
    for text in sorted(groups):
        group = groups[text]
        for same_double in zip(*(item.doubles for item in group), strict=True):
            doubles += sorted(same_double)
        if len(group) == 1:
            inner += group[0].inner
        elif len(group[0].doubles) > 1:
            inner.append(group)
    texts = (text for text in sorted(groups) for _ in groups[text])
    return _Item(f"{kind}({', '.join(texts)})", doubles, inner, value)


def _groups(items: Iterable[_Item]) -> dict[str, list[_Item]]:
    groups: dict[str, list[_Item]] = {}
    for item in items:
        groups.setdefault(item.text, []).append(item)
    return groups


def _paired(left: list[_Item], right: list[_Item]) -> Iterator[tuple[_Item, _Item]]:
    """Yield pairs of items that are the same, as many as there can be. No item is in two of them."""
    others = _groups(right)
    for text, group in _groups(left).items():
        if text in others:
            yield from _pairs_of_group(group, others[text])


def _pairs_of_group(left: list[_Item], right: list[_Item]) -> Iterator[tuple[_Item, _Item]]:
    """Yield the pairs of items that all have the same text.

    Where a double leaves a gap, no item below the gap is the same as one above it. So the items part there.
    """
    doubles = len(left[0].doubles)
    waiting = [(left, right, 0, 0)]
    while waiting:
        left, right, at, unparted = waiting.pop()
        if unparted in (0, doubles):
            by_order = _by_order(left, right, at)
            if all(one.same(other) for one, other in by_order) and len(left) == len(right):
                yield from by_order
                continue
        if unparted == doubles:
            yield from _pairs_of_part(left, right)
            continue
        parts = list(_parted(left, right, at))
        for part in parts:
            if all(part):
                waiting.append((*part, (at + 1) % doubles, 0 if len(parts) > 1 else unparted + 1))


def _by_order(left: list[_Item], right: list[_Item], first: int) -> list[tuple[_Item, _Item]]:
    if len(left) == len(right) == 1:
        return [(left[0], right[0])]
    # Those that are equal in all that counts may have another order inside arrays.
    sides = (sorted(side, key=lambda item: (item.order(first), repr(item.value))) for side in (left, right))
    return list(zip(*sides, strict=False))


def _parted(left: list[_Item], right: list[_Item], at: int) -> Iterator[tuple[list[_Item], list[_Item]]]:
    """Yield the items between the gaps of one of their doubles."""
    items = [*((item, 0) for item in left), *((item, 1) for item in right)]
    items.sort(key=lambda pair: pair[0].doubles[at])
    part: tuple[list[_Item], list[_Item]] = ([], [])
    for i, (item, side) in enumerate(items):
        if i and not items[i - 1][0].doubles[at].same(item.doubles[at]):
            yield part
            part = ([], [])
        part[side].append(item)
    yield part


def _pairs_of_part(left: list[_Item], right: list[_Item]) -> Iterator[tuple[_Item, _Item]]:
    """Yield the pairs of items that no gap parts."""
    columns = list(zip(*(item.doubles for item in (*left, *right)), strict=True))
    varying = [at for at, doubles in enumerate(columns) if not min(doubles).same(max(doubles))]
    if not varying and not left[0].inner:
        yield from _by_order(left, right, 0)
    elif len(varying) == 1 and not left[0].inner:
        yield from _pairs_in_a_line(left, right, varying[0])
    else:
        yield from _pairs_in_cells(left, right, varying)


def _pairs_in_a_line(left: list[_Item], right: list[_Item], at: int) -> Iterator[tuple[_Item, _Item]]:
    """Yield the pairs of items that only one double tells apart. Then nothing is better than to pair by order."""
    ones, others = (sorted(side, key=lambda item: item.doubles[at]) for side in (left, right))
    i = j = 0
    while i < len(ones) and j < len(others):
        if ones[i].same(others[j]):
            yield ones[i], others[j]
            i, j = i + 1, j + 1
        elif ones[i].doubles[at] < others[j].doubles[at]:
            i += 1
        else:
            j += 1


def _pairs_in_cells(left: list[_Item], right: list[_Item], varying: list[int]) -> Iterator[tuple[_Item, _Item]]:
    """Yield the pairs of items that several doubles tell apart.

    A double divides the items into cells: in a cell it is the same everywhere. So an item can only be the same as those
    in its cell and in the next ones. In each cell, a second double tells which are near.
    """
    by_cell = sorted(((_cells(left, right, at), at) for at in varying or [0]), key=lambda pair: -max(pair[0].values()))
    (cells, _), (_, second) = by_cell[0], by_cell[-1 if len(by_cell) == 1 else 1]
    others: dict[int, list[int]] = {}
    for j in sorted(range(len(right)), key=lambda j: right[j].doubles[second]):
        others.setdefault(cells[id(right[j])], []).append(j)
    doubles = {cell: [right[j].doubles[second] for j in numbers] for cell, numbers in others.items()}
    options: list[list[int]] = []
    for i, item in enumerate(left):
        cell = cells[id(item)]
        near: list[int] = []
        for reached in {cell - 1, cell, cell + 1} & others.keys():
            window = _window(item.doubles[second], doubles[reached])
            step = math.ceil(len(window) / MAX_CANDIDATES) or 1
            near += others[reached][window.start + i % step : window.stop : step]
        options.append([j for j in near if item.same(right[j])])
    for j, i in _largest_matching(options).items():
        yield left[i], right[j]


def _cells(left: list[_Item], right: list[_Item], at: int) -> dict[int, int]:
    """Return the cell of each item, by its id: 0, 1, ... by one of their doubles."""
    cells: dict[int, int] = {}
    cell, lowest = -1, None
    for item in sorted((*left, *right), key=lambda item: item.doubles[at]):
        double = item.doubles[at]
        if lowest is None or not lowest.same(double):
            cell, lowest = cell + 1, double
        cells[id(item)] = cell
    return cells


def _window(double: _Double, others: list[_Double]) -> range:
    """Return the positions of those among sorted doubles that are the same as another one."""
    first = bisect_left(others, True, key=lambda other: other >= double or other.same(double))
    after = bisect_left(others, True, lo=first, key=lambda other: other > double and not other.same(double))
    return range(first, after)


def _largest_matching(options: list[list[int]]) -> dict[int, int]:
    """Pair numbers with as many others as can be, by augmenting paths.

    Args:
        options: for 0, 1, ..., the others that each may be paired with.

    Returns:
        The number that each of the others is paired with.

    >>> _largest_matching([[0, 1], [0]])
    {0: 1, 1: 0}
    """
    number_of: dict[int, int] = {}
    other_of: dict[int, int] = {}
    exhausted: set[int] = set()
    for start in range(len(options)):
        reached_from: dict[int, int] = {}
        waiting = [start]
        for number in waiting:
            new = [other for other in options[number] if other not in reached_from and other not in exhausted]
            reached_from.update(dict.fromkeys(new, number))
            free = next((other for other in new if other not in number_of), None)
            if free is not None:
                # Each number on the path gives the other that it had to the one before it.
                while True:
                    number = reached_from[free]
                    before = other_of.get(number)
                    number_of[free], other_of[number] = number, free
                    if before is None:
                        break
                    free = before
                break
            waiting += [number_of[other] for other in new]
        else:
            exhausted.update(reached_from)  # no path from them leads to a free one, now or later
    return number_of


def _differences(
    pairs: list[tuple[_Item, _Item]], left: list[_Item], right: list[_Item]
) -> Iterator[tuple[_Item | None, _Item | None]]:
    """Yield the rows without a partner, side by side where they stand between the same rows that have one.

    Rows are told apart by what is no double.
    """
    known = sorted(one.text for one, _ in pairs)
    gaps: dict[int, tuple[list[_Item], list[_Item]]] = {}
    for side, items in enumerate((left, right)):
        for item in sorted(items, key=_Item.order):
            gaps.setdefault(bisect(known, item.text), ([], []))[side].append(item)
    for gap in sorted(gaps):
        yield from zip_longest(*gaps[gap])


def _shown(row: _Item | None) -> str:
    return "" if row is None else repr(row.value)
