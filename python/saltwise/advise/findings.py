"""Which stages of an application were uneven because of their keys, what that cost, and the one change that helps."""

from __future__ import annotations

import re
import shlex
from collections import ChainMap, Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import median
from typing import Any

from .advice import Reach, advice, advisory_bytes
from .application import Execution, PlanNode, Stage, Task
from .fragments import (
    Fragment,
    Kind,
    Read,
    file_below,
    fragments,
    functions_of,
    keys_of,
    kind_of,
    needs_one_task,
    needs_shuffle,
    partitions_of,
)
from .schedule import Range, gain, makespan

MIN_SECONDS = 1.0
"""A smaller gain is not worth a change."""
MIN_SECONDS_OF_ONE = 0.05
"""A smaller gain of one execution is noise, even if it happens often."""
UNEVEN = 2.0
"""A stage is uneven if its slowest task takes this many times the mean of the others."""
SKEWED = 1.5
"""The keys are the cause if the slowest task read this many times the mean of the others in rows or bytes."""
OUT_OF_MEMORY = (
    "OutOfMemory",
    "code 137",
    "Exit status: 137",
    "code 52",
    "Container killed",
    "Cannot grow BufferHolder",
    "Python worker exited unexpectedly",
)
MAX_TASKS = 1000
"""The most tasks of a stage that a finding lists. These are the slowest ones."""
_GATEWAY = "NativeMethodAccessorImpl"
_BATCH = re.compile(r"\bbatch = \d+")


@dataclass(frozen=True)
class TaskFigures:
    """What the tasks of a stage took and read."""

    tasks: int
    """How many tasks the stage had."""
    seconds: list[float]
    """Seconds of each task, the slowest first, at most :data:`MAX_TASKS` of them."""
    task_rows: list[int]
    """Rows that these tasks read, in the same order."""
    task_bytes: list[int]
    """Bytes that these tasks read, in the same order."""
    slowest: float
    """Seconds of the slowest task."""
    median: float
    """Seconds of the median task."""
    unfinished: bool
    """Whether some task never finished, so that it took longer than the log says."""
    rows: float
    """Rows of the slowest task, as a multiple of the mean of the others."""
    bytes: float
    """Bytes of the slowest task, as a multiple of the mean of the others."""
    spilled: int
    """Bytes that the tasks spilled."""
    failures: dict[str, int]
    """Failed tasks by reason, of all attempts of the stage."""

    @classmethod
    def of_stage(cls, stage: Stage, tasks: Sequence[Task]) -> TaskFigures:
        """Return the figures of a stage with these tasks."""
        slowest = _slowest(tasks)
        by_time = sorted(tasks, key=lambda task: -task.millis)
        listed = by_time[:MAX_TASKS]
        return cls(
            tasks=len(tasks),
            seconds=[task.millis / 1000 for task in listed],
            task_rows=[task.rows for task in listed],
            task_bytes=[task.bytes for task in listed],
            slowest=by_time[0].millis / 1000,
            median=median(task.millis for task in tasks) / 1000,
            unfinished=bool(stage.never_done()),
            rows=_by_others([task.rows for task in tasks], slowest),
            bytes=_by_others([task.bytes for task in tasks], slowest),
            spilled=sum(task.spilled for task in tasks),
            failures=stage.failures,
        )

    @property
    def out_of_memory(self) -> int:
        """How many tasks ran out of memory."""
        return sum(count for why, count in self.failures.items() if _is_out_of_memory(why))


