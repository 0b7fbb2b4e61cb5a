"""The demo: queries on real data, with Spark alone and with Saltwise, and how long their tasks took."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

from .. import datasets
from ..advise.schedule import makespan
from ..spark.reports.loads import measured_tasks
from ..spark.session import confs
from .picture import check_can_draw, draw_tasks
from .terminal import session_over

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Row, SparkSession
    from rich.console import Console

TOGGLE = "spark.saltwise.enabled"
SIDES = {"Spark": {TOGGLE: "false"}, "Saltwise": {TOGGLE: "true"}}
YEARS = 10
"""How often the flights of a year come: three million rows take seconds on two cores."""
GAINS = 1.05
"""Times as fast from which on it is called a gain."""


@dataclass(frozen=True)
class Query:
    """A query of the demo."""

    title: str
    sql: str


QUERIES = (
    Query(
        "A join and sums: miles and delays by airline and maker of the airplane",
        "SELECT /*+ MERGE(planes) */ name, manufacturer, count(*) AS flights, sum(distance) AS miles, "
        "avg(arr_delay) AS delay\n"
        "FROM flights JOIN planes USING (tailnum) JOIN airlines USING (carrier) GROUP BY name, manufacturer",
    ),
    Query(
        "A running total: how many of the longest flights make each half billion miles",
        "SELECT total div 500000000 AS half_billions, count(*) AS flights\n"
        "FROM (SELECT sum(distance) OVER (ORDER BY distance DESC, number) AS total FROM flights)\n"
        "GROUP BY half_billions",
    ),
    Query(
        "A median and a set by airplane: its delays and its airports",
        "SELECT tailnum, median(dep_delay) AS delay, size(collect_set(dest)) AS airports\n"
        "FROM flights GROUP BY tailnum",
    ),
    Query(
        "The same by word: where it stands in a text of English",
        "SELECT word, median(position) AS middle, size(collect_set(position % 100)) AS places\nFROM text GROUP BY word",
    ),
)


@dataclass(frozen=True)
class Outcome:
    """What a query took on both sides. Each mapping has the keys of :data:`SIDES`."""

    query: Query
    seconds: Mapping[str, float]
    """Medians on this machine."""
    stages: Mapping[str, list[list[int]]]
    """Milliseconds of each task, by stage, in the plan for many cores."""
    same: bool
    """Whether the answers are the same."""


def show(screen: Console, cores: int, out: Path, quick: bool) -> bool:
    """Run every query on both sides, print the times, and draw the tasks; return whether the answers are the same.

    Raises:
        SaltwiseError: the picture cannot be drawn, or a package of the demo is missing.
    """
    check_can_draw(out)
    rounds = 1 if quick else 2
    outcomes = []
    with session_over(screen, len(QUERIES) * runs(rounds), partial(data, quick)) as (spark, name_step, step):
        for query in QUERIES:
            name_step(query.title.split(":")[0])
            outcome = run(spark, query, cores, rounds, step=step)
            outcomes.append(outcome)
            screen.print(query.title, style="bold", highlight=False)
            screen.print(query.sql, style="dim", highlight=False)
            screen.print(f"{lines(outcome, cores)}\n", highlight=False)
    draw_tasks({outcome.query.title: outcome.stages for outcome in outcomes}, out)
    screen.print(summary(outcomes), highlight=False)
    screen.print(f"Picture: {out}", highlight=False, soft_wrap=True)
    return all(outcome.same for outcome in outcomes)


def data(quick: bool = False) -> dict[str, pa.Table]:
    """Return the tables by name. If `quick`, the flights are those of one year, and the text is shorter.

    Raises:
        OptionalPackageError: a package of the demo cannot be imported.
    """
    import pyarrow as pa

    flights = pa.concat_tables([datasets.flights()] * (1 if quick else YEARS))
    text = datasets.words(400_000 if quick else 2_500_000)
    return {
        "flights": numbered(flights, "number"),
        "planes": datasets.planes(),
        "airlines": datasets.airlines(),
        "text": numbered(text, "position"),
    }


def numbered(table: pa.Table, name: str) -> pa.Table:
    """Return a table with one more column, the number of each row."""
    import pyarrow as pa

    return table.append_column(name, pa.array(range(table.num_rows), pa.int64()))


def runs(rounds: int) -> int:
    """Return the number of runs that :func:`run` makes."""
    return len(SIDES) * (rounds + 2)


def run(
    spark: SparkSession, query: Query, cores: int, rounds: int = 2, step: Callable[[], object] = lambda: None
) -> Outcome:
    """Run a query on both sides by turns.

    Each side runs once without a clock, then `rounds` times, and once more as a cluster would plan it.

    Args:
        spark: a classic session with the views.
        query: one of QUERIES.
        cores: those of the cluster.
        rounds: how often the seconds of each side are taken.
        step: is called after each run.
    """
    # The plan of a cluster: at least as many tasks as cores, in each stage.
    planned = {
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.files.minPartitionNum": str(cores),
        "spark.sql.files.openCostInBytes": "0",
        "spark.sql.adaptive.coalescePartitions.minPartitionNum": str(cores),
    }

    def answer(side: str, **more: str) -> list[Row]:
        with confs(spark, SIDES[side] | more):
            return spark.sql(query.sql).collect()

    answers = {}
    for side in SIDES:
        answers[side] = Counter(answer(side))
        step()
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    for i in range(rounds):
        for side in list(SIDES)[:: 1 if i % 2 else -1]:
            started = perf_counter()
            answer(side)
            seconds[side].append(perf_counter() - started)
            step()
    stages = {}
    for side in SIDES:
        tasks = measured_tasks(spark, partial(answer, side, **planned))
        stages[side] = [[task["milliseconds"] for task in stage] for stage in tasks]
        step()
    return Outcome(
        query=query,
        seconds={side: median(taken) for side, taken in seconds.items()},
        stages=stages,
        same=answers["Spark"] == answers["Saltwise"],
    )


def lines(outcome: Outcome, cores: int) -> str:
    """Return two lines: the seconds on this machine, and those of the measured tasks on more cores.

    >>> tasks = {"Spark": [[50, 50]], "Saltwise": [[50]]}
    >>> print(lines(Outcome(QUERIES[0], {"Spark": 3.0, "Saltwise": 1.5}, tasks, same=True), 50))  # doctest: +ELLIPSIS
    on ... 3.00 s with Spark, 1.50 s with Saltwise: 2.0 times as fast
    on 50 cores   0.05 s with Spark, 0.05 s with Saltwise: no gain
    """
    clusters = {side: sum(makespan(stage, cores) for stage in stages) for side, stages in outcome.stages.items()}
    here = _line(os.cpu_count() or 1, outcome.seconds)
    return f"{here}\n{_line(cores, clusters)}" + ("" if outcome.same else "\nThe answers differ.")


def _line(cores: int, seconds: Mapping[str, float]) -> str:
    stock, ours = seconds["Spark"], seconds["Saltwise"]
    times = stock / ours if ours else 1.0
    if times >= GAINS:
        verdict = f"{times:.1f} times as fast"
    else:
        verdict = "no gain" if times > 1 / GAINS else f"slower, {1 / times:.2f} times as long"
    return f"{f'on {cores} cores':13} {stock:.2f} s with Spark, {ours:.2f} s with Saltwise: {verdict}"


def summary(outcomes: list[Outcome]) -> str:
    """Return a few sentences that say how the figures came about."""
    differing = "; ".join(outcome.query.title for outcome in outcomes if not outcome.same)
    answers = f"Answers differ: {differing}." if differing else "All answers are the same with Saltwise as without it."
    return (
        f"{answers} The switch is spark.saltwise.enabled=true, and nothing else changes. The seconds of this machine "
        "are medians of runs by turns. Those on more cores come from the measured tasks of one more run, which the "
        "picture shows, scheduled there stage by stage. The hint MERGE stands for a table too large to broadcast."
    )
