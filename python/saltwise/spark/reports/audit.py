"""Runs a query with Saltwise and without it, compares the answers, and measures the time of both."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import SaltwiseError, SaltwiseValueError, check_whole
from ...tables import Printable, Table, counted
from ..compat import analysed_plan, check_batch, check_frame, is_answer_of_command, is_connect, physical_plan
from ..session import MEASURED, confs, require_plugin
from ..spark_errors import SPARK_ERRORS, refused_query
from .answers import Comparison, compare
from .array_order import ArrayOrder
from .explain import one_select, reason_in
from .loads import measured_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MODE = "spark.saltwise.mode"
STOCK = {MODE: "observe"}
"""Confs that make every plan Spark's own, even with a hint."""
OURS = {MODE: "on"}
COMPARED = OURS | {"spark.saltwise.auto.smallInput": "0"}
"""Confs that rewrite small inputs too, because the answers of plans that are not rewritten prove nothing."""
ALL_FIELDS = {"spark.sql.debug.maxToStringFields": str(2**31 - 1)}
"""Confs that make a plan print all of its expressions."""
MAX_ROWS = 1_000_000
"""The most rows that an answer may have."""

_LINE = r"^[ :+-]*"
_CALLS = (
    "any_value",
    "approx_percentile",
    "approx_top_k",
    "first",
    "first_value",
    "histogram_numeric",
    "kll_sketch_agg_bigint",
    "kll_sketch_agg_double",
    "kll_sketch_agg_float",
    "lag",
    "last",
    "last_value",
    "lead",
    "listagg",
    "max_by",
    "min_by",
    "mode",
    "monotonically_increasing_id",
    "nth_value",
    "ntile",
    "percentile_approx",
    "row_number",
    "string_agg",
)
OPEN = {name: rf"\b{name}\(" for name in _CALLS} | {
    "LIMIT without ORDER BY": (
        rf"{_LINE}(?:GlobalLimit|Offset) .*\n"
        rf"(?:{_LINE}(?:LocalLimit|Offset|Project|Filter|SubqueryAlias|View) .*\n)*+"
        rf"(?!{_LINE}Sort .*, true)"
    ),
    "TABLESAMPLE": rf"{_LINE}Sample ",
    "arrays of a window whose order may have ties": rf"{_LINE}Window .*\bcollect_(?:list|set)\(.*(?:FIRST|LAST)\]$",
}
"""Parts of a query whose answer depends on the order of rows or of merges, which Spark leaves open.

Each has a pattern that finds it in the analysed plan.
"""
WITHOUT, WITH = "without Saltwise", "with Saltwise"
_REWRITTEN = "Rewritten: "
_FEW_CORES = (
    "On few cores, the work of all tasks decides how long a query takes; on as many cores as there are tasks, the "
    "longest one does."
)


