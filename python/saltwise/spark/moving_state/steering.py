"""Decides after each batch of a stream which of its state partitions move to which executor."""

from __future__ import annotations

import json
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from py4j.protocol import Py4JError

from ...errors import SaltwiseError, SaltwiseValueError, check_whole
from ...rebalancing.adaptation import adapt
from ...rebalancing.rounds import BY_TRAFFIC, PLANNERS, Budget, decide, unevenness
from ...sizes import bytes_of
from .batches import LOADS, StateBatch, window_of
from .report import BatchLoads, Move, Round, StateReport

_LOG = logging.getLogger(__name__)
_POLL_MILLIS = 500
_MAX_REPORTED = 1000
"""The most rounds and batches that a report has."""
_MAX_RUNS = 50
"""The most runs of queries that are remembered. A service that restarts its queries has more of them each day."""


@dataclass(frozen=True)
class SteeringOptions:
    """How a balancer steers. :class:`saltwise.StateBalancer` says what each option means.

    Raises:
        SaltwiseValueError: an option is not allowed.

    >>> SteeringOptions("milp", max_migration="1g").max_bytes
    1073741824
    """

    planner: str | None = "milp"
    max_migration: str | int = "256m"
    max_moves: int | None = None
    every: int = 5
    window: int = 10
    load: str = "time"
    utilisation: tuple[float, float] = (0.3, 0.8)
    seed: int = 1

    def __post_init__(self) -> None:
        for name, given, allowed in (("planner", self.planner, PLANNERS), ("load", self.load, LOADS)):
            if given is not None and given not in allowed:
                raise SaltwiseValueError.unknown(name, given, allowed)
        for name in ("every", "window"):
            check_whole(name, getattr(self, name))
        check_whole("seed", self.seed, 0)
        if self.max_moves is not None:
            check_whole("max_moves", self.max_moves)
        if not self.max_bytes:
            raise SaltwiseValueError(f"max_migration is {self.max_migration!r}; it must be more than no bytes.")
        low, high = self.utilisation
        if not 0 < low < high <= 1:
            raise SaltwiseValueError(f"utilisation is {low!r} to {high!r}; it must be 0 < low < high <= 1.")

    @property
    def max_bytes(self) -> int:
        """max_migration in bytes."""
        return bytes_of("max_migration", self.max_migration)

    @property
    def needs_traffic(self) -> bool:
        """Whether the planner needs the bytes that partitions send to each other."""
        return self.planner in BY_TRAFFIC


class Steering:
    """Follows runs of queries, batch after batch, and decides which state partitions move. Threads may share it."""

    def __init__(self, options: SteeringOptions) -> None:
        self.options = options
        self._lock = threading.Lock()
        self._runs: dict[str, _Run] = {}
        self._drained: set[str] = set()

    def drain(self, executor: str) -> None:
        """Treat an executor as one that leaves."""
        self._drained.add(executor)

    def after(self, batch: StateBatch) -> list[Move]:
        """Add a batch that has ended; return the moves that follow."""
        executors = [replace(e, leaving=e.leaving or e.id in self._drained) for e in batch.executors]
        with self._lock:
            run = self._runs.pop(batch.run, None) or _Run(self.options)
            self._runs[batch.run] = run  # at the end of the dict, because it is the latest
            if len(self._runs) > _MAX_RUNS:
                del self._runs[next(iter(self._runs))]
            return run.after(replace(batch, executors=executors))

    def failed(self, run: str, why: str) -> None:
        """Note why a round failed."""
        with self._lock:
            if run in self._runs:
                self._runs[run].failure = why

    def missing(self, run: str) -> int:
        """Return how many more executors a query needs, if the last batch had a round; else 0."""
        with self._lock:
            known = self._runs.get(run)
            return 0 if known is None else known.missing

    def report(self, run: str) -> StateReport | None:
        """Return the report on a run; None if it had no batch with state."""
        with self._lock:
            known = self._runs.get(run)
            return None if known is None else known.report()


