"""What the state partitions of a stream took in each batch, as the plugin's `StateStreams` tells it."""

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
    """What each partition's states take: in memory or in files, whichever is more."""


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
    """The partitions that stay on an executor that stays."""

    def loads(self) -> BatchLoads:
        """Return how busy each executor was."""
        seconds = dict.fromkeys((each.id for each in self.executors), 0.0)
        for stage in self.stages:
            for executor, millis in zip(stage.executor, stage.millis, strict=True):
                if executor is not None:
                    seconds[executor] = seconds.get(executor, 0.0) + millis / 1000
        return BatchLoads(self.batch, seconds)

    @classmethod
    def parse(cls, text: str) -> StateBatch:
        given = json.loads(text)
        return cls(
            given["run"],
            given["batch"],
            given["ended"],
            [Executor(**each) for each in given["executors"]],
            [StageLoads(**each) for each in given["stages"]],
            given.get("traffic", []),
            given["pinned"],
        )


def window_of(batches: Sequence[StateBatch], stages: Sequence[int], load: str) -> tuple[Window, list[str]]:
    """Return the loads of some stages over batches of the same query, and the executors by number.

    An executor that had a partition in the last batch and is gone since is a node that leaves.

    Args:
        batches: at least one, the latest last.
        stages: the numbers of stages. Their partitions are the key groups, one stage after the other.
        load: one of :data:`LOADS`. Rows are scaled so that all take the time that their tasks took.
    """
    last = batches[-1]
    there = {each.id: each for each in last.executors}
    for stage in stages:
        for executor in last.stages[stage].executor:
            if executor is not None and executor not in there:
                there[executor] = Executor(executor, 1, leaving=True)
    executors = list(there.values())
    number = {each.id: i for i, each in enumerate(executors)}
    seconds = np.array([_joined(batch, stages, "millis") for batch in batches]) / 1000
    series = seconds
    if load == "rows":
        rows = np.array([_joined(batch, stages, "rows") for batch in batches], dtype=float)
        series = rows * (seconds.sum() / max(1.0, rows.sum()))
    cores = np.array([each.cores for each in executors])
    cluster = Cluster(
        load=series.mean(axis=0),
        node=[number.get(executor, 0) for executor in _joined(last, stages, "executor")],
        nodes=len(executors),
        cost=_joined(last, stages, "bytes"),
        kill=[i for i, each in enumerate(executors) if each.leaving],
        capacity=1 / cores,
    )
    partitions = np.array([i for stage in stages for i in range(len(last.stages[stage].rows))])
    pinned = np.flatnonzero(np.isin(partitions, last.pinned) & cluster.staying[cluster.node])
    return Window(cluster, series, _traffic(last, stages), pinned.tolist()), [each.id for each in executors]


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
        # A map task may read several partitions; then partition i of one stage is not map task i of the next.
        if sent.shape == (sizes[one], sizes[other]):
            blocks[one][other] = sparse.csr_array(sent)
    return Traffic(sparse.block_array(blocks, format="csr"), np.repeat(np.arange(len(stages)), sizes))