@dataclass(frozen=True)
class Audit(Printable):
    """The result of an audit. Prints as a page, in a notebook as HTML."""

    answers: Comparison
    """The answer without Saltwise, compared with the answer with it."""
    steady: bool
    """Whether two runs without Saltwise gave the same answer. If not, a difference proves nothing."""
    open: tuple[str, ...]
    """The parts of the query whose answer Spark leaves open. If only they differ, both sides may be right."""
    reason: str
    """What Saltwise did in the run that is compared: which aggregates it rewrote and how, and why not the others."""
    timed_reason: str
    """The same in the timed runs. They have the session's own confs, and may leave small inputs alone."""
    seconds: tuple[float, float]
    """Median seconds without Saltwise, and with it."""
    rounds: int
    longest_task: tuple[float, float] | None
    """Median seconds of the longest task without Saltwise, and with it; None over Connect."""
    memory: tuple[float, float] | None
    """Median of the largest execution memory of a task in bytes, without Saltwise and with it; None over Connect."""

    @property
    def same(self) -> bool:
        """Whether the answers are the same, apart from what Spark leaves open."""
        return self.answers.same

    @property
    def ratio(self) -> float:
        """The median time with Saltwise, divided by the median time without it."""
        return self.seconds[1] / self.seconds[0]

    @property
    def rewritten(self) -> bool:
        """Whether Saltwise rewrote an aggregate of the run whose answer is compared."""
        return _REWRITTEN in self.reason

    def _parts(self) -> Iterator[str | Table]:
        off, on = self.answers.rows
        if self.same:
            text = f"The answers are the same, {counted(off, 'row')}."
            if self.answers.reordered:
                text += f" In {self.answers.reordered:,} of them, arrays have another order, which Spark leaves open."
            if self.answers.rounding:
                much = f"{self.answers.rounding:.1g}"
                text += f" Where sums cancel, doubles differ by up to {much}, which counts as rounding."
            yield text
        elif not self.steady:
            yield "The query itself gives another answer each time it runs, so its answers cannot be compared."
        else:
            differences = counted(self.answers.different, "difference")
            yield f"The answers differ: {counted(off, 'row')} without Saltwise, {on:,} with it, {differences}."
            if self.open:
                yield (
                    f"The query has {' and '.join(self.open)}. Their answers depend on the order of rows or of merges, "
                    "which Spark leaves open, so they can differ where nothing is wrong."
                )
        yield _with_headline(self.reason)
        if self.timed_reason != self.reason:
            yield f"The timed runs keep the confs of the session. {_with_headline(self.timed_reason)}"
        if not self.same:
            yield Table(self.answers.differences, ("without", WITH), code=True)
        rows = [_compared("seconds", self.seconds)]
        if self.longest_task is not None:
            rows.append(_compared("longest task, seconds", self.longest_task))
        if self.memory is not None and any(self.memory):
            rows.append(_compared("peak memory of a task, MB", self.memory, unit=1 << 20, digits=1))
        titles = (f"median of {self.rounds} rounds", WITHOUT, WITH, "ratio")
        if _REWRITTEN in self.timed_reason:
            yield Table(rows, titles)
            yield _FEW_CORES
        else:
            yield Table([row[:-1] for row in rows], titles[:-1])
            yield "Both sides of this table are Spark's own plan, so only chance makes them differ."


def audit(query: DataFrame | str, spark: SparkSession | None = None, rounds: int = 3) -> Audit:
    """Run a query alternately with Saltwise and without it, compare the answers, and measure the time.

    For the comparison, Saltwise rewrites small inputs too. The timed runs keep the confs of the session.

    Args:
        query: a DataFrame, or one SELECT in SQL. Commands and streams are refused.
        spark: the session of the SQL, with the plugin; the active one by default.
        rounds: how often each side is timed, after the run that is compared.

    Raises:
        SaltwiseValueError: the query is no DataFrame and no text, a stream or the answer of a command, or names an
            unknown column or table, or `rounds` is out of range.
        SaltwiseError: Spark refuses the query on one side or on both, it is not one SELECT, or the answer has more than
            a million rows.
        PluginMissingError: the session has no plugin.

    >>> print(audit("SELECT k, collect_list(v) FROM t GROUP BY k", spark))  # doctest: +SKIP
    """
    check_whole("rounds", rounds)
    if isinstance(query, str):
        session = spark or _active()
        require_plugin(session)
        text = one_select(session, query)
        made: Callable[[], DataFrame] = lambda: session.sql(text)  # noqa: E731
    else:
        check_frame("query", query, "a DataFrame of Spark, or one SELECT in SQL")
        session, frame = query.sparkSession, query
        require_plugin(session)
        if is_answer_of_command(frame):
            raise SaltwiseValueError(
                "the query is the answer of a command, which has run already; it must be one SELECT: give the one that "
                "the command reads."
            )
        made = lambda: frame.select("*")  # noqa: E731 - a plan of its own
    try:
        check_batch("the query", made())
        types = [column.dataType for column in made().schema]
        with confs(session, ALL_FIELDS):
            plan = analysed_plan(made().select("*"))  # its first line names the columns
        order = ArrayOrder(plan)
        ordered = order.given(len(types))
        off, on = _both_answers(session, made)
        answers = compare(off, on, types, ordered)
        steady = answers.same or compare(off, _again(session, made), types, ordered).same
        reason, timed_reason = (_reason(session, made, values) for values in (COMPARED, OURS))
        runs = [_round(session, made, stock_first=i % 2 == 0) for i in range(rounds)]
    except SPARK_ERRORS as error:
        raise refused_query(error) from error

    def medians(name: str) -> tuple[float, float]:
        off, on = (median(getattr(run[side], name) for run in runs) for side in (0, 1))
        return off, on

    connect = is_connect(session)
    return Audit(
        answers=answers,
        steady=steady,
        open=(
            *(name for name, pattern in OPEN.items() if re.search(pattern, plan, re.MULTILINE)),
            *(f"{name} over collected arrays" for name in order.readers),
        ),
        reason=reason,
        timed_reason=timed_reason,
        seconds=medians("seconds"),
        rounds=rounds,
        longest_task=None if connect else medians("longest_task"),
        memory=None if connect else medians("memory"),
    )


