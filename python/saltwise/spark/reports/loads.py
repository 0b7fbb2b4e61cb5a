"""How many rows each worker of a query received, read from Spark's own status store."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ...errors import SaltwiseError
from ...tables import Printable, Table
from ..compat import is_connect, status_store
from ..session import MEASURED, confs

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

T = TypeVar("T")

_JOB_GROUP = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


@dataclass(frozen=True)
class WorkerLoads(Printable, Generic[T]):
    """Rows that the workers of one query received, and states that they sent. Prints as a small table, or as HTML.

    >>> WorkerLoads(rows=[6, 0], states=3, seconds=0.1).max_to_mean
    2.0
    """

    rows: list[int]
    """Rows that each worker received, by the number of the worker; 0 for a worker without rows."""
    states: int
    """Partial states that were sent to the final aggregation."""
    seconds: float
    """Wall-clock time of the action."""
    result: T | None = field(default=None, repr=False)
    """The return value of the action."""
    stages: list[list[int]] = field(default_factory=list, repr=False)
    """Milliseconds that the tasks of each stage ran."""

    @property
    def mean(self) -> float:
        """Mean of the rows per worker."""
        return sum(self.rows) / len(self.rows) if self.rows else 0.0

    @property
    def max_to_mean(self) -> float:
        """Rows of the fullest worker, as a multiple of the mean; 1.0 if there are no rows."""
        return max(self.rows) / self.mean if any(self.rows) else 1.0

    def _parts(self) -> Iterator[Table]:
        yield Table(
            [
                ("workers", f"{len(self.rows)}"),
                ("max rows", f"{max(self.rows, default=0):,}"),
                ("mean", f"{self.mean:,.0f}"),
                ("max/mean", f"{self.max_to_mean:.2f}"),
                ("partial states", f"{self.states:,}"),
                ("seconds", f"{self.seconds:.2f}"),
            ]
        )


def worker_loads(spark: SparkSession, action: Callable[[], T]) -> WorkerLoads[T]:
    """Run an action with one aggregate, and return the rows that each worker received.

    The workers are the tasks that read the rows that SkewRoute sent, or the keys that were placed. In any other plan
    they are the tasks that read the first shuffle. With stock Spark, these tasks get partial states. With ``split``,
    tasks that merge states count as workers too, beside those that read whole partitions. The UI need not run.

    Args:
        spark: a classic session.
        action: the function that runs the query, such as ``df.collect``. A cached query does not run again.

    Raises:
        SaltwiseError: the session is a Connect session, the action read no shuffle, or it ran several aggregates,
            whose workers cannot be told apart.

    >>> df = spark.range(1000).skew_groupby(F.col("id") % 2, strategy="shuffle", partitions=4).count()
    >>> worker_loads(spark, df.collect).rows  # doctest: +SKIP
    [250, 250, 250, 250]
    """
    if is_connect(spark):
        raise SaltwiseError(
            "worker_loads reads Spark's status store, which a Connect session does not have: use a classic session."
        )
    context = spark.sparkContext
    with confs(spark, MEASURED), _job_group(context) as group:
        started = perf_counter()
        result = action()
        seconds = perf_counter() - started
    stages = _stages(context, group)
    workers = _workers(stages)
    tasks = [task for stage in workers for task in stage.tasks()]
    rows = [task.shuffleReadMetrics().recordsRead() for task in tasks]
    if workers[0].routes(stages):
        states = sum(task.shuffleWriteMetrics().recordsWritten() for task in tasks)
    else:
        states = sum(rows)
    run_times = [[task.executorRunTime() for task in stage.tasks()] for stage in stages]
    return WorkerLoads(rows=rows, states=states, seconds=seconds, result=result, stages=run_times)


def measured_tasks(spark: SparkSession, action: Callable[[], object]) -> list[list[dict[str, int]]]:
    """Run an action, and return the metrics of each task, in the order of stages and partitions.

    Args:
        spark: a classic session.
        action: the function that runs the query.

    Returns:
        One list per stage, with one dict per task: milliseconds, records_read (from the shuffle), bytes_written and
        records_written (to the shuffle), and peak_memory in bytes.
    """
    with confs(spark, MEASURED), _job_group(spark.sparkContext) as group:
        action()
    return [
        [
            {
                "milliseconds": task.executorRunTime(),
                "records_read": task.shuffleReadMetrics().recordsRead(),
                "bytes_written": task.shuffleWriteMetrics().bytesWritten(),
                "records_written": task.shuffleWriteMetrics().recordsWritten(),
                "peak_memory": task.peakExecutionMemory(),
            }
            for task in stage.tasks()
        ]
        for stage in _stages(spark.sparkContext, group)
    ]


@dataclass(frozen=True)
class _Stage:
    """A stage that ran, from the status store."""

    store: Any
    id: int
    operators: frozenset[str]
    rdds: frozenset[int]
    sources: frozenset[int]
    """The RDDs whose shuffles it reads."""

    def reads(self, other: _Stage) -> bool:
        return not self.sources.isdisjoint(other.rdds)

    def routes(self, stages: list[_Stage]) -> frozenset[int]:
        """Return the ids of the stages with a SkewRoute whose shuffle it reads."""
        return frozenset(other.id for other in stages if "SkewRoute" in other.operators and self.reads(other))

    def tasks(self) -> list[Any]:
        """Return the metrics of each partition's successful task, from any attempt."""
        succeeded = {}
        last = self.store.lastStageAttempt(self.id)
        for attempt in range(last.attemptId() + 1):
            for task in _items(self.store.taskList(self.id, attempt, 2**31 - 1)):
                if task.status() == "SUCCESS":
                    succeeded[task.partitionId()] = task.taskMetrics().get()
        return [succeeded[partition] for partition in sorted(succeeded)]


