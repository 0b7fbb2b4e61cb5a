"""What an event log tells of an application: its SQL executions, their plans, their stages and tasks.

Only what the advice needs is kept, a few numbers a task, so that a log of gigabytes fits.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

_EVENT = b'{"Event":"'
_GROUP_BY = b"org.apache.spark.sql.saltwise.report.GroupByEvent"
_SQL = "org.apache.spark.sql.execution.ui.SparkListenerSQL"


@dataclass(frozen=True)
class PlanNode:
    """An operator of a physical plan, as Spark's UI shows it."""

    name: str
    text: str
    """One line, such as ``ObjectHashAggregate(keys=[k#1], functions=[collect_list(v#2, 0, 0)])``."""
    metrics: frozenset[int]
    """The ids of its accumulators."""
    children: tuple[PlanNode, ...]

    def __iter__(self) -> Iterator[PlanNode]:
        """All operators, this one first."""
        yield self
        for child in self.children:
            yield from child

    @classmethod
    def of(cls, info: dict[str, Any]) -> PlanNode:
        """Return the node that a ``SparkPlanInfo`` describes."""
        return cls(
            info["nodeName"],
            info["simpleString"],
            frozenset(metric["accumulatorId"] for metric in info["metrics"]),
            tuple(map(cls.of, info["children"])),
        )


@dataclass
class Tasks:
    """The tasks of a stage that ended well, each in one place of all arrays. Times are milliseconds."""

    millis: array[int] = field(default_factory=lambda: array("q"))
    rows: array[int] = field(default_factory=lambda: array("q"))
    """Rows read from shuffles, or from files if there is no shuffle."""
    bytes: array[int] = field(default_factory=lambda: array("q"))
    spilled: array[int] = field(default_factory=lambda: array("q"))
    """Bytes spilled from memory."""

    def __len__(self) -> int:
        return len(self.millis)


@dataclass
class Stage:
    """One attempt of a stage."""

    id: int
    attempt: int
    execution: int | None = None
    reads_shuffle: bool = False
    tasks: Tasks = field(default_factory=Tasks)
    accumulators: set[int] = field(default_factory=set)
    """The ids that its tasks updated."""
    failures: dict[str, int] = field(default_factory=dict)
    """How often tasks failed, by the reason's first line."""
    lost_millis: int = 0
    """What the tasks took that failed."""
    failed_rows: int = 0
    """The most rows that one of them had read."""


@dataclass
class Execution:
    """A SQL execution."""

    id: int
    description: str
    started: int
    plan: PlanNode
    """The last one: with adaptive execution, the one that ran."""
    conf: dict[str, str] = field(default_factory=dict)
    """What the session had set."""
    ended: int | None = None
    error: str = ""


@dataclass
class Application:
    """One run of an application."""

    id: str = ""
    name: str = ""
    spark: str = ""
    conf: dict[str, str] = field(default_factory=dict)
    cores: dict[str, int] = field(default_factory=dict)
    """By executor, of all that ever were."""
    most_cores: int = 0
    """The most cores at a time."""
    executions: dict[int, Execution] = field(default_factory=dict)
    stages: dict[tuple[int, int], Stage] = field(default_factory=dict)
    hot_keys: dict[int, list[str]] = field(default_factory=dict)
    """By execution, the heaviest keys that Saltwise's own events told."""

    def stages_of(self, execution: int) -> list[Stage]:
        """The attempts of stages of an execution."""
        return [stage for stage in self.stages.values() if stage.execution == execution]


def application(lines: Iterable[bytes], with_keys: bool = False) -> Application:
    """Read the lines of an event log. Events that it does not know, and lines that are no JSON, are passed over.

    Args:
        lines: without line ends.
        with_keys: whether to keep the hot keys that Saltwise's own events tell.

    >>> log = [b'{"Event":"SparkListenerApplicationStart","App Name":"nightly","App ID":"app-1","Timestamp":0}']
    >>> application(log).name
    'nightly'
    """
    reader = _Reader(with_keys)
    for line in lines:
        if not line.startswith(_EVENT):
            continue
        end = line.find(b'"', len(_EVENT))
        handle = reader.handlers.get(line[len(_EVENT) : end])
        if handle is None:
            continue
        try:
            handle(json.loads(line))
        except (ValueError, ArithmeticError, RecursionError, LookupError, TypeError, AttributeError):
            continue  # of another Spark, or damaged
    return reader.found


