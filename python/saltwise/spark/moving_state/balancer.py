"""Moves the state partitions of running streams between executors, by the planners of the papers."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ...errors import SaltwiseError
from ..compat import is_connect, state_streams
from ..session import require_plugin
from .report import StateReport
from .steering import Steering, SteeringOptions, follow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class StateBalancer:
    """Keeps the executors of streams with state evenly loaded, by moving state partitions.

    After every few batches, a planner gets the time that each state partition took, and its executor. A move is a
    message to Spark's own table of the executors that have states. It is sent when the tasks of the next batch have
    ended. Spark runs the batch after it there, and loads the states from the checkpoint. The query's plan, checkpoint
    and answers stay the same.

    Args:
        spark: a classic session with the plugin.
        planner: ``flux``, ``milp``, ``albic`` or ``cola`` (Madsen, Zhou, Cao), ``elb``, ``clb`` or ``uhlb`` (Guo and
            Zhou). None only watches.
        max_migration: bytes of state that a round may move, such as ``"256m"``.
        max_moves: partitions that a round may move; any number by default.
        every: batches between two rounds.
        window: batches over which loads are averaged. Moves must pay within as many batches.
        load: ``time`` that tasks took, or ``rows`` that they read.
        utilisation: two shares of the time. If executors work less than the first share, there are too many executors;
            if they work more than the second, there are too few.
        seed: for planners that draw.

    Raises:
        SaltwiseValueError: an argument is not allowed.
        PluginMissingError: the session has no plugin.
        SaltwiseError: the session is over Spark Connect.

    >>> balancer = StateBalancer(spark, planner="milp", every=5).start()  # doctest: +SKIP
    >>> print(balancer.report(query))  # doctest: +SKIP
    """

    def __init__(
        self,
        spark: SparkSession,
        planner: str | None = "milp",
        max_migration: str | int = "256m",
        max_moves: int | None = None,
        every: int = 5,
        window: int = 10,
        load: str = "time",
        utilisation: tuple[float, float] = (0.3, 0.8),
        seed: int = 1,
    ) -> None:
        options = SteeringOptions(
            planner=planner,
            max_migration=max_migration,
            max_moves=max_moves,
            every=every,
            window=window,
            load=load,
            utilisation=utilisation,
            seed=seed,
        )
        require_plugin(spark)
        if is_connect(spark):
            raise SaltwiseError(
                "StateBalancer needs the driver, and this session is over Spark Connect: set "
                "spark.saltwise.state.planner on the server instead."
            )
        self._streams, self._steering = state_streams(spark), Steering(options)
        self._chosen_runs: set[str] = set()
        """The runs of queries to balance; empty if all are."""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, query: StreamingQuery | None = None) -> StateBalancer:
        """Begin to balance a query; without one, all queries of the application."""
        if query is None:
            self._chosen_runs.clear()
        elif self._chosen_runs or self._thread is None:
            self._chosen_runs.add(str(query.runId))
        if self._thread is None or not self._thread.is_alive():
            self._stop.clear()
            self._thread = threading.Thread(target=self._follow, name="saltwise-state-balancer", daemon=True)
            self._thread.start()
        return self

    def _follow(self) -> None:
        follow(self._streams, self._steering, stop=self._stop, chosen=self._is_chosen)

    def _is_chosen(self, run: str) -> bool:
        return not self._chosen_runs or run in self._chosen_runs

    def drain(self, executor: str) -> StateBalancer:
        """Empty an executor, for example before it is decommissioned. :meth:`report` shows what is left on it."""
        self._steering.drain(executor)
        return self

    def stop(self) -> None:
        """End. States stay where they are."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def __enter__(self) -> StateBalancer:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()

    def report(self, query: StreamingQuery) -> StateReport:
        """Return the loads of a query's executors, and the moves so far.

        Raises:
            SaltwiseError: no batch of it has ended since the balancer started, or it keeps no state.
        """
        report = self._steering.report(str(query.runId))
        if report is None:
            raise SaltwiseError(
                f"No batch with state of query {query.runId} has ended since the balancer started: wait for one."
            )
        return report
