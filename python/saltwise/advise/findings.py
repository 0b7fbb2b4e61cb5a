"""Which stages of an application were uneven because of their keys, what that cost, and the one change that helps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from ..sizes import bytes_of
from .application import Application, Execution, PlanNode, Stage
from .fragments import Fragment, Kind, fragments, keys_of, kind_of, needs_shuffle
from .schedule import Range, gain, makespan

MIN_SECONDS = 1.0
"""Less than that is not worth a change."""
UNEVEN = 2.0
"""The slowest task takes so many times the mean, if a stage is uneven."""
SKEWED = 1.5
"""It has read so many times the mean of the rows or bytes, if its keys are the cause."""
DEFAULT_THRESHOLD = "256m"
"""Spark splits no partition of a join that has fewer bytes, unless a conf says otherwise."""
OUT_OF_MEMORY = ("OutOfMemory", "SparkOutOfMemoryError", "exit code 137", "Container killed")


@dataclass(frozen=True)
class Finding:
    """A stage whose keys were skewed."""

    application: str
    execution: int
    description: str
    stage: int
    kind: Kind
    operator: str
    keys: list[str]
    seconds: list[float]
    """Of each task, the slowest first."""
    slowest: float
    """Seconds of the slowest task."""
    median: float
    """Seconds of the median task."""
    took: float
    """Seconds of the stage on the log's cores, by list scheduling."""
    gain: Range
    """Seconds that it would take less if tasks were even."""
    rows: float
    """Rows of the slowest task by the mean."""
    bytes: float
    """Bytes of the slowest task by the mean."""
    spilled: int
    """Bytes spilled by its tasks."""
    failures: dict[str, int]
    """Failed tasks by reason, of all attempts of the stage."""
    failed: bool
    """Whether the query ended with an error."""
    hot_keys: list[str]
    """The heaviest keys, where the plugin has told them in this log."""
    advice: str

    @property
    def tasks(self) -> int:
        """How many tasks the stage had."""
        return len(self.seconds)


def findings(application: Application) -> list[Finding]:
    """Return what was skewed: queries that failed first, then the largest gain."""
    found = []
    for execution in application.executions.values():
        parts = fragments(execution.plan)
        by_stage: dict[int, list[Stage]] = {}
        for stage in application.stages_of(execution.id):
            by_stage.setdefault(stage.id, []).append(stage)
        for attempts in by_stage.values():
            each = _finding(application, execution, attempts, parts)
            if each is not None:
                found.append(each)
    return sorted(found, key=lambda each: (not each.failed, -each.gain.most))


def _finding(
    application: Application, execution: Execution, attempts: list[Stage], parts: list[Fragment]
) -> Finding | None:
    stage = max(attempts, key=lambda each: len(each.tasks))
    tasks, cores = stage.tasks, application.most_cores or 1
    failures: dict[str, int] = {}
    for attempt in attempts:
        for why, count in attempt.failures.items():
            failures[why] = failures.get(why, 0) + count
    memory = any(name in why for why in failures for name in OUT_OF_MEMORY)
    possible, skewed = _skew(stage, cores)
    if memory:
        lost = sum(attempt.lost_millis for attempt in attempts) / 1000
        mean = sum(tasks.rows) / len(tasks) if tasks.rows else 0.0
        skewed = skewed or max(attempt.failed_rows for attempt in attempts) >= SKEWED * mean
        possible = Range(possible.least, possible.most + lost)
    if not skewed or possible.most < MIN_SECONDS:
        return None
    node = _operator(stage, parts)
    if node is None:
        return None
    kind, keys = kind_of(node), keys_of(node)
    seconds = sorted((millis / 1000 for millis in tasks.millis), reverse=True)
    slowest = _slowest(tasks.millis)
    return Finding(
        application.id,
        execution.id,
        execution.description,
        stage.id,
        kind,
        node.name,
        keys,
        seconds,
        max(seconds, default=0.0),
        median(seconds) if seconds else 0.0,
        makespan(tasks.millis, cores),
        possible,
        _by_mean(tasks.rows, slowest),
        _by_mean(tasks.bytes, slowest),
        sum(tasks.spilled),
        failures,
        bool(execution.error),
        application.hot_keys.get(execution.id, []),
        _advice(kind, keys, application.conf | execution.conf, max(tasks.bytes, default=0)),
    )


def _skew(stage: Stage, cores: int) -> tuple[Range, bool]:
    """Return what even tasks would gain, and whether tasks are uneven because one reads more than the others."""
    tasks = stage.tasks
    if len(tasks) < 2 or not stage.reads_shuffle:
        return Range(0.0, 0.0), False
    slowest = _slowest(tasks.millis)
    uneven = tasks.millis[slowest] >= UNEVEN * sum(tasks.millis) / len(tasks)
    fuller = max(_by_mean(tasks.rows, slowest), _by_mean(tasks.bytes, slowest)) >= SKEWED
    return gain(tasks.millis, cores), uneven and fuller


def _slowest(millis: Sequence[int]) -> int:
    return max(range(len(millis)), key=millis.__getitem__, default=0)


def _operator(stage: Stage, parts: list[Fragment]) -> PlanNode | None:
    """Return the operator for whose sake the rows of a stage were shuffled."""
    part = max(parts, key=lambda part: len(part.accumulators & stage.accumulators), default=None)
    if part is None or not part.accumulators & stage.accumulators:
        return None
    return next((found for above in part.reads if (found := needs_shuffle(above)) is not None), None)


def _by_mean(values: Sequence[int], i: int) -> float:
    total = sum(values)
    return values[i] * len(values) / total if total else 1.0


def _advice(kind: Kind, keys: list[str], conf: dict[str, str], fullest: int) -> str:
    named = ", ".join(keys)
    match kind:
        case Kind.AGGREGATE:
            return f"set spark.saltwise.enabled=true, or write /*+ SKEW_GROUPBY */ in the SELECT that groups by {named}"
        case Kind.GROUP_MAP:
            return (
                f"df.skew_groupby({named}) places the groups evenly; if one group alone is too large, "
                "write the function as a saltwise.Aggregator, whose parts merge"
            )
        case Kind.JOIN:
            return _join_advice(conf, fullest)
        case Kind.STATE:
            return "saltwise.StateBalancer moves state partitions to other executors"
    return (
        "set spark.saltwise.placement.enabled=true, which spreads the keys evenly; nothing helps a key that alone has "
        "too many rows, because a window needs all of them in one task"
    )


def _join_advice(conf: dict[str, str], fullest: int) -> str:
    """Say how Spark comes to split the fullest partition of a join, of so many bytes."""
    adaptive = "spark.sql.adaptive"
    for switch in (f"{adaptive}.enabled", f"{adaptive}.skewJoin.enabled"):
        if conf.get(switch) == "false":
            return f"set {switch}=true: Spark itself then splits skewed partitions of joins"
    least = f"{adaptive}.skewJoin.skewedPartitionThresholdInBytes"
    if fullest <= bytes_of(least, conf.get(least, DEFAULT_THRESHOLD)):
        below = f"{fullest >> 21}m" if fullest >> 21 else f"{max(1, fullest >> 11)}k"
        return f"set {least}={below}: Spark itself then splits this join's partitions"
    return f"set {adaptive}.forceOptimizeSkewedJoin=true: Spark itself then splits this join's partitions"
