"""Shows what Saltwise does with a query: Spark's plan and Saltwise's plan side by side, and the reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import SaltwiseValueError
from ...options import SkewOptions
from ...tables import Printable, Table
from ..session import confs, require_plugin
from ..spark_errors import SPARK_ERRORS, refused_query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.text import Text

_LEFT_ALONE = "SkewGroupBy left alone: "
_COMBINED = "map tasks combine rows where that pays, and send the others as they are"
_BELOW_JOIN = ", below a join"
_ID = r"#\d+L?"
"""Spark's number of a column."""
_SPLIT = "partitions that get too many are split"
_PLANS = {
    "auto": f"{_COMBINED}; {_SPLIT}",
    "local": _COMBINED,
    "split": f"rows are shuffled once by key, and {_SPLIT}",
}
_NO_GROUPS = "the query has no GROUP BY and no window"
_SMALL_WINDOW = (
    "its window has less input than spark.saltwise.auto.smallInput, or spark.saltwise.window.slices is false"
)
_PIECE = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`|--[^\n]*|/\*.*?\*/|.""", re.DOTALL)
"""A string, a quoted name or a comment of a query, or else one character."""
_NOISE = re.compile(
    r"#\d+L?|\*\(\d+\) |, \[plan_id=\d+\]|, ENSURE_REQUIREMENTS|, REPARTITION_BY_NUM|, 0, 0, true"
    r"| isFinalPlan=false| Batched: .*|(?<=left alone): .*"
)
"""Parts of a plan that say nothing to a reader, or that the reason says again."""


@dataclass(frozen=True)
class Explanation(Printable):
    """The plans of Spark and of Saltwise for one query. Prints side by side, in a notebook as HTML."""

    _text_width = 160

    stock: str
    """The physical plan of stock Spark, as EXPLAIN prints it."""
    ours: str
    """The physical plan with Saltwise switched on."""
    reason: str
    """Which aggregates are rewritten and how, and why the others are left alone."""

    def _parts(self) -> Iterator[str | Table]:
        yield Table([(_short(self.stock), _highlighted(_short(self.ours)))], ("stock Spark", "Saltwise"), code=True)
        yield self.reason


def explain(spark: SparkSession, query: str, strategy: str | None = None, partitions: int | None = None) -> Explanation:
    """Plan a query without Saltwise and with it. The query does not run.

    Args:
        spark: a session with the plugin. It need not be switched on.
        query: one SELECT in SQL.
        strategy: as for :func:`saltwise.skew_groupby`; spark.saltwise.strategy by default.
        partitions: n; spark.saltwise.partitions by default.

    Raises:
        SaltwiseValueError: an option is out of range, or the query names an unknown column or table.
        SaltwiseError: Spark refuses the query for another reason.
        PluginMissingError: the session has no plugin.

    >>> explain(spark, "SELECT id % 2, collect_list(id) FROM range(9) GROUP BY 1", strategy="split").reason
    'Rewritten: rows are shuffled once by key, and partitions that get too many are split, n=4.'
    """
    SkewOptions(strategy=strategy, partitions=partitions)
    require_plugin(spark)
    query = one_select(spark, query)
    options = {"strategy": strategy, "partitions": partitions}
    chosen = {f"spark.saltwise.{name}": str(value) for name, value in options.items() if value is not None}
    try:
        with confs(spark, {"spark.saltwise.mode": "observe"}):
            stock = _plan(spark, query)
        with confs(spark, {"spark.saltwise.mode": "on"} | chosen):
            ours = _plan(spark, query)
    except SPARK_ERRORS as error:
        raise refused_query(error) from error
    return Explanation(stock, ours, reason_in(ours))


def one_select(spark: SparkSession, query: str) -> str:
    """Return a query without the semicolons and comments at its end, if it is one SELECT. The query does not run.

    Raises:
        SaltwiseValueError: the query is empty, or names an unknown column or table.
        SaltwiseError: Spark refuses the query for another reason, or it is not one SELECT.
    """
    pieces = _PIECE.findall(query)
    while pieces and (pieces[-1] == ";" or pieces[-1].isspace() or pieces[-1].startswith(("--", "/*"))):
        pieces.pop()
    if not pieces:
        raise SaltwiseValueError("the query is empty; it must be one SELECT.")
    query = "".join(pieces)
    try:
        # Only a SELECT can stand here. If its analysis fails, this error says why. An error of EXPLAIN would not.
        spark.sql(f"WITH query AS (\n{query}\n) SELECT * FROM query")
    except SPARK_ERRORS as error:
        raise refused_query(error, (table.name for table in spark.catalog.listTables())) from error
    return query


def _plan(spark: SparkSession, query: str) -> str:
    [(plan,)] = spark.sql(f"EXPLAIN {query}").collect()
    return str(plan).strip()


def reason_in(plan: str) -> str:
    """Return which aggregates a physical plan rewrites and how, and why it leaves the others alone."""
    routed = re.findall(rf"(?:SkewRoute|SkewSplit|Combine) \[.*?\], (.*(?<!{_BELOW_JOIN}))$", plan, re.MULTILINE)
    joined = re.findall(rf"Combine \[(.*?)\], .*{_BELOW_JOIN}$", plan, re.MULTILINE)
    left = re.findall(f"{_LEFT_ALONE}(.*)", plan)
    placed = re.findall(r"Exchange placement\(.*, (\d+)\)", plan)
    reasons = [f"Rewritten: {_routing(options)}." for options in routed]
    reasons += [f"Rewritten: {_COMBINED}, below the join, by {re.sub(_ID, '', keys)}." for keys in joined]
    if "SkewWindow [" in plan:
        reasons.append("Rewritten: a window without PARTITION BY runs in slices, each on its own task.")
    if "SkewWindow samples its keys" in plan:
        reasons.append("Rewritten: a key of a window that has too many rows for one task runs in slices.")
    if "SkewJoinSplit " in plan:
        reasons.append("Rewritten: if a partition of the join below the aggregate is skewed, it is split.")
    reasons += [
        f"Rewritten: groups stay whole, and each key is placed on one worker, n={workers}." for workers in placed
    ]
    reasons += [f"Left alone: {reason}." for reason in left]
    return "\n".join(dict.fromkeys(reasons)) or f"Left alone: {_SMALL_WINDOW if 'Window [' in plan else _NO_GROUPS}."


def _routing(options: str) -> str:
    name, _, rest = options.partition(", ")
    return f"{_PLANS[name]}, {rest}" if name in _PLANS else f"rows go to their worker by {options}"


def _short(plan: str) -> str:
    """Return a plan without noise, indented by one space for each level of its tree."""
    plain = _NOISE.sub("", plan.removeprefix("== Physical Plan ==\n"))
    return re.sub("^(?:[ :]  )+", lambda indent: indent[0][::3], plain, flags=re.MULTILINE)


def _highlighted(plan: str) -> Text:
    from rich.text import Text

    text = Text(plan)
    text.highlight_regex(r"Skew[A-Z]\w*.*|Combine.*|Exchange placement.*", "bold green")
    return text
