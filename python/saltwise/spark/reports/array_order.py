"""Where a query gives the order inside its arrays, and where Spark leaves it open, read from its analysed plan.

The plan is text, because over Connect there is nothing else. Where the text cannot be read, all is taken as open.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

GIVEN, ANY_ORDER, OPEN = range(3)
"""What is known of a value: all of it; all but the order of its items; or less than that."""

READ_BY_ORDER = ("array_join", "concat_ws", "element_at", "posexplode", "slice", "to_json")
"""Functions whose answer depends on the order inside an array."""

_COLLECT = ("collect_list", "collect_set")
_ORDERLESS = ("explode", "explode_outer", "sort_array")
"""Functions whose answer does not depend on the order of the items of their first argument."""
_SAME_ITEMS = ("array_compact", "array_distinct", "coalesce", "concat", "flatten")
"""Functions that keep items, in whatever order they come."""
_SORTS_BY_DEFAULT = "lambdafunction(if ((isnull(lambda left#"
"""How array_sort without a function begins. With a function, it leaves the order of equal items open."""
_COLLECTS = re.compile(rf"\b(?:{'|'.join(_COLLECT)})\(")
_SETTLED = re.compile(rf"\b(?:{'|'.join((*_COLLECT, *_ORDERLESS, 'array_sort'))})\(")
"""Begins a call that may give the order itself."""
_ORDERED_WINDOW = re.compile(r"windowspecdefinition\(.* (?:ASC|DESC) NULLS ")
_COLUMN = re.compile(r"(.*)#(\d+)L?", re.DOTALL)
_DEFINITION = re.compile(r"(.*) AS (.*)#(\d+)L?", re.DOTALL)
_NODE = re.compile(r"^[ :+-]*(\w+) ?(.*)", re.MULTILINE)
_FIRST_PROJECT = re.compile(r"^Project \[.*", re.MULTILINE | re.DOTALL)
_OPAQUE = re.compile(r"Union|ScriptTransformation|FlatMap|CoGroup|MapElements|MapGroups|MapIn|MapPartitions|Serialize")
"""Begins the names of nodes whose columns cannot be told from the plan."""


@dataclass
class ArrayOrder:
    """What an analysed plan tells of the order inside arrays.

    >>> order = ArrayOrder("Project [k#0, xs#5]\\n+- Aggregate [k#0], [k#0, collect_list(v#1, 0, 0) AS xs#5]")
    >>> order.given(columns=2), order.readers
    (frozenset({0}), ())
    """

    plan: str
    _known: dict[str, int] = field(default_factory=dict, init=False)
    """What is known of the columns of the plan, by their numbers."""
    _unreadable: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if query := _FIRST_PROJECT.search(self.plan):
            self.plan = query[0]  # over Connect, a line of the types comes before
        defined = list(self._definitions())
        changed = True
        while changed:
            changed = False
            by_name: dict[str, int] = {}
            for name, number, _ in defined:
                by_name[name] = max(by_name.get(name, GIVEN), self._known.get(number, GIVEN))
            for name, number, expression in reversed(defined):
                known = by_name[name] if expression is None else self._of(expression)
                if known > self._known.get(number, GIVEN):
                    self._known[number] = known
                    changed = True

    def given(self, columns: int) -> frozenset[int]:
        """Return the positions of the columns of the answer in whose arrays the query gives the order.

        Args:
            columns: how many columns the answer has. The plan must begin with a Project of them.
        """
        everywhere = frozenset(range(columns))
        if not self._leaves_open:
            return everywhere
        node, rest = _NODE.findall(self.plan)[0]
        shown = _separated(next(_lists(rest), "")) if node == "Project" else []
        if self._unreadable or len(shown) != columns:
            return frozenset()
        return frozenset(i for i in everywhere if self._of(shown[i]) == GIVEN)

    @property
    def readers(self) -> tuple[str, ...]:
        """The functions of the query whose answer depends on an order that Spark leaves open."""
        if not self._leaves_open:
            return ()
        return tuple(name for name in READ_BY_ORDER if any(map(self._is_read, self._calls_of(name))))

    @property
    def _leaves_open(self) -> bool:
        """Whether any order is open."""
        return any(self._known.values()) or (self._unreadable and _COLLECTS.search(self.plan) is not None)

    def _calls_of(self, name: str) -> Iterator[str]:
        for call in re.finditer(rf"\b{name}\(", self.plan):
            yield _bracketed(self.plan[call.end() - 1 :])[0]

    def _is_read(self, arguments: str) -> bool:
        return self._unreadable or any(self._of(argument) > GIVEN for argument in _separated(arguments))

    def _definitions(self) -> Iterator[tuple[str, str, str | None]]:
        """Yield name, number and expression of the columns that are made; None for what has the name of another."""
        for node, rest in _NODE.findall(self.plan):
            self._unreadable |= bool(_OPAQUE.match(node)) or rest.count("[") != rest.count("]")
            lists = [_separated(inner) for inner in _lists(rest)]
            for entry in (entry for entries in lists for entry in entries):
                self._unreadable |= entry.count("(") != entry.count(")")
                if made := _DEFINITION.fullmatch(entry):
                    yield made[2], made[3], made[1]
            new = lists[-1] if lists and node in ("CTERelationRef", "Expand", "Generate") else []
            for column in filter(None, map(_COLUMN.fullmatch, new)):
                yield column[1], column[2], rest[: rest.index("[")] if node == "Generate" else None

    def _of(self, expression: str) -> int:
        """Return what is known of the value of an expression."""
        expression = expression.strip().removeprefix("distinct ")
        if call := re.match(r"(\w+)\(", expression):
            inner, after = _bracketed(expression[call.end() - 1 :])
            if re.fullmatch(r"#\d+L?", after):  # the name of a column that was a call
                return self._known.get(after.strip("#L"), GIVEN)
            known = self._of_call(call[1], _separated(inner), after)
            if known is not None:
                return known
        elif column := re.fullmatch(r"[^()\[\],#]*#(\d+)L?", expression):
            return self._known.get(column[1], GIVEN)
        rest = self._without_settled(expression)
        numbers = re.findall(r"#(\d+)", rest)
        subquery = "subquery#" in rest and self._leaves_open
        open_ = subquery or _COLLECTS.search(rest) or any(self._known.get(number) for number in numbers)
        return OPEN if open_ else GIVEN

    def _of_call(self, name: str, arguments: list[str], after: str) -> int | None:
        """Return what is known of the value of one call; None for a function that is not among those above.

        Args:
            name: of the function.
            arguments: the expressions.
            after: what follows the call: a FILTER, the definition of a window, or nothing.
        """
        if name in _COLLECT and re.fullmatch(r"( FILTER \(.*\))?( windowspecdefinition\(.*\))?", after, re.DOTALL):
            if max(map(self._of, arguments)) > GIVEN:
                return OPEN
            return GIVEN if _ORDERED_WINDOW.search(after) else ANY_ORDER
        sorts = name == "array_sort" and len(arguments) > 1 and arguments[1].strip().startswith(_SORTS_BY_DEFAULT)
        if name in _ORDERLESS or sorts:
            return (GIVEN if self._of(arguments[0]) <= ANY_ORDER else OPEN) if not after else None
        return max(map(self._of, arguments)) if name in _SAME_ITEMS and not after else None

    def _without_settled(self, expression: str) -> str:
        """Return an expression without the calls in it that give an order, or need none."""
        kept, at = [], 0
        for call in _SETTLED.finditer(expression):
            if call.start() < at:
                continue
            _, after = _bracketed(expression[call.end() - 1 :])
            end = len(expression) - len(after)
            if self._of_call(call[0][:-1], _separated(expression[call.end() : end - 1]), "") == GIVEN:
                kept.append(expression[at : call.start()])
                at = end
        return "".join(kept) + expression[at:]


def _lists(text: str) -> Iterator[str]:
    """Yield the insides of the brackets [] of a text that are in no other brackets."""
    for start, end in _spans(text, "[]"):
        yield text[start + 1 : end]


def _bracketed(text: str) -> tuple[str, str]:
    """Split a text that begins with a bracket into the text inside and the text after it."""
    _, end = next(_spans(text, "()"), (0, len(text)))
    return text[1:end], text[end + 1 :]


def _spans(text: str, pair: str) -> Iterator[tuple[int, int]]:
    """Yield where outermost brackets of one kind begin and end."""
    depth = start = 0
    for sign in re.finditer(r"[()]" if pair == "()" else r"[\[\]]", text):
        if sign[0] == pair[0]:
            start = sign.start() if depth == 0 else start
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                yield start, sign.start()


def _separated(text: str) -> list[str]:
    """Split a text at the commas that are in no brackets."""
    parts, depth, begun = [], 0, 0
    for sign in re.finditer(r"[()\[\],]", text):
        if sign[0] == "," and depth == 0:
            parts.append(text[begun : sign.start()].strip())
            begun = sign.end()
        depth += (sign[0] in "([") - (sign[0] in ")]")
    return [*parts, text[begun:].strip()]