@dataclass(frozen=True)
class Finding:
    """A stage whose keys were skewed, or the same stage in many executions of a query."""

    application: str
    execution: int
    description: str
    stage: int
    kind: Kind
    operator: str
    keys: list[str]
    figures: TaskFigures
    took: float
    """Seconds of the stage on the log's cores, by list scheduling, in all executions together."""
    lost: float
    """Seconds that even tasks would save at most, in all executions together."""
    most_lost: float
    """Seconds of these in the execution that the other figures are of."""
    gain: Range
    """Seconds of these that the advice saves. The low end is 0 if the slowest task may have one key alone, which the
    advice leaves whole."""
    advice: str
    command: str
    """What to run next, to see the keys; empty if the keys are not columns."""
    failed: bool = False
    """Whether the query ended with an error."""
    hot_keys: list[str] = field(default_factory=list)
    """The heaviest keys, where the plugin wrote them to this log."""
    times: int = 1
    """In how many executions it was found. The other figures are those of the execution that lost most."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, with the figures of the tasks beside the others."""
        values = asdict(self)
        figures: dict[str, Any] = values.pop("figures")
        return values | figures | {"kind": self.kind.value}


def findings(executions: Iterable[Execution]) -> list[Finding]:
    """Return what was skewed: queries that failed first, then the largest gain, then what nothing helps.

    Micro-batches of a stream, and executions of one description, are one finding if operator, keys and advice agree.
    """
    found: dict[tuple[Any, ...], Finding] = {}
    for execution in executions:
        for finding in _findings_of_execution(execution):
            query = _BATCH.sub("", finding.description)
            same = (finding.application, query, finding.kind, finding.operator, tuple(finding.keys), finding.advice)
            found[same] = _merged(found[same], finding) if same in found else finding
    return by_gain(finding for finding in found.values() if finding.lost >= MIN_SECONDS)


