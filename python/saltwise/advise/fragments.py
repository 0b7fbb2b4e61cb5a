"""The part of a plan that one stage runs, and the operator that needed its shuffle."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from .application import PlanNode

EXCHANGES = ("Exchange", "ShuffleQueryStage", "BroadcastQueryStage", "ReusedExchange", "BroadcastExchange")
AGGREGATES = ("HashAggregate", "SortAggregate")
"""Ends of the names of aggregates."""
PARTIAL = "functions=[partial_"
"""Part of the text of an aggregate that needs no shuffle."""

_HASHED = "hashpartitioning("
_ONE_TASK = "SinglePartition"
_LOCATION = re.compile(r"Location: \w+\(1 paths\)\[([^\]]*)")
_ATTRIBUTE = re.compile(r"#\d+")
_ORDER = (" NULLS FIRST", " NULLS LAST")
"""Ends of a column in an ORDER BY."""
_NUMBER = re.compile(r", ?(\d{1,9})\)")
"""The number of partitions of an exchange. It stands behind the keys."""
_COMPUTED = "_groupingexpression#"
_OVER = " windowspecdefinition("
_CONDITION = re.compile(r" FILTER \(WHERE .*\)$", re.DOTALL)
_NAME = re.compile(r"\w+")


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
    if name.endswith(AGGREGATES):
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


def file_below(plan: PlanNode) -> str:
    """Return the file or folder that a plan reads; nothing if it reads several, or Spark has cut the name short.

    >>> scan = PlanNode("Scan parquet", "FileScan parquet Location: InMemoryFileIndex(1 paths)[file:/data/sales], ...",
    ...     frozenset(), ())
    >>> file_below(scan)
    '/data/sales'
    """
    found = {path for node in plan for path in _LOCATION.findall(node.text)}
    path = found.pop() if len(found) == 1 else ""
    return "" if "..." in path or " " in path else path.removeprefix("file:")


def needs_one_task(read: Read) -> bool:
    """Say whether a window without PARTITION BY needs all rows of the shuffle in one task."""
    node = needs_shuffle(read)
    return node is not None and kind_of(node) is Kind.WINDOW and _ONE_TASK in read.exchange.text


def functions_of(node: PlanNode) -> list[str]:
    """Return the names of the functions of an aggregate or a window.

    >>> text = "HashAggregate(keys=[k#1], functions=[collect_list(v#2, 0, 0), max(upper(v#2)) FILTER (WHERE c#3)])"
    >>> functions_of(PlanNode("HashAggregate", text, frozenset(), ()))
    ['collect_list', 'max']
    >>> text = "Window [MakeDecimal(sum(UnscaledValue(v#2)) windowspecdefinition(k#1, x#3 ASC),17,2) AS s#4], [k#1]"
    >>> functions_of(PlanNode("Window", text, frozenset(), ()))
    ['sum']
    """
    if kind_of(node) is Kind.WINDOW and _OVER in node.text:
        calls = _functions(node).split(_OVER)[:-1]
        return [_last_call(_CONDITION.sub("", call)) for call in calls]
    # Arguments and FILTER (WHERE ...) follow a name.
    return [re.split(r"[\s(]", call, maxsplit=1)[0] for call in split(_functions(node))]


def _last_call(text: str) -> str:
    """Return the name of the call that ends a text.

    >>> _last_call("upper(lag(v#1, -1, (a#2 + 1))")
    'lag'
    """
    depth = 0
    for i in range(len(text) - 1, -1, -1):
        depth += (text[i] == ")") - (text[i] == "(")
        if depth == 0:
            return str(_NAME.findall(text[:i])[-1])
    return text


def columns_read_by(node: PlanNode) -> frozenset[str]:
    """Return the numbers that Spark gave the columns that the functions of an aggregate read.

    >>> text = "HashAggregate(keys=[k#1], functions=[sum((price#7 * amount#12L))])"
    >>> sorted(columns_read_by(PlanNode("HashAggregate", text, frozenset(), ())))
    ['#12', '#7']
    """
    return frozenset(_ATTRIBUTE.findall(_functions(node)))


def columns_in(plan: PlanNode) -> frozenset[str]:
    """Return the numbers of all columns that a plan names."""
    return frozenset(found for node in plan for found in _ATTRIBUTE.findall(node.text))


def _functions(node: PlanNode) -> str:
    """Return the text of the functions of an aggregate, or of a window, where they come first."""
    text = node.text if kind_of(node) is Kind.WINDOW else node.text.partition("functions=")[2]
    return next(_bracketed(text), "")


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
        lists = [split(listed) for listed in _bracketed(node.text)]
        if kind_of(node) is Kind.WINDOW:
            # Functions, keys and order; a window without PARTITION BY has no list of keys.
            lists = [listed for listed in lists[1:] if not all(column.endswith(_ORDER) for column in listed)]
        keys = lists[0] if lists else []
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
