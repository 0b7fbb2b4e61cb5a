"""Which stages of an application were uneven because of their keys, what that cost, and the one change that helps."""

from __future__ import annotations

import re
from collections import ChainMap, Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from .advice import advice, advisory_bytes
from .application import Execution, PlanNode, Stage, Task
from .fragments import Fragment, Kind, Read, fragments, keys_of, kind_of, needs_shuffle, partitions_of
from .schedule import Range, gain, makespan

MIN_SECONDS = 1.0
"""Less than that is not worth a change."""
MIN_SECONDS_OF_ONE = 0.05
"""Less than that is noise, however often it happens."""
UNEVEN = 2.0
"""The slowest task takes so many times the mean of the others, if a stage is uneven."""
SKEWED = 1.5
"""It has read so many times the mean of the others in rows or bytes, if its keys are the cause."""
OUT_OF_MEMORY = (
    "OutOfMemory",
    "code 137",
    "Exit status: 137",
    "code 52",
    "Container killed",
    "Cannot grow BufferHolder",
    "Python worker exited unexpectedly",
)
KEPT_TASKS = 1000
"""Tasks of a stage that are kept, the slowest ones."""
_BATCH = re.compile(r"\bbatch = \d+")


@dataclass(frozen=True)
class Finding:
    """A stage whose keys were skewed, or the same one in many executions of a query."""

    application: str
    execution: int
    description: str
    stage: int
    kind: Kind
    operator: str
    keys: list[str]
    tasks: int
    """How many tasks the stage had."""
    seconds: list[float]
    """Of each task, the slowest first, at most a thousand."""
    task_rows: list[int]
    """What these read, in the same order."""
    task_bytes: list[int]
    slowest: float
    """Seconds of the slowest task."""
    median: float
    """Seconds of the median task."""
    unfinished: bool
    """Whether some task never ended well, so that it took longer than what the log tells."""
    took: float
    """Seconds of the stage on the log's cores, by list scheduling."""
    gain: Range
    """Seconds that it would take less if tasks were even, in all executions together."""
    times: int
    """In how many executions it was found. The other figures are of the one with the most to gain."""
    rows: float
    """Rows of the slowest task by the mean of the others."""
    bytes: float
    """Bytes of the slowest task by the mean of the others."""
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
    def out_of_memory(self) -> int:
        """How many of its tasks failed for want of memory."""
        return sum(count for why, count in self.failures.items() if _is_out_of_memory(why))


def findings(executions: Iterable[Execution]) -> list[Finding]:
    """Return what was skewed: queries that failed first, then the largest gain.

    Micro-batches of a stream, and executions of one description, are one finding if operator, keys and advice agree.
    """
    found: dict[tuple[Any, ...], Finding] = {}
    for execution in executions:
        for each in _of_execution(execution):
            query = _BATCH.sub("", each.description)
            same = (each.application, query, each.kind, each.operator, tuple(each.keys), each.advice)
            found[same] = _together(found[same], each) if same in found else each
    worth = [each for each in found.values() if each.gain.most >= MIN_SECONDS]
    return sorted(worth, key=lambda each: (not each.failed, -each.gain.most))


def _together(one: Finding, other: Finding) -> Finding:
    """Return one finding for both; its figures are those of the one that gains more."""
    more = max(one, other, key=lambda each: (each.failed, each.gain.most / each.times))
    both = Range(one.gain.least + other.gain.least, one.gain.most + other.gain.most)
    return replace(more, gain=both, times=one.times + other.times)


def _of_execution(execution: Execution) -> Iterator[Finding]:
    plan: _Plan | None = None
    for stage in execution.stages.values():
        tasks = stage.tasks()
        if not stage.reads_shuffle or not tasks or max(task.millis for task in tasks) < 1000 * MIN_SECONDS_OF_ONE:
            continue
        plan = plan or _Plan(execution.plan)
        found = _of_stage(execution, stage, tasks, plan)
        if found is not None:
            yield found


class _Plan:
    """The fragments of a plan, by what its stages tell. Each is looked at once, however many stages there are."""

    def __init__(self, plan: PlanNode) -> None:
        self.plan = plan
        self.parts = fragments(plan)
        self._part_of = {metric: i for i, part in reversed([*enumerate(self.parts)]) for metric in part.accumulators}
        """By accumulator."""
        self._keys: dict[int, list[str]] = {}

    def place(self, stage: Stage) -> tuple[Fragment, Read] | None:
        """Return what the stage runs, and the shuffle from which its slowest task took most of its rows."""
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


def _of_stage(execution: Execution, stage: Stage, tasks: list[Task], plan: _Plan) -> Finding | None:
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
        possible = Range(possible.least, possible.most + stage.lost_millis / 1000)
    if possible.most < MIN_SECONDS_OF_ONE:
        return None
    keys = plan.keys(node)
    slowest = _slowest(tasks)
    by_time = sorted(tasks, key=lambda task: -task.millis)
    shown = by_time[:KEPT_TASKS]
    return Finding(
        execution.application.id,
        execution.id,
        execution.description,
        stage.id,
        kind_of(node) if node is not read.exchange else Kind.REPARTITION,
        node.name,
        keys,
        len(tasks),
        [task.millis / 1000 for task in shown],
        [task.rows for task in shown],
        [task.bytes for task in shown],
        by_time[0].millis / 1000,
        median(millis) / 1000,
        bool(stage.never_done()),
        makespan(millis, stage.slots),
        possible,
        1,
        _by_others([task.rows for task in tasks], slowest),
        _by_others([task.bytes for task in tasks], slowest),
        sum(task.spilled for task in tasks),
        stage.failures,
        bool(execution.error),
        execution.hot_keys.get(tuple(keys), []),
        advice(node, keys, fragment, read, conf, [task.bytes for task in tasks]),
    )


def _is_skewed(stage: Stage, tasks: list[Task], read: Read, advisory: int) -> bool:
    """Say whether one task takes longer than the others since it has more rows than they do."""
    slowest = _slowest(tasks)
    task = tasks[slowest]
    if len(tasks) == 1:
        # Adaptive execution has joined all partitions of a shuffle, and what they hold is more than it would join.
        return partitions_of(read.exchange) > 1 and task.bytes > advisory
    if len(stage.done) * 2 < len(tasks):
        return False  # what the others would have taken is not known
    if any(map(_is_out_of_memory, stage.failures)) and _failed_by_size(stage):
        return True
    if _by_others([each.millis for each in tasks], slowest) < UNEVEN:
        return False
    unknown = not task.rows and not task.bytes  # it never ended, and told nothing
    fuller = max(
        _by_others([each.rows for each in tasks], slowest), _by_others([each.bytes for each in tasks], slowest)
    )
    return unknown or fuller >= SKEWED


def _failed_by_size(stage: Stage) -> bool:
    """Say whether a task failed that had more rows than the others. One that told nothing must have failed again."""
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
