"""What an event log tells of an application: its SQL executions, one after the other, with their plans and tasks.

An execution is dropped once it was handed on, so that a log of gigabytes needs the memory of a few executions.
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
"""Operators of a plan, beyond which the event is passed over."""
MAX_LEVELS = 300
"""Operators above each other, beyond which it is passed over too: a plan is read by functions that call themselves."""
MAX_TEXT = 20_000
"""Letters of an operator, of a description and of a reason that are kept."""
MAX_LONG = (1 << 63) - 1
_OPEN = 10_000
"""Executions that are kept at most. Where Spark has dropped events, an execution may never end."""
_HOT = 100
"""Hot keys that are kept of the grouping columns of an execution."""
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""What a terminal may take as an order, and what no file can hold."""
_LATE = 8
"""Executions that have ended and are kept a little longer: their killed tasks, and Saltwise's own events, come late."""
_NO_FAILURE = ("another attempt succeeded", "Resubmitted")
"""Reasons of tasks that ended since their result was there already, or was lost later."""
_READS = "records read"
"""The metric of an exchange that counts the rows which its reader took."""


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
    """Of an exchange: the accumulator that counts the rows read from it."""

    def __iter__(self) -> Iterator[PlanNode]:
        """All operators, this one first."""
        yield self
        for child in self.children:
            yield from child

    @classmethod
    def of(cls, info: dict[str, Any]) -> PlanNode:
        """Return the node that a ``SparkPlanInfo`` describes.

        Raises:
            LookupError, TypeError, ValueError: it is none, or the plan is too large.
        """
        return cls._of(info, count(1), MAX_LEVELS)

    @classmethod
    def _of(cls, info: dict[str, Any], nodes: Iterator[int], levels: int) -> PlanNode:
        if next(nodes) > MAX_NODES or not levels:
            raise ValueError("the plan has too many operators")
        metrics = [(_whole(metric["accumulatorId"]), metric.get("name")) for metric in info["metrics"]]
        return cls(
            _text(info["nodeName"]),
            _text(info["simpleString"]),
            frozenset(metric for metric, _ in metrics),
            tuple(cls._of(child, nodes, levels - 1) for child in info["children"]),
            next((metric for metric, name in metrics if name == _READS), -1),
        )


class Task(NamedTuple):
    """What a task took, and what it read from shuffles."""

    millis: int
    rows: int
    bytes: int
    spilled: int
    """Bytes spilled from memory."""


class Failed(NamedTuple):
    """The failed runs of one partition."""

    runs: int
    longest: Task


@dataclass
class Stage:
    """A stage, over all its attempts: what ran again counts once."""

    id: int
    reads_shuffle: bool = False
    done: dict[int, Task] = field(default_factory=dict)
    """By partition, the run that succeeded last."""
    failed: dict[int, Failed] = field(default_factory=dict)
    """By partition."""
    running: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By task: its partition, and when it started."""
    accumulators: set[int] = field(default_factory=set)
    """The ids that its tasks updated."""
    slowest: int = -1
    """Milliseconds of its slowest task."""
    updates: dict[int, int] = field(default_factory=dict)
    """What that task added to each accumulator that counts."""
    slots: int = 1
    """The most tasks that the cluster could run at a time meanwhile."""
    failures: dict[str, int] = field(default_factory=dict)
    """How often tasks failed, by the reason's first line."""
    lost_millis: int = 0
    """What the tasks took that failed."""

    def never_done(self) -> dict[int, Failed]:
        """The partitions of which no run succeeded."""
        return {partition: failed for partition, failed in self.failed.items() if partition not in self.done}

    def tasks(self) -> list[Task]:
        """One task for each partition, in the order in which Spark starts them; of those never done the longest run."""
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
    """The last one: with adaptive execution, the one that ran."""
    conf: dict[str, str] = field(default_factory=dict)
    """What the session had set."""
    ended: int | None = None
    error: str = ""
    stages: dict[int, Stage] = field(default_factory=dict)
    hot_keys: dict[tuple[str, ...], list[str]] = field(default_factory=dict)
    """By grouping columns: the heaviest keys, with their rows, as Saltwise's own events tell them."""

    @property
    def seconds(self) -> float | None:
        """How long it took; None if the log ends before."""
        return None if self.ended is None else (self.ended - self.started) / 1000