def by_gain(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings in the order in which they are shown."""
    return sorted(findings, key=lambda finding: (not finding.failed, -finding.gain.high, -finding.lost))


def _merged(one: Finding, other: Finding) -> Finding:
    """Return one finding for both. Its figures are of one that failed, or else of the one that lost most."""
    larger = max(one, other, key=lambda finding: (finding.failed, finding.most_lost))
    return replace(
        larger,
        took=one.took + other.took,
        lost=one.lost + other.lost,
        gain=Range(one.gain.low + other.gain.low, one.gain.high + other.gain.high),
        times=one.times + other.times,
    )


def _findings_of_execution(execution: Execution) -> Iterator[Finding]:
    plan: _Plan | None = None
    for stage in execution.stages.values():
        tasks = stage.tasks()
        if not stage.reads_shuffle or not tasks or max(task.millis for task in tasks) < 1000 * MIN_SECONDS_OF_ONE:
            continue
        plan = plan or _Plan(execution.plan)
        finding = _finding_of_stage(execution, stage, tasks, plan)
        if finding is not None:
            yield finding


class _Plan:
    """The fragments of a plan, found by the accumulators of its stages. Each is parsed once for all stages."""

    def __init__(self, plan: PlanNode) -> None:
        self.plan = plan
        self.parts = fragments(plan)
        self._part_of = {metric: i for i, part in reversed([*enumerate(self.parts)]) for metric in part.accumulators}
        """The number of a fragment, by accumulator."""
        self._keys: dict[int, list[str]] = {}

    def place(self, stage: Stage) -> tuple[Fragment, Read] | None:
        """Return the fragment that the stage runs, and the shuffle that gave its slowest task most of its rows."""
        shared = Counter(self._part_of[metric] for metric in stage.accumulators if metric in self._part_of)
        part = self.parts[max(shared, key=lambda i: (shared[i], -i))] if shared else None
        if part is None or not part.reads:
            return None
        return part, max(part.reads, key=lambda read: stage.updates.get(read.exchange.reads, 0))

    def keys(self, node: PlanNode) -> list[str]:
        """Return the grouping columns of one of its operators."""
        if id(node) not in self._keys:
            self._keys[id(node)] = keys_of(node, self.plan)
        return self._keys[id(node)]


def _finding_of_stage(execution: Execution, stage: Stage, tasks: list[Task], plan: _Plan) -> Finding | None:
    place = plan.place(stage)
    if place is None:
        return None
    fragment, read = place
    node = needs_shuffle(read)
    conf: Mapping[str, str] = ChainMap(execution.conf, execution.application.conf)
    if node is None or not _is_skewed(stage, tasks, read, advisory_bytes(conf)):
        return None
    millis = [task.millis for task in tasks]
    possible = gain(millis, stage.slots)
    if any(map(_is_out_of_memory, stage.failures)):
        possible = Range(possible.low, possible.high + stage.lost_millis / 1000)
    if possible.high < MIN_SECONDS_OF_ONE:
        return None
    keys = plan.keys(node)
    sizes = [task.bytes for task in tasks]
    change = advice(node, keys, fragment=fragment, read=read, conf=conf, sizes=sizes)
    return Finding(
        application=execution.application.id,
        execution=execution.id,
        description=_description(execution, node, read),
        stage=stage.id,
        kind=kind_of(node) if node is not read.exchange else Kind.REPARTITION,
        operator=node.name,
        keys=keys,
        figures=TaskFigures.of_stage(stage, tasks),
        took=makespan(millis, stage.slots),
        lost=possible.high,
        most_lost=possible.high,
        gain=_within(change.reach, possible),
        advice=change.text,
        command=_command(read, keys),
        failed=bool(execution.error),
        hot_keys=execution.hot_keys.get(tuple(keys), []),
    )


def _description(execution: Execution, node: PlanNode, read: Read) -> str:
    """Return what the log says of a query, or its functions and its file, where Python called and the log says nothing.

    Spark then names the class through which Python calls it, the same for each query.
    """
    if _GATEWAY not in execution.description:
        return execution.description
    functions = ", ".join(dict.fromkeys(functions_of(node)))
    return " of ".join(part for part in (functions, file_below(read.exchange)) if part)


def _within(reach: Reach, possible: Range) -> Range:
    """Return the part of a gain that is within the reach of a change."""
    if reach is Reach.SPLITS:
        return possible
    return Range(0.0, possible.high if reach is Reach.MOVES else 0.0)


def _command(read: Read, keys: list[str]) -> str:
    if not keys or not all(key.isidentifier() for key in keys):
        return ""
    path = shlex.quote(file_below(read.exchange) or "...")
    return " ".join(["saltwise report", path, *(f"--key {key}" for key in keys)])


def _is_skewed(stage: Stage, tasks: list[Task], read: Read, advisory: int) -> bool:
    """Say whether one task takes longer than the others because it has more rows."""
    slowest = _slowest(tasks)
    task = tasks[slowest]
    if len(tasks) == 1:
        if needs_one_task(read):
            return True
        # Adaptive execution joins small partitions. This task has more bytes than joined partitions can have.
        return partitions_of(read.exchange) > 1 and task.bytes > advisory
    if len(stage.done) * 2 < len(tasks):
        return False  # nobody knows how long the others would have taken
    if any(map(_is_out_of_memory, stage.failures)) and _failed_by_size(stage):
        return True
    if _by_others([each.millis for each in tasks], slowest) < UNEVEN:
        return False
    unknown = not task.rows and not task.bytes  # it never finished, so the log has no counts of it
    fuller = max(
        _by_others([each.rows for each in tasks], slowest), _by_others([each.bytes for each in tasks], slowest)
    )
    return unknown or fuller >= SKEWED


def _failed_by_size(stage: Stage) -> bool:
    """Say whether a task with more rows than the others failed. A task without counts must have failed twice."""
    mean = sum(task.rows for task in stage.done.values()) / len(stage.done) if stage.done else 0.0
    return any(
        failed.longest.rows >= SKEWED * mean if failed.longest.rows else failed.runs > 1
        for failed in stage.failed.values()
    )


def _slowest(tasks: Sequence[Task]) -> int:
    return max(range(len(tasks)), key=lambda i: tasks[i].millis)


def _by_others(values: Sequence[int], i: int) -> float:
    """Return a value as a multiple of the mean of the others; 1 where there is nothing to compare."""
    others = sum(values) - values[i]
    return values[i] * (len(values) - 1) / others if others else (float(len(values)) if values[i] else 1.0)


def _is_out_of_memory(why: str) -> bool:
    return any(text in why for text in OUT_OF_MEMORY)