def _workers(stages: list[_Stage]) -> list[_Stage]:
    """Return the stages whose tasks are the workers: one stage, or with `split` the two that read the same shuffle."""
    readers = [stage for stage in stages if any(stage.reads(other) for other in stages)]
    routed = [stage for stage in readers if stage.routes(stages)]
    first = [stage for stage in readers if not any(stage.reads(other) for other in readers)]
    placed = [stage for stage in readers if "SkewReceive" in stage.operators]
    workers = routed or placed or first
    if not workers:
        raise SaltwiseError("The action read no shuffle: run an aggregate that is not cached.")
    aggregates = len({stage.routes(stages) for stage in routed}) if routed else len(workers)
    if aggregates > 1:
        raise SaltwiseError(f"The action ran {aggregates} aggregates: measure one at a time.")
    return workers


def _stages(context: SparkContext, group: str) -> list[_Stage]:
    """Return the stages that ran for a job group, without those that Spark skipped."""
    store = status_store(context)
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    ids = sorted({stage for job in jobs if job is not None for stage in job.stageIds})
    # The store forgets skipped stages first, so some of them may be missing.
    infos = [(id, tracker.getStageInfo(id)) for id in ids]
    return [_stage(store, id) for id, info in infos if info is not None and info.numCompletedTasks >= info.numTasks > 0]


def _stage(store: Any, id: int) -> _Stage:
    graph = store.operationGraphForStage(id)
    clusters = list(_clusters(graph.rootCluster()))
    return _Stage(
        store,
        id,
        operators=frozenset(cluster.name() for cluster in clusters),
        rdds=frozenset(node.id() for cluster in clusters for node in _items(cluster.childNodes())),
        sources=frozenset(edge.fromId() for edge in _items(graph.incomingEdges())),
    )


def _clusters(cluster: Any) -> Iterator[Any]:
    yield cluster
    for child in _items(cluster.childClusters()):
        yield from _clusters(child)


def _items(seq: Any) -> Iterator[Any]:
    """Iterate over a Scala collection."""
    iterator = seq.iterator()
    while iterator.hasNext():
        yield iterator.next()


@contextmanager
def _job_group(context: SparkContext) -> Iterator[str]:
    """Run jobs in a job group of their own, then restore the job group from before."""
    before = [context.getLocalProperty(name) for name in _JOB_GROUP]
    group = f"saltwise-{uuid.uuid4()}"
    context.setJobGroup(group, "saltwise worker loads")
    try:
        yield group
    finally:
        for name, value in zip(_JOB_GROUP, before, strict=True):
            context.setLocalProperty(name, value)  # type: ignore[arg-type]