def executions(lines: Iterable[bytes], with_keys: bool = False) -> Iterator[Execution]:
    """Yield the SQL executions of an event log, each one soon after its end.

    Events that it does not know, or whose values are of a wrong type, and lines that are no JSON, are passed over.
    Executions that never ended come last.

    Args:
        lines: without line ends.
        with_keys: whether to keep the hot keys that Saltwise's own events tell.

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
            continue  # of another Spark, or damaged
        while len(reader.ended) > _LATE:
            yield reader.settled(reader.ended.popleft())
        while len(reader.executions) > _OPEN:
            number = next(iter(reader.executions))
            with suppress(ValueError):
                reader.ended.remove(number)
            yield reader.settled(number)
    for number in [*reader.ended, *(each for each in reader.executions if each not in reader.ended)]:
        yield reader.settled(number)


class _Reader:
    def __init__(self, with_keys: bool) -> None:
        self.application = Application()
        self.executions: dict[int, Execution] = {}
        self.ended: deque[int] = deque()
        self.execution_of: dict[int, int] = {}
        """By stage."""
        self.cores: dict[str, int] = {}
        """By executor, of those that live."""
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
        """Return an execution, and forget it. Tasks of it that still run have run until now."""
        execution = self.executions.pop(number)
        for id, stage in execution.stages.items():
            del self.execution_of[id]
            for partition, since in stage.running.values():
                _add_failed(stage, partition, Task(max(0, self.now - since), 0, 0, 0))
        return execution

    def group_by(self, event: dict[str, Any]) -> None:
        hot = [
            f"{_text(key)} ({_whole(rows):,} rows)"
            for key, rows in zip(event["hotKeys"], event["hotRows"], strict=True)
        ]
        known = self.executions[event["executionId"]].hot_keys.setdefault(tuple(map(_text, event["keys"])), [])
        known += hot[: _HOT - len(known)]

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
            # A later job may name the stages of an earlier one, whose output it takes.
            if execution is not None and id not in self.execution_of:
                self.execution_of[id] = execution.id
                execution.stages[id] = Stage(id)

    def stage(self, id: int) -> Stage:
        return self.executions[self.execution_of[id]].stages[id]

    def stage_completed(self, event: dict[str, Any]) -> None:
        info = event["Stage Info"]
        self.stage(info["Stage ID"]).accumulators.update(_whole(each["ID"]) for each in info.get("Accumulables", ()))

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
            max(0, finished - _whole(info["Launch Time"])),
            _whole(read.get("Total Records Read", 0)),
            _whole(read.get("Remote Bytes Read", 0)) + _whole(read.get("Local Bytes Read", 0)),
            _whole(metrics.get("Memory Bytes Spilled", 0)),
        )
        stage.reads_shuffle |= task.rows > 0
        stage.slots = max(stage.slots, self.all_cores // self.cores_per_task)
        if reason["Reason"] == "Success":
            stage.done[_partition(info)] = task
        else:
            why = _first_line(reason)
            if any(text in why for text in _NO_FAILURE):
                return
            stage.failures[why] = stage.failures.get(why, 0) + 1
            stage.lost_millis += task.millis
            _add_failed(stage, _partition(info), task)
        updates = info.get("Accumulables") or ()
        if task.millis > stage.slowest and updates:
            stage.slowest = task.millis
            stage.accumulators.update(_whole(each["ID"]) for each in updates)
            stage.updates = {each["ID"]: int(each["Update"]) for each in updates if _is_whole(each.get("Update"))}

    def execution_start(self, event: dict[str, Any]) -> None:
        number = _whole(event["executionId"])
        if number in self.executions:
            return  # the log has the event twice
        self.executions[number] = Execution(
            number,
            self.application,
            _text(event.get("description") or ""),
            _whole(event["time"]),
            PlanNode.of(event["sparkPlanInfo"]),
            _conf(event.get("modifiedConfigs") or {}),
        )

    def plan_update(self, event: dict[str, Any]) -> None:
        self.executions[event["executionId"]].plan = PlanNode.of(event["sparkPlanInfo"])

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
        ValueError: it is no whole number, or below 0 or more than a long.
    """
    if not isinstance(value, int) or not 0 <= value <= MAX_LONG:
        raise ValueError("a value is no count")
    return int(value)


def _text(value: object) -> str:
    """Return a text of an event as it can be shown in a terminal.

    Raises:
        TypeError: it is no text.
    """
    if not isinstance(value, str):
        raise TypeError("a value is no text")
    return _CONTROLS.sub(" ", value[:MAX_TEXT])


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
