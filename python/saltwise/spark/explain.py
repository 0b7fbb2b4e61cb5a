"""Shows what Saltwise makes of a query: the stock plan and ours side by side, with the reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from ..errors import SaltwiseValueError
from ..options import SkewOptions
from .session import require_plugin
from .spark_errors import SPARK_ERRORS, of_query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console, ConsoleOptions, RenderResult

_LEFT_ALONE = "SkewGroupBy left alone: "
_NOISE = re.compile(
    r"#\d+L?|\*\(\d+\) |, \[plan_id=\d+\]|, ENSURE_REQUIREMENTS|, REPARTITION_BY_NUM|, 0, 0, true"
    r"| isFinalPlan=false| Batched: .*|(?<=left alone): .*"
)
"""What tells nodes apart, or is said elsewhere, and tells a reader nothing."""


@dataclass(frozen=True)
class Explanation:
    """What Spark and what Saltwise plan for one query. Prints side by side; `_repr_html_` for notebooks."""

    stock: str
    """The physical plan of stock Spark, as EXPLAIN prints it."""
    ours: str
    """The physical plan with Saltwise switched on."""
    reason: str
    """Which aggregates are rewritten and how, and why the others are left alone."""

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=160, color_system=None, force_terminal=False)
        with console.capture() as capture:
            console.print(self)
        return capture.get().rstrip()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.table import Table
        from rich.text import Text

        plans = Table()
        for heading in ("stock Spark", "Saltwise"):
            plans.add_column(heading, no_wrap=True, overflow="ellipsis")
        ours = Text(_short(self.ours))
        ours.highlight_regex(r"Skew(?:Route|Receive|GroupBy).*|Exchange placement.*", "bold green")
        plans.add_row(Text(_short(self.stock)), ours)
        yield plans
        yield Text(self.reason)

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<td style='text-align:left; vertical-align:top'><pre>{escape(_short(plan))}</pre></td>"
            for plan in (self.stock, self.ours)
        )
        return (
            f"<table><tr><th>stock Spark</th><th>Saltwise</th></tr><tr>{cells}</tr></table><p>{escape(self.reason)}</p>"
        )


def explain(spark: SparkSession, query: str, strategy: str | None = None, partitions: int | None = None) -> Explanation:
    """Plan a query without and with Saltwise, and run neither.

    Args:
        spark: a session with the plugin; it need not be switched on.
        query: one SELECT in SQL.
        strategy: as for :func:`saltwise.skew_groupby`; spark.saltwise.strategy by default.
        partitions: n; spark.saltwise.partitions by default.

    Raises:
        SaltwiseValueError: an option is out of range, or the query names an unknown column or table.
        SaltwiseError: Spark refuses the query for another reason.
        PluginMissingError: the session has no plugin.

    >>> explain(spark, "SELECT id % 2, collect_list(id) FROM range(9) GROUP BY 1").reason  # doctest: +SKIP
    'Rewritten: rows are shuffled once by key, and what gets too many is split, n=4.'
    """
    SkewOptions(strategy=strategy, partitions=partitions)
    require_plugin(spark)
    query = query.strip().rstrip(";")
    if not query:
        raise SaltwiseValueError("the query is empty; it must be one SELECT.")
    confs = {"strategy": strategy, "partitions": partitions}
    chosen = {f"spark.saltwise.{name}": str(value) for name, value in confs.items() if value is not None}
    try:
        # Analysed only, whatever it is; and where that fails, EXPLAIN would not say why.
        spark.sql(f"WITH query AS (\n{query}\n) SELECT * FROM query")
        with _confs(spark, {"spark.saltwise.enabled": "false", "spark.sql.optimizer.disableHints": "true"}):
            stock = _plan(spark, query)
        with _confs(spark, {"spark.saltwise.enabled": "true"} | chosen):
            ours = _plan(spark, query)
    except SPARK_ERRORS as error:
        raise of_query(error, (table.name for table in spark.catalog.listTables())) from error
    return Explanation(stock, ours, _reason(ours))


def _plan(spark: SparkSession, query: str) -> str:
    row = spark.sql(f"EXPLAIN {query}").first()
    assert row is not None
    return str(row[0]).strip()


def _reason(plan: str) -> str:
    routed = re.findall(r"Skew(?:Route|Local) \[.*?\], (.*)", plan)
    left = re.findall(f"{_LEFT_ALONE}(.*)", plan)
    placed = re.findall(r"Exchange placement\(.*, (\d+)\)", plan)
    said = [f"Rewritten: {_how(options)}." for options in routed]
    said += [f"Rewritten: groups stay whole, and each key is placed on one worker, n={workers}." for workers in placed]
    said += [f"Left alone: {reason}." for reason in left]
    return "\n".join(dict.fromkeys(said)) or "Left alone: there is no GROUP BY in the query."


def _how(options: str) -> str:
    if options.startswith("split, "):
        return f"rows are shuffled once by key, and what gets too many is split, {options.removeprefix('split, ')}"
    if options.startswith("local, "):
        return (
            f"hot keys are combined where they are, and other rows sent as they are, {options.removeprefix('local, ')}"
        )
    return f"rows go to their worker by {options}"


def _short(plan: str) -> str:
    """Return a plan without noise, one space for each level of its tree."""
    plain = _NOISE.sub("", plan.removeprefix("== Physical Plan ==\n"))
    return re.sub("^(?:[ :]  )+", lambda indent: indent[0][::3], plain, flags=re.MULTILINE)


@contextmanager
def _confs(spark: SparkSession, values: dict[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in values}
    try:
        for name, value in values.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)
