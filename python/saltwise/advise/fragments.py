"""The part of a plan that one stage runs, and the operator for whose sake its rows were shuffled."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from .application import PlanNode

EXCHANGES = ("Exchange", "ShuffleQueryStage", "BroadcastQueryStage", "ReusedExchange", "BroadcastExchange")


class Kind(Enum):
    """What an operator does with the rows of a key."""

    AGGREGATE = "aggregate"
    WINDOW = "window"
    GROUP_MAP = "group map in Python"
    STATE = "group with state"
    JOIN = "join"
    OTHER = "other"


@dataclass
class Fragment:
    """The operators between two exchanges."""

    nodes: list[PlanNode] = field(default_factory=list)
    reads: list[list[PlanNode]] = field(default_factory=list)
    """For each shuffle that it reads: the operators above it, the lowest one first."""

    @property
    def accumulators(self) -> frozenset[int]:
        return frozenset().union(*(node.metrics for node in self.nodes))


def fragments(plan: PlanNode) -> list[Fragment]:
    """Cut a plan at its exchanges."""
    found: list[Fragment] = []
    _cut(plan, found, _begun(found), [])
    return [each for each in found if each.nodes]


def _begun(found: list[Fragment]) -> Fragment:
    found.append(Fragment())
    return found[-1]


def _cut(node: PlanNode, found: list[Fragment], current: Fragment, above: list[PlanNode]) -> None:
    if node.name.startswith(EXCHANGES):
        if not node.name.startswith("Broadcast"):
            current.reads.append(above[::-1])
        for child in node.children:
            _below(child, found)
        return
    current.nodes.append(node)
    for child in node.children:
        _cut(child, found, current, [*above, node])


def _below(node: PlanNode, found: list[Fragment]) -> None:
    """Begin the fragment that writes an exchange. A query stage has its exchange as a child."""
    if node.name.startswith(EXCHANGES):
        for child in node.children:
            _below(child, found)
    else:
        _cut(node, found, _begun(found), [])


def kind_of(node: PlanNode) -> Kind:
    """Say what an operator does with the rows of a key.

    >>> kind_of(PlanNode("SortMergeJoin", "SortMergeJoin [k#1], [k#2], Inner", frozenset(), ()))
    <Kind.JOIN: 'join'>
    """
    name = node.name
    if name.endswith(("HashAggregate", "SortAggregate")):
        return Kind.AGGREGATE
    if name.startswith(("Window", "ArrowWindowPython", "WindowInPandas")):
        return Kind.WINDOW
    if "WithState" in name:
        return Kind.STATE
    if name.startswith(
        ("FlatMapGroupsIn", "FlatMapCoGroupsIn", "AggregateInPandas", "ArrowAggregatePython", "MapGroups")
    ):
        return Kind.GROUP_MAP
    if "Join" in name and not name.startswith("Broadcast"):
        return Kind.JOIN
    return Kind.OTHER


def needs_shuffle(above: list[PlanNode]) -> PlanNode | None:
    """Return the operator for whose sake rows were shuffled: the lowest one above the exchange that groups them."""
    return next((node for node in above if kind_of(node) is not Kind.OTHER), None)


def keys_of(node: PlanNode) -> list[str]:
    """Return the grouping columns of an operator as its plan names them, without Spark's numbers.

    >>> text = "ObjectHashAggregate(keys=[day#7, user id#9L], functions=[collect_list(v#3, 0, 0)])"
    >>> keys_of(PlanNode("ObjectHashAggregate", text, frozenset(), ()))
    ['day', 'user id']
    """
    lists = list(_bracketed(node.text))
    if not lists:
        return []
    at = 1 if kind_of(node) is Kind.WINDOW else 0
    return [re.sub(r"#\d+L?", "", key).strip() for key in _split(lists[min(at, len(lists) - 1)])]


def _bracketed(text: str) -> Iterator[str]:
    """Yield what stands in brackets, the outermost ones."""
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


def _split(text: str) -> list[str]:
    """Split at the commas that stand in no parentheses."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([<") - (letter in ")]>")
        if letter == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part for part in map(str.strip, parts) if part]