def _active() -> SparkSession:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None:
        raise SaltwiseValueError("spark is not given and no session is active; give the session of the query.")
    return session


def _both_answers(session: SparkSession, made: Callable[[], DataFrame]) -> tuple[list[Any], list[Any]]:
    """Return the answers without Saltwise and with it.

    Raises:
        SaltwiseError: Spark refuses the query. The error says on which side, and whether the other one answers.
    """
    answers, errors = [], {}
    for side, values in ((WITHOUT, STOCK), (WITH, COMPARED)):
        try:
            answers.append(_collected(session, made, values))
        except SPARK_ERRORS as error:
            errors[side] = error
    if not errors:
        return answers[0], answers[1]
    where = f" {' and '.join(errors)}"
    if len(errors) == 1:
        where += f", and answers it {WITHOUT if WITH in errors else WITH}"
    first = next(iter(errors.values()))
    raise refused_query(first, side=where) from first


def _collected(session: SparkSession, made: Callable[[], DataFrame], values: dict[str, str]) -> list[Any]:
    with confs(session, MEASURED | values):
        rows = made().limit(MAX_ROWS + 1).collect()
    if len(rows) > MAX_ROWS:
        raise SaltwiseError(f"The answer has more than {MAX_ROWS:,} rows: aggregate it, or give a part of the query.")
    return rows


def _again(session: SparkSession, made: Callable[[], DataFrame]) -> list[Any]:
    with _side(STOCK):
        return _collected(session, made, STOCK)


@contextmanager
def _side(values: dict[str, str]) -> Iterator[None]:
    """Let an error of Spark say on which side it was raised."""
    try:
        yield
    except SPARK_ERRORS as error:
        raise refused_query(error, side=f" {WITHOUT if values is STOCK else WITH}") from error


def _reason(session: SparkSession, made: Callable[[], DataFrame], values: dict[str, str]) -> str:
    with confs(session, values):
        return reason_in(physical_plan(made()))


def _with_headline(reason: str) -> str:
    if _REWRITTEN in reason:
        return reason
    return f"Nothing was rewritten: {reason.removeprefix('Left alone: ')}"


class _Run(NamedTuple):
    seconds: float
    longest_task: float = 0.0
    memory: float = 0.0


def _round(session: SparkSession, made: Callable[[], DataFrame], stock_first: bool) -> tuple[_Run, _Run]:
    """Time both sides. The second side has warm caches, so each side should be first in every other round."""
    if stock_first:
        return _timed(session, made, STOCK), _timed(session, made, OURS)
    ours = _timed(session, made, OURS)
    return _timed(session, made, STOCK), ours


def _timed(session: SparkSession, made: Callable[[], DataFrame], values: dict[str, str]) -> _Run:
    seconds = 0.0

    def run() -> None:
        nonlocal seconds
        begun = perf_counter()
        made().write.format("noop").mode("overwrite").save()
        seconds = perf_counter() - begun

    with confs(session, MEASURED | values), _side(values):
        if is_connect(session):
            run()
            return _Run(seconds)
        tasks = [task for stage in measured_tasks(session, run) for task in stage]
    return _Run(
        seconds,
        max((task["milliseconds"] for task in tasks), default=0) / 1000,
        max((task["peak_memory"] for task in tasks), default=0),
    )


def _compared(name: str, pair: tuple[float, float], unit: int = 1, digits: int = 3) -> tuple[str, ...]:
    """Return a row of the table: two medians, and the ratio of the numbers that are shown."""
    stock, ours = (f"{value / unit:.{digits}f}" for value in pair)
    return name, stock, ours, f"{float(ours) / float(stock):.2f}" if float(stock) else ""
