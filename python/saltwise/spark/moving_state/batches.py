"""The loads of the state partitions of a stream in each batch, as the plugin's `StateStreams` reports them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ...rebalancing.cluster import Cluster
from ...rebalancing.rounds import Window
from ...rebalancing.traffic import Traffic
from .report import BatchLoads

LOADS = ("time", "rows")
"""What the load of a state partition may be."""


@dataclass(frozen=True)
class Executor:
    """An executor of the application."""

    id: str
    cores: int
    leaving: bool
    """Whether it is being decommissioned, or gone."""


@dataclass(frozen=True)
class StageLoads:
    """The state partitions of a stage of a batch. Its operators share tasks, so their partitions move together."""

    operators: list[int]
    executor: list[str | None]
    """Where each partition ran; None if it had no task."""
    millis: list[int]
    """How long each partition's task ran."""
    rows: list[int]
    remote: list[int]
    """Bytes that each partition read from other executors."""
    keys: list[int]
    bytes: list[int]
    """The size of each partition's states: in memory or in files, whichever is more."""


@dataclass(frozen=True)
class StateBatch:
    """A batch of a stream whose tasks have ended."""

    run: str
    batch: int
    ended: int
    """Milliseconds since 1970."""
    executors: list[Executor]
    stages: list[StageLoads]
    traffic: list[dict[str, Any]]
    """For pairs of stages, the bytes that each partition of one sent to each of the other."""
    pinned: list[int]
    """The partitions that may not move, unless their executor leaves."""

    def loads(self) -> BatchLoads:
        """Return how busy each executor was."""
        seconds = dict.fromkeys((executor.id for executor in self.executors), 0.0)
        for stage in self.stages:
            for name, millis in zip(stage.executor, stage.millis, strict=True):
                if name is not None:
                    seconds[name] = seconds.get(name, 0.0) + millis / 1000
        return BatchLoads(self.batch, seconds)

    @classmethod
    def parse(cls, text: str) -> StateBatch:
        """Return the batch in a text, which is JSON."""
        content = json.loads(text)
        return cls(
            run=content["run"],
            batch=content["batch"],
            ended=content["ended"],
            executors=[Executor(**executor) for executor in content["executors"]],
            stages=[StageLoads(**stage) for stage in content["stages"]],
            traffic=content.get("traffic", []),
            pinned=content["pinned"],
        )


def window_of(batches: Sequence[StateBatch], stages: Sequence[int], load: str) -> tuple[Window, list[str]]:
    """Return the loads of some stages over batches of the same query, and the executors by number.

    An executor that had a partition in the last batch, and is gone now, is a node that leaves.

    Args:
        batches: at least one, the latest last.
        stages: the numbers of stages. Their partitions are the key groups, one stage after the other.
        load: one of :data:`LOADS`. Rows are scaled to seconds, so that all rows together take as long as their tasks.
    """
    last = batches[-1]
    by_name = {executor.id: executor for executor in last.executors}
    for stage in stages:
        for name in last.stages[stage].executor:
            if name is not None and name not in by_name:
                by_name[name] = Executor(name, 1, leaving=True)
    executors = list(by_name.values())
    number = {executor.id: i for i, executor in enumerate(executors)}
    seconds = np.array([_joined(batch, stages, "millis") for batch in batches]) / 1000
    series = seconds
    if load == "rows":
        rows = np.array([_joined(batch, stages, "rows") for batch in batches], dtype=float)
        series = rows * (seconds.sum() / max(1.0, rows.sum()))
    cores = np.array([executor.cores for executor in executors])
    cluster = Cluster(
        load=series.mean(axis=0),
        node=[number.get(name, 0) for name in _joined(last, stages, "executor")],
        nodes=len(executors),
        cost=_joined(last, stages, "bytes"),
        kill=[i for i, executor in enumerate(executors) if executor.leaving],
        capacity=1 / cores,
    )
    partitions = np.array([i for stage in stages for i in range(len(last.stages[stage].rows))])
    pinned = np.flatnonzero(np.isin(partitions, last.pinned) & cluster.staying[cluster.node])
    window = Window(cluster, series, _traffic(last, stages), pinned.tolist())
    return window, [executor.id for executor in executors]


def _joined(batch: StateBatch, stages: Sequence[int], name: str) -> list[Any]:
    return [value for stage in stages for value in getattr(batch.stages[stage], name)]


def _traffic(batch: StateBatch, stages: Sequence[int]) -> Traffic | None:
    if not batch.traffic:
        return None
    sizes = [len(batch.stages[stage].rows) for stage in stages]
    blocks: list[list[Any]] = [[sparse.csr_array((a, b)) for b in sizes] for a in sizes]
    for part in batch.traffic:
        sent = np.array(part["bytes"], dtype=float)
        one, other = stages.index(part["from"]), stages.index(part["to"])
        # If a map task reads several partitions, then partition i of one stage is not map task i of the next.
        if sent.shape == (sizes[one], sizes[other]):
            blocks[one][other] = sparse.csr_array(sent)
    return Traffic(sparse.block_array(blocks, format="csr"), np.repeat(np.arange(len(stages)), sizes))
