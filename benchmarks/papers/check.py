"""Checks of claims: a measure over the rows of an experiment, and the bound that its numbers must meet.

A check is one line of text. `max imbalance by scheme n>=50 < 0.001` takes the rows with n of at least 50, and asks that
the highest imbalance of each scheme is below 0.001. The words, in this order:

* `NAME:`, a function of the paper's module that makes other rows of the rows;
* the measure: a reduction (max, min, mean, median, sum, first, last, span, spread, deviation) and a column, and `by`
  columns, to have a number for each group; or `ratio COLUMN KIND ONE/OTHER,OTHER`, the ratio of one kind to others in
  all settings, where a number below one message counts as one message; or `difference` of the same; or `fact NAME`, a
  number of the whole experiment; or a function of the paper's module;
* filters, such as n=5,10, z>=0.8 and scheme!=PKG; what~batch takes the texts that contain the word;
* `over` or `minus` and another measure, whose numbers have the same labels, or which has one number;
* `| REDUCTION`, of all numbers to one;
* the bound: `>`, `>=`, `<` or `<=` and a number, for each number; `near NUMBER TOLERANCE`; `spans NUMBER TOLERANCE`,
  on both sides of it; `order` or `strict` and labels whose numbers rise; `rising` or `falling`; `lowest` or `highest`
  and a label, and a tolerance.

A name with spaces stands in quotes.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np

from .rows import SETTINGS, Measure, Numbers, Rows, label, mean, paired, pick, values

Own = Callable[[Rows], Any]
"""A measure, or a function that makes other rows."""

SHOWN = 6
"""A measure with more numbers than this is shown as a range."""

REDUCTIONS: dict[str, Callable[[Sequence[float]], float]] = {
    "max": max,
    "min": min,
    "mean": mean,
    "median": median,
    "sum": sum,
    "first": lambda numbers: numbers[0],
    "last": lambda numbers: numbers[-1],
    "span": lambda numbers: max(numbers) - min(numbers),
    "spread": lambda numbers: max(numbers) / min(numbers),
    "deviation": lambda numbers: float(np.std(numbers)),
}
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<=": lambda x, y: x <= y,
    ">=": lambda x, y: x >= y,
    "!=": lambda x, y: x not in y if isinstance(y, tuple) else x != y,
    "=": lambda x, y: x in y if isinstance(y, tuple) else x == y,
    "<": lambda x, y: x < y,
    ">": lambda x, y: x > y,
    "~": lambda x, y: y in x,
}
BOUNDS: dict[str, Callable[[Numbers, Sequence[str]], Sequence[bool]]] = {
    ">": lambda numbers, at: [x > float(at[0]) for x in numbers.values()],
    ">=": lambda numbers, at: [x >= float(at[0]) for x in numbers.values()],
    "<": lambda numbers, at: [x < float(at[0]) for x in numbers.values()],
    "<=": lambda numbers, at: [x <= float(at[0]) for x in numbers.values()],
    "near": lambda numbers, at: [abs(x - float(at[0])) < float(at[1]) for x in numbers.values()],
    "spans": lambda numbers, at: [
        min(numbers.values()) - float(at[1]) <= float(at[0]) <= max(numbers.values()) + float(at[1])
    ],
    "order": lambda numbers, at: [numbers[a] <= numbers[b] for a, b in pairwise(at)],
    "strict": lambda numbers, at: [numbers[a] < numbers[b] for a, b in pairwise(at)],
    "rising": lambda numbers, at: [a <= b for a, b in pairwise(numbers.values())],
    "falling": lambda numbers, at: [a >= b for a, b in pairwise(numbers.values())],
    "lowest": lambda numbers, at: [numbers[at[0]] <= min(numbers.values()) + float([*at, "0"][1])],
    "highest": lambda numbers, at: [numbers[at[0]] >= max(numbers.values()) - float([*at, "0"][1])],
}
_FILTER = re.compile(r"(.+?)(<=|>=|!=|=|<|>|~)(.+)")


@dataclass(frozen=True)
class Check:
    """Numbers, and the bound that they must meet."""

    measure: Measure
    meets: Callable[[Numbers], Sequence[bool]]
    """Whether the numbers meet the bound, in one or several answers."""
    text: str

    def phrase(self, rows: Rows) -> str:
        """Return the check, and the numbers."""
        numbers = self.measure(rows)
        if len(numbers) > SHOWN:
            return f"{self.text}: {min(numbers.values()):.3g} to {max(numbers.values()):.3g}, {len(numbers)} numbers"
        shown = ", ".join(f"{name} {value:.3g}".strip() for name, value in numbers.items())
        return f"{self.text}: {shown or 'no numbers'}"


def parse(text: str, own: Mapping[str, Own]) -> Check:
    """Return the check that a text is.

    >>> check = parse("max I by scheme n>=50 < 0.1", {})
    >>> check.phrase([{"scheme": "PKG", "n": 50, "I": 0.2}, {"scheme": "PKG", "n": 5, "I": 0.3}])
    'max I by scheme n>=50 < 0.1: PKG 0.2'
    """
    words = shlex.split(text)
    at = next(i for i, word in enumerate(words) if word in BOUNDS)
    bound, names = BOUNDS[words[at]], words[at + 1 :]
    return Check(_measure(words[:at], own), lambda numbers: bound(numbers, names), text)


def _measure(words: list[str], own: Mapping[str, Own]) -> Measure:
    if "|" in words:
        reduce, whole = REDUCTIONS[words[-1]], _measure(words[: words.index("|")], own)
        return lambda rows: {"": float(reduce(list(whole(rows).values())))}
    for joint, combine in (("over", lambda x, y: x / (y or 1e-300)), ("minus", lambda x, y: x - y)):
        if joint in words:
            at = words.index(joint)
            return _combined(_measure(words[:at], own), _measure(words[at + 1 :], own), combine)
    if words[0].endswith(":"):
        rows_of, inner = own[words[0][:-1]], _single(words[1:], own)
        return lambda rows: inner(rows_of(rows))
    return _single(words, own)


def _single(words: list[str], own: Mapping[str, Own]) -> Measure:
    by: list[str] = []
    if "by" in words:
        at = words.index("by")
        by = words[at + 1].split(",")
        words = words[:at] + words[at + 2 :]
    head = {"ratio": 4, "difference": 4}.get(words[0], 1 if words[0] in own else 2)
    where = _filters(words[head:])
    kind, *names = words[:head]
    if kind in own:
        return lambda rows: own[kind](pick(rows, **where))
    if kind == "fact":
        return lambda rows: {"": values(rows, "value", fact=names[0])[0]}
    if kind in REDUCTIONS:
        return lambda rows: _grouped(pick(rows, **where), REDUCTIONS[kind], names[0], by)
    one, others = names[2].split("/")
    return lambda rows: _compared(pick(rows, **where), kind, names[0], names[1], value(one), others.split(","))


def _filters(words: Sequence[str]) -> dict[str, Callable[[Any], bool]]:
    limits: dict[str, list[tuple[Callable[[Any, Any], bool], Any]]] = {}
    for word in words:
        found = _FILTER.fullmatch(word)
        if found is None:
            raise ValueError(f"{word!r} is no filter.")
        name, comparison, text = found.groups()
        wanted = tuple(map(value, text.split(","))) if "," in text else value(text)
        limits.setdefault(name, []).append((COMPARISONS[comparison], wanted))
    return {name: partial(_within, of_name) for name, of_name in limits.items()}


def _within(limits: Sequence[tuple[Callable[[Any, Any], bool], Any]], x: Any) -> bool:
    return all(compare(x, wanted) for compare, wanted in limits)


def value(text: str) -> Any:
    """Return a whole number, a number, or the text itself.

    >>> value("5"), value("0.5"), value("PKG")
    (5, 0.5, 'PKG')
    """
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _grouped(rows: Rows, reduce: Callable[[Sequence[float]], float], column: str, by: Sequence[str]) -> Numbers:
    groups: dict[str, list[float]] = {}
    for row in rows:
        if column in row:
            groups.setdefault(label(row, by), []).append(float(row[column]))
    return {name: float(reduce(group)) for name, group in groups.items()}


def _compared(rows: Rows, kind: str, column: str, by: str, one: object, others: Sequence[str]) -> Numbers:
    numbers: Numbers = {}
    for other in others:
        for row, x, y in paired(rows, column, by, one, value(other)):
            setting = label(row, [name for name in row if name in SETTINGS - {by}])
            least = 1 / row["messages"] if "messages" in row else 0.0
            compared = x - y if kind == "difference" else max(x, least) / (max(y, least) or 1e-300)
            numbers[f"{setting} {other}" if len(others) > 1 else setting] = compared
    return numbers


def _combined(one: Measure, other: Measure, combine: Callable[[float, float], float]) -> Measure:
    def measure(rows: Rows) -> Numbers:
        first, second = one(rows), other(rows)
        single = next(iter(second.values())) if len(second) == 1 else None
        return {name: combine(x, second[name] if single is None else single) for name, x in first.items()}

    return measure