class _Run:
    """One run of a query."""

    def __init__(self, options: SteeringOptions) -> None:
        self._options = options
        self._batches: deque[StateBatch] = deque(maxlen=options.window)
        self._rounds: deque[Round] = deque(maxlen=_MAX_REPORTED)
        self._loads: deque[BatchLoads] = deque(maxlen=_MAX_REPORTED)
        self._rng = np.random.default_rng(options.seed)
        self._batches_since_round = 0
        self._moved_last = False
        """Whether partitions move because of the last batch."""
        self._moved = 0
        self._moved_bytes = 0
        self.failure = ""
        self.needed: int | None = None
        self.missing = 0

    def after(self, batch: StateBatch) -> list[Move]:
        self.missing = 0
        if self._batches and _shape(self._batches[-1]) != _shape(batch):
            self._batches.clear()
        self._batches.append(batch)
        self._loads.append(batch.loads())
        self._batches_since_round += 1
        due = self._batches_since_round >= self._options.every or _loses_an_executor(batch)
        # If partitions moved after the last batch, this one began before them, so its loads are the old ones.
        early, self._moved_last = self._moved_last, False
        if self._options.planner is None or early or not due:
            return []
        self._batches_since_round = 0
        self.failure = ""
        self.needed = self._needed_executors()
        if self.needed is not None:
            self.missing = max(0, self.needed - sum(not executor.leaving for executor in batch.executors))
        stages = list(range(len(batch.stages)))
        planned_together = [stages] if self._options.needs_traffic else [[stage] for stage in stages]
        partitions = sum(len(stage.rows) for stage in batch.stages)
        budget = Budget(self._options.max_moves or partitions, self._options.max_bytes)
        moves: list[Move] = []
        for group in planned_together:
            if budget.moves:
                new_round = self._round(self._options.planner, group, budget)
                self._rounds.append(new_round)
                moves += new_round.moves
                budget = budget._replace(
                    moves=budget.moves - len(new_round.moves),
                    bytes=budget.bytes - sum(move.bytes for move in new_round.moves),
                )
        self._moved += len(moves)
        self._moved_bytes += sum(move.bytes for move in moves)
        self._moved_last = bool(moves)
        return moves

    def _round(self, planner: str, stages: Sequence[int], budget: Budget) -> Round:
        batch = self._batches[-1]
        window, executors = window_of(self._batches, stages, self._options.load)
        cluster = window.cluster
        decision = decide(planner, window, budget, self._rng)
        groups = [(batch.stages[stage].operators, i) for stage in stages for i in range(len(batch.stages[stage].rows))]
        moves = [
            Move(*groups[g], executors[cluster.node[g]], executors[decision.node[g]], int(cluster.cost[g]))
            for g in np.flatnonzero(cluster.moved(decision.node))
        ]
        return Round(
            batch=batch.batch,
            before=unevenness(cluster),
            expected=unevenness(cluster, decision.node),
            moves=moves,
            gain=decision.gain,
            pause=decision.pause,
            reason=decision.reason,
        )

    def _needed_executors(self) -> int | None:
        """Return how many executors Algorithm 1 of the MILP paper would keep; None after a single batch."""
        first, last = self._batches[0], self._batches[-1]
        if last.batch == first.batch or last.ended <= first.ended:
            return None
        window, _ = window_of(self._batches, range(len(last.stages)), "time")
        seconds = (last.ended - first.ended) / 1000 / (last.batch - first.batch)
        percent = replace(window.cluster, load=window.cluster.load * (100 / seconds))
        low, high = self._options.utilisation
        return int(adapt(percent, lambda cluster: cluster.node, 100 * low, 100 * high).cluster.staying.sum())

    def report(self) -> StateReport:
        batch = self._batches[-1]
        window, executors = window_of(self._batches, range(len(batch.stages)), "time")
        cluster = window.cluster
        seconds = (cluster.loads() / cluster.capacity).round(3).tolist()
        held = np.bincount(cluster.node, minlength=cluster.nodes).tolist()
        return StateReport(
            run=batch.run,
            planner=self._options.planner,
            batch=batch.batch,
            partitions=len(cluster.load),
            executors=dict(zip(executors, seconds, strict=True)),
            held=dict(zip(executors, held, strict=True)),
            max_to_mean=round(unevenness(cluster), 3),
            needed=self.needed,
            rounds=list(self._rounds),
            batches=list(self._loads),
            moved=self._moved,
            moved_bytes=self._moved_bytes,
            failure=self.failure,
        )


def _loses_an_executor(batch: StateBatch) -> bool:
    """Return whether a state partition is on an executor that leaves. It need not wait for the next round."""
    stay = {executor.id for executor in batch.executors if not executor.leaving}
    return any(name is not None and name not in stay for stage in batch.stages for name in stage.executor)


def _shape(batch: StateBatch) -> list[tuple[list[int], int]]:
    return [(stage.operators, len(stage.rows)) for stage in batch.stages]


def follow(
    streams: Any, steering: Steering, *, stop: threading.Event, chosen: Callable[[str], bool] = lambda run: True
) -> None:
    """Steer the streams of an application until `stop` is set. A stream goes on, whatever fails here.

    Args:
        streams: the plugin's StateStreams.
        steering: decides what moves.
        stop: ends it, within half a second.
        chosen: whether to steer a run of a query; all are steered by default.
    """
    while not stop.is_set():
        run = ""
        try:
            text = streams.next(_POLL_MILLIS, steering.options.needs_traffic)
            if text is None:
                continue
            batch = StateBatch.parse(text)
            run = batch.run
            if chosen(run):
                _steer(streams, steering, batch)
        except (SaltwiseError, Py4JError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            _LOG.warning("State partitions of run %s stay where they are.", run, exc_info=True)
            steering.failed(run, str(error))


def _steer(streams: Any, steering: Steering, batch: StateBatch) -> None:
    moves = steering.after(batch)
    why = streams.failure(batch.run)
    if why is not None:
        steering.failed(batch.run, why)
    if moves:
        streams.move(batch.run, json.dumps([move.__dict__ for move in moves]))
    report = steering.report(batch.run)
    if report is not None:
        streams.report(batch.run, report.to_json())
    missing = steering.missing(batch.run)
    if missing:
        streams.requestExecutors(missing)
