"""The demo of the strategies: each groups real data, and the loads of the workers and the answers are compared."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import datasets
from ..advise.schedule import makespan
from ..spark.reports.explain import explain
from ..spark.reports.loads import WorkerLoads, worker_loads
from ..strategies import ROUTING
from .picture import check_can_draw, draw_loads
from .terminal import session_over

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Row, SparkSession
    from rich.console import Console
    from rich.table import Table

STRATEGIES = ("stock", "split", "local", *ROUTING)
AFTER = "dchoices"
DRAWN = {"by key (hash)": "hash", "with D-Choices": AFTER}
"""The two strategies in the picture: all rows of a key on one worker, and D-Choices."""


@dataclass(frozen=True)
class Query:
    """A GROUP BY of the demo. Its second column is count(*)."""

    title: str
    sql: str
    table: str
    key: str
    """The key as a SQL expression."""

    def hinted(self, strategy: str, partitions: int) -> str:
        """Return the query with the hint for a strategy."""
        if strategy == "stock":
            return self.sql
        hint = f"/*+ SKEW_GROUPBY({strategy}, 'partitions={partitions}') */"
        return self.sql.replace("SELECT", f"SELECT {hint}", 1)


QUERIES = (
    Query(
        "Delays by carrier",
        "SELECT carrier, count(*) AS n, median(dep_delay) AS median, percentile(dep_delay, 0.9) AS p90\n"
        "FROM flights GROUP BY carrier",
        table="flights",
        key="carrier",
    ),
    Query(
        "Air time by quarter hours of delay, NULL if cancelled",
        "SELECT dep_delay div 15 AS quarter, count(*) AS n, median(air_time) AS median\n"
        "FROM flights GROUP BY dep_delay div 15",
        table="flights",
        key="dep_delay div 15",
    ),
    Query("Word counts of English", "SELECT word, count(*) AS n FROM words GROUP BY word", table="words", key="word"),
)


@dataclass(frozen=True)
class Outcome:
    """The results of one query with every strategy."""

    query: Query
    partitions: int
    rows: int
    keys: int
    hot: Row
    """The result row of the most frequent key."""
    nulls: int
    """Rows whose key is NULL."""
    loads: dict[str, WorkerLoads[list[Any]]]
    """The loads by strategy, in the round with the best time. For stock Spark they are the rows behind the states."""
    differing: tuple[str, ...]
    """Strategies whose answers differ from stock Spark's: none, unless there is a bug."""
    auto: str
    """What the strategy auto does with the query, and why."""


def show(screen: Console, partitions: int, out: Path, quick: bool) -> bool:
    """Run every query with every strategy, print tables, and draw the loads; return whether the answers are equal.

    Raises:
        SaltwiseError: the picture cannot be drawn, or a package of the demo is missing.
    """
    check_can_draw(out)
    rounds = 1 if quick else 2
    outcomes = []
    with session_over(screen, len(QUERIES) * runs(rounds), partial(data, quick)) as (spark, name_step, step):
        spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
        for query in QUERIES:
            name_step(query.title)
            outcome = run(spark, query, partitions, rounds, step=step)
            outcomes.append(outcome)
            screen.print(heading(outcome), style="bold", highlight=False)
            screen.print(query.sql, style="dim", highlight=False)
            screen.print(table(outcome))
            screen.print(f"auto: {outcome.auto}\n", highlight=False)
    draw_loads(drawn(outcomes), out)
    screen.print(summary(outcomes), highlight=False)
    screen.print(f"Picture: {out}", highlight=False, soft_wrap=True)
    return not any(outcome.differing for outcome in outcomes)


def data(quick: bool = False) -> dict[str, pa.Table]:
    """Return the tables by name: flights, and a million words, or 100,000 if `quick`.

    Raises:
        OptionalPackageError: a package of the demo cannot be imported.
    """
    return {"flights": datasets.flights(), "words": datasets.words(100_000 if quick else 1_000_000)}


def drawn(outcomes: list[Outcome]) -> dict[str, dict[str, WorkerLoads[list[Any]]]]:
    """Return the loads in the picture, by title of the query and name."""
    return {each.query.title: {name: each.loads[strategy] for name, strategy in DRAWN.items()} for each in outcomes}


