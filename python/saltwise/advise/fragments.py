"""The part of a plan that one stage runs, and the operator that needed its shuffle."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from .application import PlanNode

EXCHANGES = ("Exchange", "ShuffleQueryStage", "BroadcastQueryStage", "ReusedExchange", "BroadcastExchange")
PARTIAL = "functions=[partial_"
"""Part of the text of an aggregate that needs no shuffle."""

_HASHED = "hashpartitioning("
_NUMBER = re.compile(r", ?(\d{1,9})\)")
"""The number of partitions of an exchange. It stands behind the keys."""
_COMPUTED = "_groupingexpression#"


class Kind(Enum):
    """What an operator does with the rows of a key."""

    AGGREGATE = "aggregate"
    WINDOW = "window"
    GROUP_MAP = "group map in Python"
    OTHER_GROUP_MAP = "group map"
    STATE = "group with state"
    JOIN = "join"
    REPARTITION = "repartition"
    OTHER = "other"


class Read(NamedTuple):
    """A shuffle that a fragment reads."""

    exchange: PlanNode
    above: Sequence[PlanNode]
    """The operators above it, the lowest one first."""

    @property
    def below(self) -> Iterator[PlanNode]:
        """Yield the operators that wrote the shuffle, down to the exchanges below."""
        return _until_exchanges(self.exchange.children)


@dataclass
class Fragment:
    """The operators between two exchanges."""

    nodes: list[PlanNode] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)

    @property
    def accumulators(self) -> frozenset[int]:
        return frozenset().union(*(node.metrics for node in self.nodes))

    def has(self, *names: str) -> bool:
        """Say whether an operator's name begins with one of these."""
        return any(node.name.startswith(names) for node in self.nodes)


def fragments(plan: PlanNode) -> list[Fragment]:
    """Cut a plan at its exchanges."""
    parts: list[Fragment] = []
    _cut(plan, parts, _new_fragment(parts), [])
    return [part for part in parts if part.nodes]


def _new_fragment(parts: list[Fragment]) -> Fragment:
    parts.append(Fragment())
    return parts[-1]


def _cut(node: PlanNode, parts: list[Fragment], current: Fragment, above: list[PlanNode]) -> None:
    if node.name.startswith(EXCHANGES):
        if not node.name.startswith("Broadcast"):
            current.reads.append(Read(_innermost(node), above[::-1]))
        for child in node.children:
            _cut_below(child, parts)
        return
    current.nodes.append(node)
    for child in node.children:
        _cut(child, parts, current, [*above, node])


def _innermost(node: PlanNode) -> PlanNode:
    """Return the exchange itself: a query stage has it as a child, and a reused one has the original."""
    while node.children and node.children[0].name.startswith(EXCHANGES):
        node = node.children[0]
    return node


def _until_exchanges(nodes: Sequence[PlanNode]) -> Iterator[PlanNode]:
    for node in nodes:
        if not node.name.startswith(EXCHANGES):
            yield node
            yield from _until_exchanges(node.children)


def _cut_below(node: PlanNode, parts: list[Fragment]) -> None:
    """Begin the fragment that writes an exchange, and cut it."""
    if node.name.startswith(EXCHANGES):
        for child in node.children:
            _cut_below(child, parts)
    else:
        _cut(node, parts, _new_fragment(parts), [])


def kind_of(node: PlanNode) -> Kind:
    """Say what an operator does with the rows of a key.

    >>> kind_of(PlanNode("SortMergeJoin", "SortMergeJoin [k#1], [k#2], Inner", frozenset(), ()))
    <Kind.JOIN: 'join'>
    """
    name = node.name
    if name.endswith(("HashAggregate", "SortAggregate")):
        return Kind.OTHER if PARTIAL in node.text else Kind.AGGREGATE
    # A WindowGroupLimit keeps the first rows of each key, for the window above it.
    if name.startswith(("Window", "ArrowWindowPython", "WindowInPandas")) and name != "WindowGroupLimit":
        return Kind.WINDOW
    if "WithState" in name or name.startswith("StreamingSymmetricHashJoin"):
        return Kind.STATE
    if name.startswith(("FlatMapGroupsInR", "MapGroups")):
        return Kind.OTHER_GROUP_MAP
    if name.startswith(("FlatMapGroupsIn", "FlatMapCoGroupsIn", "AggregateInPandas", "ArrowAggregatePython")):
        return Kind.GROUP_MAP
    if "Join" in name and not name.startswith("Broadcast"):
        return Kind.JOIN
    return Kind.OTHER


