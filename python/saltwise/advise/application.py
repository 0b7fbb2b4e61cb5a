"""Reads an application from its event log: its SQL executions, one after the other, with their plans and tasks.

An execution is forgotten after it was yielded. So a log of gigabytes needs the memory of a few executions.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

_EVENT = b'{"Event":"'
_GROUP_BY = b"org.apache.spark.sql.saltwise.report.GroupByEvent"
_SQL = "org.apache.spark.sql.execution.ui.SparkListenerSQL"
MAX_NODES = 10_000
"""The most operators of a plan. The event of a larger plan is skipped."""
MAX_LEVELS = 300
"""The most operators above each other. A deeper plan is skipped too, because recursive functions read plans."""
MAX_TEXT = 20_000
"""The most characters of a text that are kept: an operator, a description, or a reason."""
MAX_LONG = (1 << 63) - 1
_MAX_EXECUTIONS = 10_000
"""The most executions in memory. If Spark dropped events, an execution may never end."""
_MAX_HOT_KEYS = 100
"""The most hot keys that are kept for the grouping columns of an execution."""
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Characters that a terminal may run as a command, and characters that UTF-8 cannot encode."""
_MAX_ENDED = 8
"""The most ended executions in memory. Events of killed tasks, and Saltwise's own, come after the end."""
_HARMLESS_REASONS = ("another attempt succeeded", "Resubmitted")
"""Reasons of tasks that did not fail: another attempt had the result, or the result was lost later."""
_ROWS_READ = "records read"
"""The metric of an exchange that counts the rows read from it."""


@dataclass(frozen=True)
class PlanNode:
    """An operator of a physical plan, as Spark's UI shows it."""

    name: str
    text: str
    """One line, such as ``ObjectHashAggregate(keys=[k#1], functions=[collect_list(v#2, 0, 0)])``."""
    metrics: frozenset[int]
    """The ids of its accumulators."""
    children: tuple[PlanNode, ...]
    reads: int = -1
    """The accumulator that counts the rows read from an exchange; -1 for other operators."""

    def __iter__(self) -> Iterator[PlanNode]:
        """Yield all operators, this one first."""
        yield self
        for child in self.children:
            yield from child

    @classmethod
    def from_info(cls, info: dict[str, Any]) -> PlanNode:
        """Return the node that a ``SparkPlanInfo`` describes.

        Raises:
            LookupError, TypeError, ValueError: `info` is not a ``SparkPlanInfo``, or the plan is too large.
        """
        return cls._from_info(info, count(1), MAX_LEVELS)

    @classmethod
    def _from_info(cls, info: dict[str, Any], nodes: Iterator[int], levels: int) -> PlanNode:
        if next(nodes) > MAX_NODES or not levels:
            raise ValueError("the plan has too many operators")
        metrics = [(_whole(metric["accumulatorId"]), metric.get("name")) for metric in info["metrics"]]
        return cls(
            name=_text(info["nodeName"]),
            text=_text(info["simpleString"]),
            metrics=frozenset(metric for metric, _ in metrics),
            children=tuple(cls._from_info(child, nodes, levels - 1) for child in info["children"]),
            reads=next((metric for metric, name in metrics if name == _ROWS_READ), -1),
        )


class Task(NamedTuple):
    """How long a task took, and what it read from shuffles."""

    millis: int
    rows: int = 0
    bytes: int = 0
    spilled: int = 0
    """Bytes spilled from memory."""


class Failed(NamedTuple):
    """The failed runs of one partition."""

    runs: int
    longest: Task


@dataclass
class Stage:
    """A stage with all its attempts. A task that ran again counts once."""

    id: int
    reads_shuffle: bool = False
    done: dict[int, Task] = field(default_factory=dict)
    """The last run that succeeded, by partition."""
    failed: dict[int, Failed] = field(default_factory=dict)
    """The runs that failed, by partition."""
    running: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The partition and the start of each task that runs, by task."""
    accumulators: set[int] = field(default_factory=set)
    """The ids that its tasks updated."""
    slowest: int = -1
    """Milliseconds of its slowest task."""
    updates: dict[int, int] = field(default_factory=dict)
    """The numbers that this task added, by accumulator."""
    slots: int = 1
    """The most tasks that the cluster could run at a time during the stage."""
    failures: dict[str, int] = field(default_factory=dict)
    """How often tasks failed, by the first line of the reason."""
    lost_millis: int = 0
    """Milliseconds of all tasks that failed."""

    def never_done(self) -> dict[int, Failed]:
        """Return the partitions without a run that succeeded."""
        return {partition: failed for partition, failed in self.failed.items() if partition not in self.done}

    def tasks(self) -> list[Task]:
        """Return one task for each partition, in Spark's order. If no run succeeded, this is the longest one."""
        every = self.done | {partition: failed.longest for partition, failed in self.never_done().items()}
        return [every[partition] for partition in sorted(every)]


