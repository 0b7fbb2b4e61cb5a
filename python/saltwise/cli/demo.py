"""The demo: it groups real data by every strategy, and compares the loads of the workers and the answers."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .. import datasets
from ..advise.schedule import makespan
from ..spark.reports.audit import Audit, audit
from ..spark.reports.explain import explain
from ..spark.reports.loads import WorkerLoads, worker_loads
from ..strategies import ROUTING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Row, SparkSession
    from rich.table import Table

STRATEGIES = ("stock", "split", "local", *ROUTING)
BEFORE, AFTER = "hash", "dchoices"
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

TIMED_QUERY = (
    "SELECT word, count(*) AS n, median(position) AS middle, collect_set(position % 100) AS places\n"
    "FROM text GROUP BY word"
)
"""A query that is large enough to show a difference of time on two cores."""


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


def data(quick: bool = False) -> dict[str, pa.Table]:
    """Return the tables by name: flights, words, and a text with four times as many words.

    There are a million words, or 100,000 if `quick`.

    Raises:
        OptionalPackageError: a package of the demo cannot be imported.
    """
    import pyarrow as pa

    rows = 100_000 if quick else 1_000_000
    text = datasets.words(4 * rows)
    text = text.append_column("position", pa.array(range(text.num_rows), pa.int64()))
    return {"flights": datasets.flights(), "words": datasets.words(rows), "text": text}


def prepare(spark: SparkSession, tables: dict[str, pa.Table], folder: str, partitions: int) -> None:
    """Write each table of :func:`data` to files in a folder, make a view of it, and set the shuffle partitions to n."""
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    for name, rows in tables.items():
        datasets.as_dataframe(spark, rows, folder, name)


def run(
    spark: SparkSession, query: Query, partitions: int, rounds: int = 2, step: Callable[[], object] = lambda: None
) -> Outcome:
    """Run a query with every strategy in turn, and compare the answers with stock Spark's.

    Args:
        spark: a classic session, after :func:`prepare`.
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


def timed_run(spark: SparkSession, rounds: int = 2) -> Audit:
    """Run the timed query with ``auto`` and with stock Spark, in turn."""
    return audit(TIMED_QUERY, spark, rounds)


def times(timed: Audit) -> str:
    """Return one line about the times of both sides."""
    stock, ours = (round(seconds, 2) for seconds in timed.seconds)
    line = f"{stock:.2f} s with stock Spark, {ours:.2f} s with auto, {ours / stock:.2f} times as long"
    if not timed.same:
        return f"{line}. The answers differ."
    return f"{line}." if ours < stock else f"{line}: on this machine, auto gains nothing here."


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
