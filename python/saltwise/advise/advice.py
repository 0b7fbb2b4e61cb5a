"""The one change that helps a skewed stage, what it can do for the largest key, or why nothing would help.

For joins Spark has `OptimizeSkewedJoin`. It cuts a partition into pieces of the advisory size if the partition is
larger than a threshold and larger than a multiple of the median, and if that needs no other shuffle.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from enum import Enum
from statistics import median
from typing import NamedTuple

from ..conf_words import is_true, mode_of, word
from ..errors import SaltwiseValueError
from ..sizes import bytes_of
from .application import PlanNode
from .fragments import (
    AGGREGATES,
    PARTIAL,
    Fragment,
    Kind,
    Read,
    columns_in,
    columns_read_by,
    functions_of,
    keys_of,
    kind_of,
    needs_one_task,
)

ADAPTIVE = "spark.sql.adaptive"
SKEW_JOIN = f"{ADAPTIVE}.skewJoin"
ADVISORY = f"{ADAPTIVE}.advisoryPartitionSizeInBytes"
DEFAULT_ADVISORY = "64m"
BYPASS = "spark.sql.execution.bypassPartialAggregation"
LIST_FUNCTIONS = {"collect_list", "listagg"}
"""Functions whose result for a key is as large as all its states, so merging them in parts gains nothing."""
SLICED = {
    *("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "count", "sum", "min", "max", "avg"),
    *("lag", "lead", "first_value", "last_value", "nth_value", "bit_and", "bit_or", "bit_xor"),
}
"""Functions of a window that run in slices of its order."""
NEAR = 100
"""The most rows before or behind a row that a frame in slices may have."""
KEPT = {"Inner": (0, 1), "LeftOuter": (0,), "LeftSemi": (0,), "LeftAnti": (0,), "RightOuter": (1,)}
"""The sides of a join whose rows may be combined below it, by the kind of join."""
_FRAME = re.compile(r"specifiedwindowframe\((\w+), ([^,]+), (-?\d+|\w+\$\(\))\)")
_PLAIN_NAME = re.compile(r"[\w .-]+")
_KIND_OF_JOIN = re.compile(rf"\], ({'|'.join(KEPT)})\b")

Conf = Mapping[str, str]


class Reach(Enum):
    """What a change can do to the key with the most rows."""

    SPLITS = "splits"
    """Its rows go to several tasks, or become few: the tasks can be even."""
    MOVES = "moves"
    """Other keys go elsewhere, and it stays in one task: if that task has nothing else, nothing is gained."""
    NOTHING = "nothing"


class Change(NamedTuple):
    """A change, or why nothing helps, and what it can do to the key with the most rows."""

    text: str
    reach: Reach


ALREADY_ON = Change("it was on already: the tab Saltwise in Spark's UI says what it did and why", Reach.NOTHING)


def advice(
    node: PlanNode, keys: Sequence[str], *, fragment: Fragment, read: Read, conf: Conf, sizes: Sequence[int]
) -> Change:
    """Return what to change.

    Args:
        node: the operator that needed the shuffle.
        keys: its grouping columns.
        fragment: the part of the plan that the stage runs.
        read: the shuffle that the stage reads.
        conf: the confs of the application and the query.
        sizes: the bytes that each task read.
    """
    columns = ", ".join(keys)
    match kind_of(node):
        case Kind.AGGREGATE:
            return _aggregate(node, columns, fragment, conf)
        case Kind.GROUP_MAP:
            return Change(
                f"df.skew_groupby({', '.join(map(_argument, keys))}) places whole groups evenly, and with merge= or a "
                "saltwise.Aggregator it splits a group that is too large alone",
                Reach.MOVES,
            )
        case Kind.OTHER_GROUP_MAP:
            return _nothing("a function over whole groups in Scala or R; write it as an Aggregator, whose parts merge")
        case Kind.JOIN:
            return _join(node, read, conf, sizes)
        case Kind.STATE:
            return Change("saltwise.StateBalancer moves state partitions to other executors", Reach.MOVES)
        case Kind.WINDOW:
            return _window(node, fragment, read, conf)
    return Change(
        f"the query itself repartitions by {columns}: leave that out, or repartition without columns", Reach.SPLITS
    )


def _nothing(what: str) -> Change:
    return Change(f"nothing helps {what}", Reach.NOTHING)


def _argument(key: str) -> str:
    """Return a grouping column as Python code. What is no plain name counts as an expression that Spark computed.

    >>> print(_argument("customer"), _argument("user id"), _argument("upper(name)"))
    "customer" "`user id`" F.expr("upper(name)")
    """
    if key.isidentifier():
        return f'"{key}"'
    return f'"`{key}`"' if _PLAIN_NAME.fullmatch(key) else f"F.expr({json.dumps(key, ensure_ascii=False)})"


def _switch(conf: Conf) -> str:
    return f"spark.saltwise.{'mode=on' if 'spark.saltwise.mode' in conf else 'enabled=true'}"


def _aggregate(node: PlanNode, columns: str, fragment: Fragment, conf: Conf) -> Change:
    if _has_distinct(node):
        return _nothing("here: Saltwise leaves DISTINCT to Spark, which has plans of its own for it")
    functions = set(functions_of(node))
    if functions and functions <= LIST_FUNCTIONS:
        return Change(
            f"nothing helps a key whose {' or '.join(sorted(functions))} alone is too large, because one task must "
            "hold it; if one task has several such keys, more spark.sql.shuffle.partitions separate them",
            Reach.MOVES,
        )
    if is_true(conf.get(BYPASS)):
        return Change(f"set {BYPASS}=false: then map tasks combine a hot key's rows before the shuffle", Reach.SPLITS)
    if mode_of(conf.get) == "on":
        return ALREADY_ON
    select = f"in the SELECT that groups by {columns}"
    # auto leaves these to Spark, because they are rarely skewed there.
    if fragment.has("StateStore") or node.name == "HashAggregate":
        return Change(f"write /*+ SKEW_GROUPBY(dchoices) */ {select}", Reach.SPLITS)
    return Change(f"set {_switch(conf)}, or write /*+ SKEW_GROUPBY */ {select}", Reach.SPLITS)


def _has_distinct(node: PlanNode) -> bool:
    return "distinct " in node.text or "functions=[]" in node.text


def _window(node: PlanNode, fragment: Fragment, read: Read, conf: Conf) -> Change:
    if fragment.has("WindowGroupLimit"):
        return _nothing("here: Spark drops most rows of such a window before the shuffle, and Saltwise leaves it alone")
    if needs_one_task(read):
        return _window_of_all(node, conf)
    switch = "spark.saltwise.placement.enabled"
    on = mode_of(conf.get) == "on"
    if _runs_in_slices(node) and not on:
        return Change(
            f"set {_switch(conf)}: a key that has too many rows for one task then runs in slices of its "
            f"order{_if_floats(node)}; if several keys meet in one task instead, set {switch}=true",
            Reach.SPLITS,
        )
    if is_true(conf.get(switch)):
        return ALREADY_ON
    first = ""
    if any(kind_of(below) is not Kind.OTHER or "Join" in below.name for below in read.below):
        first = "cache the rows below the window, because Saltwise reads their keys first, and "
    alone = (
        "the tab Saltwise in Spark's UI says whether a single key ran in slices"
        if on and _runs_in_slices(node)
        else "nothing helps a single key with too many rows, because this window needs all of them in one task"
    )
    return Change(f"{first}set {switch}=true, which spreads the keys evenly; {alone}", Reach.MOVES)


def _window_of_all(node: PlanNode, conf: Conf) -> Change:
    """Return the change for a window without PARTITION BY: slices of its order, if its functions allow them."""
    if not _runs_in_slices(node):
        return _nothing("this window as it is, because one task needs all rows; give it a PARTITION BY")
    if mode_of(conf.get) == "on":
        return ALREADY_ON
    return Change(
        f"set {_switch(conf)}: a window without PARTITION BY then runs in slices of its order{_if_floats(node)}",
        Reach.SPLITS,
    )


def _runs_in_slices(window: PlanNode) -> bool:
    """Return whether the functions of a window and their frames allow slices."""

    def is_short(end: str) -> bool:
        return end.startswith("currentrow") or (end.lstrip("-").isdigit() and abs(int(end)) <= NEAR)

    frames = _FRAME.findall(window.text)
    return (
        window.name == "Window"
        and set(functions_of(window)) <= SLICED
        and len(frames) == window.text.count("specifiedwindowframe(")
        and all(
            (low.startswith("unboundedpreceding") and not high.lstrip("-").isdigit())
            or (kind == "RangeFrame" and "unbounded" not in low + high)
            or (kind == "RowFrame" and is_short(low) and is_short(high))
            for kind, low, high in frames
        )
    )


def _if_floats(window: PlanNode) -> str:
    adds = {"sum", "avg"} & set(functions_of(window))
    return " (for sums of floats, also set spark.saltwise.window.floats=true)" if adds else ""


def _join(node: PlanNode, read: Read, conf: Conf, sizes: Sequence[int]) -> Change:
    """Return the change for a join: what an aggregate above it allows, or the confs so that Spark splits it."""
    around = _around(node, read, conf)
    if around is not None:
        return around
    if "FullOuter" in node.text:
        return _nothing("here: Spark cannot split the partitions of a full outer join")
    fullest, middle = max(sizes), median(sizes)
    switches = (f"{ADAPTIVE}.enabled", f"{SKEW_JOIN}.enabled")
    needed = [f"{switch}=true" for switch in switches if word(conf.get(switch)) == "false"]
    limits = []
    threshold = f"{SKEW_JOIN}.skewedPartitionThresholdInBytes"
    if fullest <= _bytes(conf, threshold, "256m"):
        limits.append(f"{threshold}={_half(fullest)}")
    factor = f"{SKEW_JOIN}.skewedPartitionFactor"
    if fullest <= _number(conf, factor, 5.0) * middle:
        limits.append(f"{factor}={max(1.0, fullest / max(1, middle) / 2):.1f}")
    if fullest < 2 * _bytes(conf, ADVISORY, DEFAULT_ADVISORY):
        limits.append(f"{ADVISORY}={_half(fullest // 2)}")
    confs = ", ".join([*needed, *limits]) or f"{ADAPTIVE}.forceOptimizeSkewedJoin=true"
    only = " for this query only" if limits else ""
    return Change(f"set {confs}{only}: Spark itself then splits this join's partitions", Reach.SPLITS)


def _around(join: PlanNode, read: Read, conf: Conf) -> Change | None:
    """Return what Saltwise does around a join with an aggregate above it; None where it does nothing."""
    aggregates = []
    for node in read.above[read.above.index(join) + 1 :]:
        if node.name.endswith(AGGREGATES):
            aggregates.append(node)
        elif kind_of(node) is not Kind.OTHER:
            break
    kind = _KIND_OF_JOIN.search(join.text)
    if not aggregates or kind is None or any(map(_has_distinct, aggregates)):
        return None
    if mode_of(conf.get) == "on":
        return ALREADY_ON
    lowest = aggregates[0]
    names = " and ".join(sorted({name.removeprefix("partial_") for name in functions_of(lowest)}))
    grouped = f"{names} grouped by {', '.join(keys_of(lowest, lowest)) or 'nothing'}"
    if any(columns_read_by(lowest) <= columns_in(join.children[side]) for side in KEPT[kind[1]]):
        return Change(
            f"set {_switch(conf)}: the rows of {grouped} are then combined below this join, so a hot key crosses the "
            "shuffle as a few states",
            Reach.SPLITS,
        )
    if all(PARTIAL in aggregate.text for aggregate in aggregates):
        return None  # a shuffle comes first, so Spark may split the join
    return Change(
        f"set {_switch(conf)}: Spark itself then splits this join, which {grouped} forbids otherwise", Reach.SPLITS
    )


def _half(size: int) -> str:
    return f"{size >> 21}m" if size >> 21 else f"{max(1, size >> 11)}k"


def _bytes(conf: Conf, name: str, default: str) -> int:
    """Return a size. A value that Spark allows and that is not a size, such as -1, counts as the default."""
    try:
        return bytes_of(name, conf.get(name, default))
    except SaltwiseValueError:
        return bytes_of(name, default)


def _number(conf: Conf, name: str, default: float) -> float:
    try:
        return float(conf.get(name, default))
    except ValueError:
        return default


def advisory_bytes(conf: Conf) -> int:
    """Return the most bytes of partitions that adaptive execution joins into one task."""
    return _bytes(conf, ADVISORY, DEFAULT_ADVISORY)