@dataclass
class Application:
    """One run of an application."""

    id: str = ""
    name: str = ""
    spark: str = ""
    conf: dict[str, str] = field(default_factory=dict)


@dataclass
class Execution:
    """A SQL execution."""

    id: int
    application: Application
    description: str
    started: int
    plan: PlanNode
    """The last plan. With adaptive execution, this is the plan that ran."""
    conf: dict[str, str] = field(default_factory=dict)
    """The confs that the session had set."""
    ended: int | None = None
    error: str = ""
    stages: dict[int, Stage] = field(default_factory=dict)
    hot_keys: dict[tuple[str, ...], list[str]] = field(default_factory=dict)
    """The heaviest keys with their rows, by grouping columns, from Saltwise's own events."""

    @property
    def seconds(self) -> float | None:
        """How long it took; None if the log has no end of it."""
        return None if self.ended is None else (self.ended - self.started) / 1000


def executions(lines: Iterable[bytes], with_keys: bool = False) -> Iterator[Execution]:
    """Yield the SQL executions of an event log, each one soon after its end.

    Unknown events, events with values of a wrong type, and lines that are not JSON are skipped. Executions that never
    ended come last.

    Args:
        lines: lines without line ends.
        with_keys: whether to keep the hot keys of Saltwise's own events.

    >>> list(executions([b'{"Event":"SparkListenerApplicationStart","App Name":"nightly","App ID":"app-1"}']))
    []
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
            continue  # written by another Spark, or damaged
        while len(reader.ended) > _MAX_ENDED:
            yield reader.settled(reader.ended.popleft())
        while len(reader.executions) > _MAX_EXECUTIONS:
            number = next(iter(reader.executions))
            with suppress(ValueError):
                reader.ended.remove(number)
            yield reader.settled(number)
    for number in [*reader.ended, *(number for number in reader.executions if number not in reader.ended)]:
        yield reader.settled(number)


class _Reader:
    def __init__(self, with_keys: bool) -> None:
        self.application = Application()
        self.executions: dict[int, Execution] = {}
        self.ended: deque[int] = deque()
        self.execution_of: dict[int, int] = {}
        """The execution of each stage."""
        self.cores: dict[str, int] = {}
        """The cores of each executor that lives."""
        self.all_cores = 0
        self.cores_per_task = 1
        self.now = 0
        """Milliseconds of the last task event."""
        sql = _SQL.encode()
        self.handlers = {
            b"SparkListenerLogStart": self.log_start,
            b"SparkListenerApplicationStart": self.application_start,
            b"SparkListenerEnvironmentUpdate": self.environment,
            b"SparkListenerExecutorAdded": self.executor_added,
            b"SparkListenerExecutorRemoved": self.executor_removed,
            b"SparkListenerJobStart": self.job_start,
            b"SparkListenerStageCompleted": self.stage_completed,
            b"SparkListenerTaskStart": self.task_start,
            b"SparkListenerTaskEnd": self.task_end,
            sql + b"ExecutionStart": self.execution_start,
            sql + b"AdaptiveExecutionUpdate": self.plan_update,
            sql + b"ExecutionEnd": self.execution_end,
        }
        if with_keys:
            self.handlers[_GROUP_BY] = self.group_by

    def settled(self, number: int) -> Execution:
        """Return an execution, and forget it. Its running tasks count as if they had failed now."""
        execution = self.executions.pop(number)
        for id, stage in execution.stages.items():
            del self.execution_of[id]
            for partition, since in stage.running.values():
                _add_failed(stage, partition, Task(max(0, self.now - since)))
        return execution

    def group_by(self, event: dict[str, Any]) -> None:
        hot = [
            f"{_text(key)} ({_whole(rows):,} rows)"
            for key, rows in zip(event["hotKeys"], event["hotRows"], strict=True)
        ]
        known = self.executions[event["executionId"]].hot_keys.setdefault(tuple(map(_text, event["keys"])), [])
        known += hot[: _MAX_HOT_KEYS - len(known)]

    def log_start(self, event: dict[str, Any]) -> None:
        self.application.spark = _text(event.get("Spark Version") or "")

    def application_start(self, event: dict[str, Any]) -> None:
        self.application.name = _text(event.get("App Name") or "")
        self.application.id = _text(event.get("App ID") or "")

    def environment(self, event: dict[str, Any]) -> None:
        self.application.conf.update(_conf(event.get("Spark Properties", {})))
        self.cores_per_task = max(1, int(self.application.conf.get("spark.task.cpus", 1)))

    def executor_added(self, event: dict[str, Any]) -> None:
        cores = _whole(event["Executor Info"]["Total Cores"])
        self.executor_removed(event)
        self.cores[event["Executor ID"]] = cores
        self.all_cores += cores

    def executor_removed(self, event: dict[str, Any]) -> None:
        self.all_cores -= self.cores.pop(event["Executor ID"], 0)

    def job_start(self, event: dict[str, Any]) -> None:
        execution = self.executions.get(int((event.get("Properties") or {})["spark.sql.execution.id"]))
        for id in map(_whole, event["Stage IDs"] if execution is not None else ()):
            # A later job may name the stages of an earlier job, because it reads their output.
            if execution is not None and id not in self.execution_of:
                self.execution_of[id] = execution.id
                execution.stages[id] = Stage(id)

    def stage(self, id: int) -> Stage:
        return self.executions[self.execution_of[id]].stages[id]

    def stage_completed(self, event: dict[str, Any]) -> None:
        info = event["Stage Info"]
        self.stage(info["Stage ID"]).accumulators.update(_whole(entry["ID"]) for entry in info.get("Accumulables", ()))

    def task_start(self, event: dict[str, Any]) -> None:
        info = event["Task Info"]
        launched = _whole(info["Launch Time"])
        self.now = max(self.now, launched)
        self.stage(event["Stage ID"]).running[info["Task ID"]] = (_partition(info), launched)

    def task_end(self, event: dict[str, Any]) -> None:
        reason, info, metrics = event["Task End Reason"], event["Task Info"], event.get("Task Metrics") or {}
        finished = _whole(info["Finish Time"])
        self.now = max(self.now, finished)
        stage = self.stage(event["Stage ID"])
        stage.running.pop(info.get("Task ID"), None)
        read = metrics.get("Shuffle Read Metrics") or {}
        task = Task(
            millis=max(0, finished - _whole(info["Launch Time"])),
            rows=_whole(read.get("Total Records Read", 0)),
            bytes=_whole(read.get("Remote Bytes Read", 0)) + _whole(read.get("Local Bytes Read", 0)),
            spilled=_whole(metrics.get("Memory Bytes Spilled", 0)),
        )
        stage.reads_shuffle |= task.rows > 0
        stage.slots = max(stage.slots, self.all_cores // self.cores_per_task)
        if reason["Reason"] == "Success":
            stage.done[_partition(info)] = task
        else:
            why = _first_line(reason)
            if any(text in why for text in _HARMLESS_REASONS):
                return
            stage.failures[why] = stage.failures.get(why, 0) + 1
            stage.lost_millis += task.millis
            _add_failed(stage, _partition(info), task)
        updates = info.get("Accumulables") or ()
        if task.millis > stage.slowest and updates:
            stage.slowest = task.millis
            stage.accumulators.update(_whole(entry["ID"]) for entry in updates)
            stage.updates = {entry["ID"]: int(entry["Update"]) for entry in updates if _is_whole(entry.get("Update"))}

    def execution_start(self, event: dict[str, Any]) -> None:
        number = _whole(event["executionId"])
        if number in self.executions:
            return  # the log has the event twice
        self.executions[number] = Execution(
            id=number,
            application=self.application,
            description=_text(event.get("description") or ""),
            started=_whole(event["time"]),
            plan=PlanNode.from_info(event["sparkPlanInfo"]),
            conf=_conf(event.get("modifiedConfigs") or {}),
        )

    def plan_update(self, event: dict[str, Any]) -> None:
        self.executions[event["executionId"]].plan = PlanNode.from_info(event["sparkPlanInfo"])

    def execution_end(self, event: dict[str, Any]) -> None:
        execution = self.executions[event["executionId"]]
        if execution.ended is None:
            execution.ended, execution.error = _whole(event["time"]), _text(event.get("errorMessage") or "")
            self.ended.append(execution.id)


def _partition(info: dict[str, Any]) -> int:
    """Return the partition of a task. Its index counts only the tasks of its attempt of the stage."""
    return _whole(info.get("Partition ID", info["Index"]))


def _whole(value: object) -> int:
    """Return a number of an event.

    Raises:
        ValueError: the value is not a whole number from 0 to :data:`MAX_LONG`.
    """
    if not isinstance(value, int) or not 0 <= value <= MAX_LONG:
        raise ValueError("a value is not a count")
    return int(value)


def _text(value: object) -> str:
    """Return a text of an event without characters that could harm a terminal.

    Raises:
        TypeError: the value is not a text.
    """
    if not isinstance(value, str):
        raise TypeError("a value is not a text")
    return _CONTROL_CHARACTERS.sub(" ", value[:MAX_TEXT])


def _conf(values: dict[str, Any]) -> dict[str, str]:
    return {_text(name): _text(value) for name, value in values.items()}


def _add_failed(stage: Stage, partition: int, task: Task) -> None:
    before = stage.failed.get(partition, Failed(0, task))
    stage.failed[partition] = Failed(before.runs + 1, max(before.longest, task))


def _is_whole(update: object) -> bool:
    return isinstance(update, int) or (isinstance(update, str) and len(update) < 20 and update.isdecimal())


def _first_line(reason: dict[str, Any]) -> str:
    text = reason.get("Description") or reason.get("Loss Reason") or reason.get("Kill Reason") or reason["Reason"]
    name = reason.get("Class Name", "")
    return f"{_text(name)}: {_text(text)}".split("\n")[0].strip(": ")
