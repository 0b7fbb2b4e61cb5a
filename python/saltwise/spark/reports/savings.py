"""Compares the time and bytes of rewritten queries with those of the same queries without Saltwise."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from ...tables import Printable, Table, counted
from ..session import require_plugin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class QuerySavings:
    """One query that ran with Saltwise and without it."""

    fingerprint: str
    """The same for executions of the same query, with a hint or without."""
    description: str
    runs: tuple[int, int]
    """How often it ran without Saltwise, and with it."""
    seconds: tuple[float, float]
    """Median seconds without Saltwise, and with it."""
    bytes: tuple[float, float]
    """Median bytes that it shuffled without Saltwise, and with it."""

    @property
    def saved(self) -> float:
        """Seconds that all its runs with Saltwise saved together; below 0 if they took longer."""
        return self.runs[1] * (self.seconds[0] - self.seconds[1])


@dataclass(frozen=True)
class Savings(Printable):
    """The queries of an application that ran both ways. Prints as a table, in a notebook as HTML."""

    queries: list[QuerySavings]
    """The query that saved most comes first."""
    one_way: int
    """Queries with a GROUP BY that ran only with Saltwise, or only without it. They cannot be compared."""

    @property
    def saved(self) -> float:
        """Seconds that all queries saved together."""
        return sum(query.saved for query in self.queries)

    def _parts(self) -> Iterator[str | Table]:
        if not self.queries:
            yield (
                "No query ran both with Saltwise and without it, so there is nothing to compare: run one again with "
                f"spark.saltwise.mode=observe. {counted(self.one_way, 'query', 'queries')} ran one way only."
            )
            return
        yield (
            f"{abs(self.saved):.1f} s {'saved' if self.saved >= 0 else 'lost'} by "
            f"{counted(len(self.queries), 'query', 'queries')} that ran with Saltwise and without it; "
            f"{counted(self.one_way, 'other')} ran one way only."
        )
        yield Table(
            [
                (
                    query.description or query.fingerprint,
                    f"{query.runs[0]}, {query.runs[1]}",
                    f"{query.seconds[0]:.2f} → {query.seconds[1]:.2f}",
                    f"{query.bytes[0] / 2**20:.1f} → {query.bytes[1] / 2**20:.1f}",
                    f"{query.saved:.1f}",
                )
                for query in self.queries
            ],
            ("query", "runs without, with", "seconds", "MB shuffled", "seconds saved"),
        )


def savings(spark: SparkSession) -> Savings:
    """Return what Saltwise saved in this application, by queries that ran with it and without it.

    Two queries are the same if their analysed plans are the same, apart from the hint. The last hundred runs of a query
    count, and the thousand queries that ran last. Queries that failed do not count, and neither do those that
    :func:`saltwise.audit` and :func:`saltwise.loads.worker_loads` run.

    Args:
        spark: a session with the plugin, classic or Connect.

    Raises:
        PluginMissingError: the session has no plugin.

    >>> print(savings(spark))  # doctest: +SKIP
    41.3 s saved by 1 query that ran with Saltwise and without it; 3 others ran one way only.
    """
    require_plugin(spark)
    [(text,)] = spark.sql("SELECT skew_savings()").collect()
    queries = json.loads(text)
    both = [_query_savings(query) for query in queries if query["on"] and query["off"]]
    return Savings(sorted(both, key=lambda query: -query.saved), len(queries) - len(both))


def _query_savings(query: dict[str, Any]) -> QuerySavings:
    sides = (query["off"], query["on"])

    def medians(name: str) -> tuple[float, float]:
        off, on = (float(median(run[name] for run in side)) for side in sides)
        return off, on

    off, on = medians("millis")
    return QuerySavings(
        fingerprint=query["fingerprint"],
        description=query["description"],
        runs=(len(sides[0]), len(sides[1])),
        seconds=(off / 1000, on / 1000),
        bytes=medians("bytes"),
    )