def needs_shuffle(read: Read) -> PlanNode | None:
    """Return the operator that needed the shuffle.

    It is the lowest operator above the exchange that groups rows, or the exchange itself if the query asked for it.
    """
    if "REPARTITION_BY" in read.exchange.text:
        return read.exchange
    return next((node for node in read.above if kind_of(node) is not Kind.OTHER), None)


def partitions_of(exchange: PlanNode) -> int:
    """Return the number of partitions of an exchange that hashes rows; 1 for any other exchange.

    >>> partitions_of(PlanNode("Exchange", "Exchange hashpartitioning(k#1L, 200), [plan_id=7]", frozenset(), ()))
    200
    """
    _, _, hashed = exchange.text.partition(_HASHED)
    found = _NUMBER.search(hashed)
    return int(found[1]) if found else 1


def keys_of(node: PlanNode, plan: PlanNode) -> list[str]:
    """Return the grouping columns of an operator by their names in the plan, without Spark's numbers.

    >>> text = "ObjectHashAggregate(keys=[day#7, user id#9L], functions=[collect_list(v#3, 0, 0)])"
    >>> node = PlanNode("ObjectHashAggregate", text, frozenset(), ())
    >>> keys_of(node, node)
    ['day', 'user id']
    """
    if kind_of(node) is Kind.OTHER_GROUP_MAP:
        return []  # in its text, functions stand in the place of keys
    if node.name.startswith(EXCHANGES):
        _, _, hashed = node.text.partition(_HASHED)
        end = max((found.start() for found in _NUMBER.finditer(hashed)), default=0)
        keys = split(hashed[:end])
    else:
        lists = list(_bracketed(node.text))
        at = 1 if kind_of(node) is Kind.WINDOW else 0
        keys = split(lists[min(at, len(lists) - 1)]) if lists else []
    computed = _computed(plan) if any(key.startswith(_COMPUTED) for key in keys) else {}
    return [re.sub(r"#\d+L?", "", computed.get(key, key)).strip() for key in keys]


def _computed(plan: PlanNode) -> dict[str, str]:
    """Return the expressions of the keys that Spark computes in the plan, by the names that Spark gave them."""
    found: dict[str, str] = {}
    for node in plan:
        if f" AS {_COMPUTED}" in node.text:
            for part in (part for listed in _bracketed(node.text) for part in split(listed)):
                expression, _, name = part.rpartition(" AS ")
                if name.startswith(_COMPUTED):
                    found.setdefault(name, expression)
    return found


def _bracketed(text: str) -> Iterator[str]:
    """Yield the texts within the outermost brackets."""
    depth, begin = 0, 0
    for i, letter in enumerate(text):
        if letter == "[":
            depth += 1
            if depth == 1:
                begin = i + 1
        elif letter == "]" and depth:
            depth -= 1
            if depth == 0:
                yield text[begin:i]


def split(text: str) -> list[str]:
    """Split a text at the commas outside of parentheses and brackets.

    >>> split("max(a, b), c")
    ['max(a, b)', 'c']
    """
    ends, depth = [-1], 0
    for i, letter in enumerate(text):
        depth += (letter in "([<") - (letter in ")]>")
        if letter == "," and depth <= 0:
            ends.append(i)
    parts = (text[begin + 1 : end] for begin, end in zip(ends, [*ends[1:], len(text)], strict=True))
    return [part for part in map(str.strip, parts) if part]
