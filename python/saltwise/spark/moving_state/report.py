"""The report of a balancer of state partitions on a stream: loads, rounds and moves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from ...errors import SaltwiseError
from ...tables import Printable, Table
from ..session import require_plugin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Move:
    """A state partition that goes to another executor."""

    operators: list[int]
    """The stateful operators whose partition it is."""
    partition: int
    source: str
    executor: str
    bytes: int


@dataclass(frozen=True)
class Round:
    """What was decided after a batch, for the operators of one stage; with ALBIC, for the operators of all stages."""

    batch: int
    before: float
    """The largest executor load as a multiple of the mean."""
    expected: float
    """The same, after the moves."""
    moves: list[Move]
    gain: float
    """Seconds that each later batch is shorter."""
    pause: float
    """Seconds that the next batch is longer, once."""
    reason: str
    """Why nothing moves; empty if something does."""


@dataclass(frozen=True)
class BatchLoads:
    """How busy executors were in a batch."""

    batch: int
    executors: dict[str, float]
    """Seconds that the tasks of the state partitions ran, by executor."""

    @property
    def max_to_mean(self) -> float:
        """The load of the busiest executor as a multiple of the mean; 1.0 if there is no load.

        >>> BatchLoads(3, {"1": 1.5, "2": 0.5}).max_to_mean
        1.5
        """
        mean = sum(self.executors.values()) / len(self.executors)
        return max(self.executors.values()) / mean if mean else 1.0


@dataclass(frozen=True)
class StateReport(Printable):
    """The loads of a stream's executors, and what a balancer did. Prints as a page, in a notebook as HTML.

    >>> round_ = Round(4, 1.6, 1.02, [Move([0], 3, "1", "2", 1 << 20)], gain=0.5, pause=0.06, reason="")
    >>> held = {"1": 18, "2": 14}
    >>> report = StateReport("run", "milp", 5, 32, {"1": 1.6, "2": 0.4}, held, 1.6, 2, [round_], [], moved=1)
    >>> StateReport.from_json(report.to_json()) == report
    True
    """

    run: str
    planner: str | None
    batch: int
    """The latest batch."""
    partitions: int
    executors: dict[str, float]
    """Seconds of work of each executor in a batch, mean of the window."""
    held: dict[str, int]
    """State partitions on each executor."""
    max_to_mean: float
    needed: int | None
    """How many executors the load needs; None until the first round after two batches."""
    rounds: list[Round] = field(repr=False)
    """At most a thousand, the latest ones."""
    batches: list[BatchLoads] = field(repr=False)
    """The batches since the balancer started, at most a thousand."""
    moved: int = 0
    """Partitions moved since the query started."""
    moved_bytes: int = 0
    """Bytes of their states."""
    failure: str = ""
    """Why the last round failed; empty if it did not."""

    def to_json(self) -> str:
        """Return the report as JSON, for :meth:`from_json`."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> StateReport:
        """Return the report that :meth:`to_json` wrote."""
        content: dict[str, Any] = json.loads(text)
        for written in content["rounds"]:
            written["moves"] = [Move(**move) for move in written["moves"]]
        content["rounds"] = [Round(**written) for written in content["rounds"]]
        content["batches"] = [BatchLoads(**written) for written in content["batches"]]
        return cls(**content)

    def _parts(self) -> Iterator[Any]:
        yield (
            f"batch {self.batch}, {self.planner or 'no planner'}: {self.partitions} state partitions, max/mean "
            f"{self.max_to_mean:.2f}, {self.moved} moved with {self.moved_bytes / 2**20:.1f} MB"
        )
        loads = [(name, f"{load:.2f}", str(self.held[name])) for name, load in self.executors.items()]
        yield Table(loads, ("executor", "seconds a batch", "state partitions"))
        if self.needed is not None:
            yield f"The load needs {self.needed} of {len(self.executors)} executors."
        rows = [
            (
                str(decided.batch),
                str(len(decided.moves)),
                f"{sum(move.bytes for move in decided.moves) / 2**20:.1f}",
                f"{decided.before:.2f}",
                f"{decided.expected:.2f}",
                decided.reason or f"gains {decided.gain:.2f} s a batch, for {decided.pause:.2f} s once",
            )
            for decided in self.rounds[-_PRINTED_ROUNDS:]
        ]
        yield Table(rows, ("after batch", "moves", "MB", "max/mean", "expected", "why"))
        if self.failure:
            yield f"The last round failed: {self.failure}"


_PRINTED_ROUNDS = 20
"""How many of the latest rounds are printed."""


def state_report(spark: SparkSession, query: Any) -> StateReport:
    """Return the report of the balancer of a streaming query, wherever the balancer runs. It works over Connect too.

    Args:
        spark: a session of the query's application, with the plugin.
        query: a streaming query that runs.

    Raises:
        PluginMissingError: the session has no plugin.
        SaltwiseError: no balancer has reported on this query.

    >>> print(state_report(spark, query))  # doctest: +SKIP
    """
    require_plugin(spark)
    [row] = spark.sql(f"SELECT state_report('{query.runId}')").collect()
    if row[0] is None:
        raise SaltwiseError(
            f"No balancer has reported on query {query.runId}: set spark.saltwise.state.planner, and wait for a batch."
        )
    return StateReport.from_json(row[0])