class _Reader:
    def __init__(self, with_keys: bool) -> None:
        self.found = Application()
        self.now_cores = 0
        self.execution_of: dict[int, int] = {}
        sql = _SQL.encode()
        self.handlers = {
            b"SparkListenerLogStart": self.log_start,
            b"SparkListenerApplicationStart": self.application_start,
            b"SparkListenerEnvironmentUpdate": self.environment,
            b"SparkListenerExecutorAdded": self.executor_added,
            b"SparkListenerExecutorRemoved": self.executor_removed,
            b"SparkListenerJobStart": self.job_start,
            b"SparkListenerStageCompleted": self.stage_completed,
            b"SparkListenerTaskEnd": self.task_end,
            sql + b"ExecutionStart": self.execution_start,
            sql + b"AdaptiveExecutionUpdate": self.plan_update,
            sql + b"ExecutionEnd": self.execution_end,
        }
        if with_keys:
            self.handlers[_GROUP_BY] = self.group_by

    def group_by(self, event: dict[str, Any]) -> None:
        keys = self.found.hot_keys.setdefault(event["executionId"], [])
        keys += [f"{key} ({rows:,} rows)" for key, rows in zip(event["hotKeys"], event["hotRows"], strict=True)]

    def log_start(self, event: dict[str, Any]) -> None:
        self.found.spark = event.get("Spark Version", "")

    def application_start(self, event: dict[str, Any]) -> None:
        self.found.name, self.found.id = event.get("App Name", ""), event.get("App ID") or ""

    def environment(self, event: dict[str, Any]) -> None:
        self.found.conf.update(event.get("Spark Properties", {}))

    def executor_added(self, event: dict[str, Any]) -> None:
        cores = event["Executor Info"]["Total Cores"]
        self.found.cores[event["Executor ID"]] = cores
        self.now_cores += cores
        self.found.most_cores = max(self.found.most_cores, self.now_cores)

    def executor_removed(self, event: dict[str, Any]) -> None:
        self.now_cores -= self.found.cores.get(event["Executor ID"], 0)

    def job_start(self, event: dict[str, Any]) -> None:
        execution = (event.get("Properties") or {}).get("spark.sql.execution.id")
        if execution is not None:
            for stage in event["Stage IDs"]:
                self.execution_of[stage] = int(execution)

    def stage(self, id: int, attempt: int) -> Stage:
        found = self.found.stages.get((id, attempt))
        if found is None:
            found = self.found.stages[id, attempt] = Stage(id, attempt, self.execution_of.get(id))
        return found

    def stage_completed(self, event: dict[str, Any]) -> None:
        info = event["Stage Info"]
        stage = self.stage(info["Stage ID"], info["Stage Attempt ID"])
        stage.accumulators.update(each["ID"] for each in info.get("Accumulables", ()))

    def task_end(self, event: dict[str, Any]) -> None:
        stage = self.stage(event["Stage ID"], event["Stage Attempt ID"])
        reason, info, metrics = event["Task End Reason"], event["Task Info"], event.get("Task Metrics") or {}
        read = metrics.get("Shuffle Read Metrics") or {}
        rows, size = (
            read.get("Total Records Read", 0),
            read.get("Remote Bytes Read", 0) + read.get("Local Bytes Read", 0),
        )
        if reason["Reason"] != "Success":
            why = _first_line(reason)
            stage.failures[why] = stage.failures.get(why, 0) + 1
            stage.lost_millis += info["Finish Time"] - info["Launch Time"]
            stage.failed_rows = max(stage.failed_rows, rows)
            return
        if rows:
            stage.reads_shuffle = True
        elif not stage.reads_shuffle:
            files = metrics.get("Input Metrics") or {}
            rows, size = files.get("Records Read", 0), files.get("Bytes Read", 0)
        tasks = stage.tasks
        tasks.millis.append(info["Finish Time"] - info["Launch Time"])
        tasks.rows.append(rows)
        tasks.bytes.append(size)
        tasks.spilled.append(metrics.get("Memory Bytes Spilled", 0))

    def execution_start(self, event: dict[str, Any]) -> None:
        self.found.executions[event["executionId"]] = Execution(
            event["executionId"],
            event.get("description", ""),
            event["time"],
            PlanNode.of(event["sparkPlanInfo"]),
            event.get("modifiedConfigs") or {},
        )

    def plan_update(self, event: dict[str, Any]) -> None:
        execution = self.found.executions.get(event["executionId"])
        if execution is not None:
            execution.plan = PlanNode.of(event["sparkPlanInfo"])

    def execution_end(self, event: dict[str, Any]) -> None:
        execution = self.found.executions.get(event["executionId"])
        if execution is not None:
            execution.ended, execution.error = event["time"], event.get("errorMessage") or ""


def _first_line(reason: dict[str, Any]) -> str:
    text = reason.get("Description") or reason.get("Loss Reason") or reason.get("Kill Reason") or reason["Reason"]
    name = reason.get("Class Name", "")
    return f"{name}: {text}".split("\n")[0].strip(": ")
