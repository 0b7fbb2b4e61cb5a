"""The one change that helps a skewed stage, or why nothing would help.

For joins Spark has `OptimizeSkewedJoin`. It cuts a partition into pieces of the advisory size if the partition is
larger than a threshold and larger than a multiple of the median, and if that needs no other shuffle.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from statistics import median

from ..conf_words import is_true, mode_of, word
from ..errors import SaltwiseValueError
from ..sizes import bytes_of
from .application import PlanNode
from .fragments import Fragment, Kind, Read, kind_of, split

ADAPTIVE = "spark.sql.adaptive"
SKEW_JOIN = f"{ADAPTIVE}.skewJoin"
ADVISORY = f"{ADAPTIVE}.advisoryPartitionSizeInBytes"
DEFAULT_ADVISORY = "64m"
BYPASS = "spark.sql.execution.bypassPartialAggregation"
LIST_FUNCTIONS = {"collect_list", "listagg"}
"""Functions whose result for a key is as large as all its states, so merging them in parts gains nothing."""
ALREADY_ON = "it was on already: the tab Saltwise in Spark's UI says what it did and why"

Conf = Mapping[str, str]


def advice(
    node: PlanNode, keys: Sequence[str], *, fragment: Fragment, read: Read, conf: Conf, sizes: Sequence[int]
) -> str:
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
            return (
                f"df.skew_groupby({columns}) places the groups evenly; if one group alone is too large, "
                "write the function as a saltwise.Aggregator, whose parts merge"
            )
        case Kind.OTHER_GROUP_MAP:
            return (
                "nothing helps a function over whole groups in Scala or R; write it as an Aggregator, whose parts merge"
            )
        case Kind.JOIN:
            return _join(node, conf, sizes)
        case Kind.STATE:
            return "saltwise.StateBalancer moves state partitions to other executors"
        case Kind.WINDOW:
            return _window(fragment, read, conf)
    return f"the query itself repartitions by {columns}: leave that out, or repartition without columns"


def _aggregate(node: PlanNode, columns: str, fragment: Fragment, conf: Conf) -> str:
    if "distinct " in node.text or "functions=[]" in node.text:
        return "nothing helps: Saltwise leaves DISTINCT to Spark, which has plans of its own for it"
    functions = _functions(node.text)
    if functions and functions <= LIST_FUNCTIONS:
        return (
            f"nothing helps a key whose {' or '.join(sorted(functions))} alone is too large, because one task must "
            "hold it; if one task has several such keys, more spark.sql.shuffle.partitions separate them"
        )
    if is_true(conf.get(BYPASS)):
        return f"set {BYPASS}=false: then map tasks combine a hot key's rows before the shuffle"
    if mode_of(conf.get) == "on":
        return ALREADY_ON
    select = f"in the SELECT that groups by {columns}"
    # auto leaves these to Spark, because they are rarely skewed there.
    if fragment.has("StateStore") or node.name == "HashAggregate":
        return f"write /*+ SKEW_GROUPBY(dchoices) */ {select}"
    switch = "mode=on" if "spark.saltwise.mode" in conf else "enabled=true"
    return f"set spark.saltwise.{switch}, or write /*+ SKEW_GROUPBY */ {select}"


def _functions(text: str) -> set[str]:
    """Return the names of an aggregate's functions.

    >>> sorted(_functions("keys=[k#1], functions=[collect_list(v#2, 0, 0), max(upper(v#2)) FILTER (WHERE c#3)]"))
    ['collect_list', 'max']
    """
    _, _, listed = text.partition("functions=[")
    calls = split(listed[: max(0, listed.rfind("]"))])
    # Arguments and FILTER (WHERE ...) follow a name.
    return {name for call in calls if (name := re.split(r"[\s(]", call, maxsplit=1)[0])}


def _window(fragment: Fragment, read: Read, conf: Conf) -> str:
    if fragment.has("WindowGroupLimit"):
        return "nothing helps: Spark drops most rows of such a window before the shuffle, and Saltwise leaves it alone"
    switch = "spark.saltwise.placement.enabled"
    if is_true(conf.get(switch)):
        return ALREADY_ON
    first = ""
    if any(kind_of(node) is not Kind.OTHER or "Join" in node.name for node in read.below):
        first = "cache the rows below the window, because Saltwise reads their keys first, and "
    return (
        f"{first}set {switch}=true, which spreads the keys evenly; nothing helps a single key with too many rows, "
        "because a window needs all of them in one task"
    )


def _join(node: PlanNode, conf: Conf, sizes: Sequence[int]) -> str:
    """Return the confs to set so that Spark splits the fullest partition of a join."""
    if "FullOuter" in node.text:
        return "nothing helps: Spark cannot split the partitions of a full outer join"
    fullest, middle = max(sizes), median(sizes)
    switches = (f"{ADAPTIVE}.enabled", f"{SKEW_JOIN}.enabled")
    needed = [f"{switch}=true" for switch in switches if word(conf.get(switch)) == "false"]
    threshold = f"{SKEW_JOIN}.skewedPartitionThresholdInBytes"
    if fullest <= _bytes(conf, threshold, "256m"):
        needed.append(f"{threshold}={_half(fullest)}")
    factor = f"{SKEW_JOIN}.skewedPartitionFactor"
    if fullest <= _number(conf, factor, 5.0) * middle:
        needed.append(f"{factor}={max(1.0, fullest / max(1, middle) / 2):.1f}")
    if fullest < 2 * _bytes(conf, ADVISORY, DEFAULT_ADVISORY):
        needed.append(f"{ADVISORY}={_half(fullest // 2)}")
    needed = needed or [f"{ADAPTIVE}.forceOptimizeSkewedJoin=true"]
    return f"set {', '.join(needed)}: Spark itself then splits this join's partitions"


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