def run(
    spark: SparkSession, query: Query, partitions: int, rounds: int = 2, step: Callable[[], object] = lambda: None
) -> Outcome:
    """Run a query with every strategy in turn, and compare the answers with stock Spark's.

    Args:
        spark: a classic session with the views.
        query: one of QUERIES.
        partitions: n.
        rounds: how often to run each strategy. The best time counts. Stock Spark first runs once without a clock.
        step: is called after each run, 1 + rounds * len(STRATEGIES) times in all.
    """
    expected = spark.sql(query.sql).collect()
    step()
    loads: dict[str, WorkerLoads[list[Any]]] = {}
    for _ in range(rounds):
        for strategy in STRATEGIES:
            load = worker_loads(spark, spark.sql(query.hinted(strategy, partitions)).collect)
            loads[strategy] = min(loads.get(strategy, load), load, key=lambda load: load.seconds)
            step()
    by_key = spark.table(query.table).selectExpr(f"{query.key} AS key").repartition(partitions, "key")
    reducers = worker_loads(spark, lambda: by_key.write.format("noop").mode("overwrite").save())
    loads["stock"] = replace(loads["stock"], rows=reducers.rows)
    rows = sum(row[1] for row in expected)
    return Outcome(
        query=query,
        partitions=partitions,
        rows=rows,
        keys=len(expected),
        hot=max(expected, key=lambda row: row[1]),
        nulls=sum(row[1] for row in expected if row[0] is None),
        loads=loads,
        differing=tuple(s for s in STRATEGIES if Counter(loads[s].result or []) != Counter(expected)),
        auto=explain(spark, query.sql, strategy="auto", partitions=partitions).reason,
    )


def runs(rounds: int) -> int:
    """Return the number of runs that :func:`run` makes."""
    return 1 + rounds * len(STRATEGIES)


def heading(outcome: Outcome) -> str:
    """Return one line about the data that were grouped."""
    key, count = outcome.hot[0], outcome.hot[1]
    nulls = f", NULL has {outcome.nulls / outcome.rows:.1%}" if outcome.nulls else ""
    return (
        f"{outcome.query.title}: {outcome.rows:,} rows, {outcome.keys:,} keys, {key!r} has "
        f"{count / outcome.rows:.1%}{nulls}; n = {outcome.partitions} workers"
    )


def table(outcome: Outcome) -> Table:
    """Return the outcome as a table for the terminal."""
    from rich.table import Table

    shown = Table("strategy")
    for heading in ("max rows", "max/mean", "states", "seconds", f"on {outcome.partitions} cores"):
        shown.add_column(heading, justify="right")
    shown.add_column("answers", min_width=len("expected"))
    for strategy, load in outcome.loads.items():
        answers = "differ" if strategy in outcome.differing else "equal"
        shown.add_row(
            strategy,
            f"{max(load.rows):,}",
            f"{load.max_to_mean:.2f}",
            f"{load.states:,}",
            f"{load.seconds:.2f}",
            f"{seconds_on(load, outcome.partitions):.2f}",
            "expected" if strategy == "stock" and answers == "equal" else answers,
            style="bold" if strategy == AFTER else "",
        )
    return shown


def seconds_on(load: WorkerLoads[Any], cores: int) -> float:
    """Return how long the measured tasks would take on this many cores, stage after stage, by list scheduling."""
    return sum(makespan(stage, cores) for stage in load.stages)


def summary(outcomes: list[Outcome]) -> str:
    """Return a few sentences that explain the tables."""
    differing = [f"{o.query.title} with {', '.join(o.differing)}" for o in outcomes if o.differing]
    answers = (
        f"Answers differ from stock Spark's: {'; '.join(differing)}."
        if differing
        else "All answers equal stock Spark's."
    )
    return (
        f"{answers} For stock Spark, the rows are those behind the states that each reducer merges. "
        f"Seconds were measured on one machine with {os.cpu_count()} cores, where one full worker costs little. In a "
        "cluster, all other workers wait for it: the last column schedules the same tasks on one core for each worker."
    )
