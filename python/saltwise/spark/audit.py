"""Runs a query with Saltwise and without it: are the answers the same, and which one is faster?"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import SaltwiseError, SaltwiseValueError, check_whole
from ..tables import Printable, Table, counted
from .answers import Comparison, compare
from .compat import analysed_plan, is_connect
from .explain import confs
from .loads import measured_tasks
from .session import require_plugin
from .spark_errors import SPARK_ERRORS, refused_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MODE = "spark.saltwise.mode"
STOCK = "observe"
"""The mode in which every plan is Spark's own, with a hint too."""
MAX_ROWS = 1_000_000
"""The most rows of an answer that are compared."""
OPEN = (
    "any_value",
    "approx_top_k",
    "first",
    "first_value",
    "histogram_numeric",
    "kll_sketch_agg_bigint",
    "kll_sketch_agg_double",
    "kll_sketch_agg_float",
    "last",
    "last_value",
    "max_by",
    "min_by",
    "mode",
    "percentile_approx",
)
"""Aggregates whose answer depends on the order in which rows come, or states are merged: Spark leaves both open."""


@dataclass(frozen=True)
class Audit(Printable):
    """What an audit found. Prints as a page, in a notebook as HTML."""

    answers: Comparison
    """Without Saltwise against with it."""
    steady: bool
    """Whether two runs without Saltwise gave the same answer; if not, differences tell nothing."""
    open: tuple[str, ...]
    """The aggregates of the query whose answer Spark leaves open: where they differ, neither side need be wrong."""
    seconds: tuple[float, float]
    """Median seconds without Saltwise, and with it."""
    ratio: float
    """Median of the time with Saltwise by that without, of the same round."""
    rounds: int
    longest_task: tuple[float, float] | None
    """Median seconds of the longest task without Saltwise, and with it; None over Connect."""
    memory: tuple[float, float] | None
    """Median of the most bytes of execution memory that a task had, without Saltwise and with it; None over Connect."""

    @property
    def same(self) -> bool:
        """Whether the answers are the same, apart from what Spark leaves open."""
        return self.answers.same

    def _parts(self) -> Iterator[str | Table]:
        off, on = self.answers.rows
        if self.same:
            text = f"The answers are the same, {counted(off, 'row')}."
            if self.answers.reordered:
                text += f" In {self.answers.reordered:,} of them, arrays have another order, which Spark leaves open."
            yield text
        elif not self.steady:
            yield "The query itself gives another answer each time it runs, so its answers cannot be compared."
        else:
            differences = counted(self.answers.different, "difference")
            yield f"The answers differ: {counted(off, 'row')} without Saltwise, {on:,} with it, {differences}."
            if self.open:
                yield (
                    f"The query calls {' and '.join(self.open)}: what they answer depends on the order of rows or of "
                    "merges, which Spark leaves open, so they can differ where nothing is wrong."
                )
        if not self.same:
            yield Table(self.answers.differences, ("without", "with Saltwise"), code=True)
        stock, ours = self.seconds
        rows: list[tuple[str, ...]] = [("seconds", f"{stock:.3f}", f"{ours:.3f}", f"{self.ratio:.2f}")]
        if self.longest_task is not None and self.memory is not None:
            rows += [
                ("longest task, seconds", *(f"{each:.3f}" for each in self.longest_task), _ratio(self.longest_task)),
                ("peak memory of a task, MB", *(f"{each / 2**20:.1f}" for each in self.memory), _ratio(self.memory)),
            ]
        yield Table(rows, (f"median of {self.rounds} rounds", "without Saltwise", "with Saltwise", "ratio"))


def audit(query: DataFrame | str, spark: SparkSession | None = None, rounds: int = 3) -> Audit:
    """Run a query with Saltwise and without it, by turns, compare the answers, and time it.

    Args:
        query: a DataFrame, or one SELECT in SQL. What writes is refused.
        spark: the session of SQL, with the plugin; the active one by default.
        rounds: how often each side is timed, after the run whose answer is compared.

    Raises:
        SaltwiseValueError: the query writes, or names an unknown column or table, or `rounds` is out of range.
        SaltwiseError: Spark refuses the query, or the answer has more than a million rows.
        PluginMissingError: the session has no plugin.

    >>> print(audit("SELECT k, collect_list(v) FROM t GROUP BY k", spark))  # doctest: +SKIP
    """
    check_whole("rounds", rounds)
    if isinstance(query, str):
        session = spark or _active()
        require_plugin(session)
        text = query.strip().rstrip(";")
        try:
            # Only a query can stand here. This analyses it, and runs nothing.
            session.sql(f"WITH query AS (\n{text}\n) SELECT * FROM query")
        except SPARK_ERRORS as error:
            raise refused_query(error, (table.name for table in session.catalog.listTables())) from error
        made: Callable[[], DataFrame] = lambda: session.sql(text)  # noqa: E731
    else:
        session, frame = query.sparkSession, query
        require_plugin(session)
        made = lambda: frame.select("*")  # noqa: E731 - a plan of its own
    try:
        plan = analysed_plan(made())
        off, on = _collected(session, made, STOCK), _collected(session, made, "on")
        answers = compare(off, on)
        steady = answers.same or compare(off, _collected(session, made, STOCK)).same
        runs = [(_timed(session, made, STOCK), _timed(session, made, "on")) for _ in range(rounds)]
    except SPARK_ERRORS as error:
        raise refused_query(error, ()) from error

    def medians(name: str) -> tuple[float, float]:
        off, on = (median(getattr(run[side], name) for run in runs) for side in (0, 1))
        return off, on

    connect = is_connect(session)
    return Audit(
        answers,
        steady,
        tuple(name for name in OPEN if re.search(rf"\b{name}\(", plan)),
        medians("seconds"),
        median(ours.seconds / stock.seconds for stock, ours in runs),
        rounds,
        None if connect else medians("longest_task"),
        None if connect else medians("memory"),
    )


def _active() -> SparkSession:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None:
        raise SaltwiseValueError("spark is not given and no session is active; give the session of the query.")
    return session


def _collected(session: SparkSession, made: Callable[[], DataFrame], mode: str) -> list[Any]:
    with confs(session, {MODE: mode}):
        rows = made().limit(MAX_ROWS + 1).collect()
    if len(rows) > MAX_ROWS:
        raise SaltwiseError(f"The answer has more than {MAX_ROWS:,} rows: aggregate it, or give a part of the query.")
    return rows


class _Run(NamedTuple):
    seconds: float
    longest_task: float = 0.0
    memory: float = 0.0


def _timed(session: SparkSession, made: Callable[[], DataFrame], mode: str) -> _Run:
    def run() -> None:
        made().write.format("noop").mode("overwrite").save()

    with confs(session, {MODE: mode}):
        begun = time.perf_counter()
        if is_connect(session):
            run()
            stages = []
        else:
            stages = measured_tasks(session, run)
        seconds = time.perf_counter() - begun
    tasks = [task for stage in stages for task in stage]
    return _Run(
        seconds,
        max((task["milliseconds"] for task in tasks), default=0) / 1000,
        max((task["peak_memory"] for task in tasks), default=0),
    )


def _ratio(pair: tuple[float, float]) -> str:
    return f"{pair[1] / pair[0]:.2f}" if pair[0] else ""
