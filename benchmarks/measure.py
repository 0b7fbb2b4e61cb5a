"""What a query did, according to Spark's status stores: its tasks, its shuffled states, and the plan that ran."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from cells import makespans
from pyspark.sql import SparkSession

from saltwise.spark.reports.loads import measured_tasks


@dataclass(frozen=True)
class Run:
    """A run with the metrics of its tasks."""

    seconds: float
    did: str
    """As in :class:`cells.Cell`."""
    figures: dict[str, int]
    """The other figures of a cell, by name."""


def measured(spark: SparkSession, action: Callable[[], object]) -> Run:
    """Run a query that is one SQL execution, and return what it did."""
    seconds = 0.0

    def timed() -> None:
        nonlocal seconds
        started = time.perf_counter()
        action()
        seconds = time.perf_counter() - started

    stages = measured_tasks(spark, timed)
    tasks = [task for stage in stages for task in stage]
    nodes = executed_nodes(spark)
    figures = {
        "bytes_shuffled": sum(task["bytes_written"] for task in tasks),
        "records_shuffled": sum(task["records_written"] for task in tasks),
        "states_shuffled": states_shuffled(nodes),
        "largest_task_ms": max(task["milliseconds"] for task in tasks),
        "peak_memory": max(task["peak_memory"] for task in tasks),
    }
    return Run(seconds, did(nodes), figures | makespans([[task["milliseconds"] for task in stage] for stage in stages]))


@dataclass(frozen=True)
class Node:
    """An operator of a plan that ran."""

    name: str
    metrics: dict[str, str | None]
    """As the UI shows them; None if nothing was counted."""
    children: list[int]


def executed_nodes(spark: SparkSession) -> dict[int, Node]:
    """Return the operators of the last SQL execution, by number, as in the SQL tab of Spark's UI."""
    store = spark._jsparkSession.sharedState().statusStore()
    execution = store.executionsList(store.executionsCount() - 1, 1).head().executionId()
    graph, values = store.planGraph(execution), store.executionMetrics(execution)
    children: dict[int, list[int]] = {}
    for edge in each(graph.edges()):
        children.setdefault(edge.toId(), []).append(edge.fromId())
    return {
        node.id(): Node(
            node.name(),
            {metric.name(): value(values.get(metric.accumulatorId())) for metric in each(node.metrics())},
            children.get(node.id(), []),
        )
        for node in each(graph.allNodes())
    }


def value(option: Any) -> Any:
    return option.get() if option.isDefined() else None


def each(seq: Any) -> Iterator[Any]:
    iterator = seq.iterator()
    while iterator.hasNext():
        yield iterator.next()


def states_shuffled(nodes: dict[int, Node]) -> int:
    """Count states: the records of exchanges over an aggregate. Combine also sends rows, but counts its states."""

    def states_of(node: Node) -> int:
        below = [nodes[child] for child in node.children]
        while below:
            operator = below.pop()
            if operator.name.endswith("Aggregate"):
                return number(node, "shuffle records written")
            if operator.name == "Combine":
                return number(operator, "states sent")
            if operator.name != "Exchange":
                below += [nodes[child] for child in operator.children]
        return 0

    return sum(states_of(node) for node in nodes.values() if node.name == "Exchange")


def number(node: Node, metric: str) -> int:
    return int((node.metrics[metric] or "0").replace(",", ""))


WAYS = {
    "all": "rows taken as all",
    "head": "rows taken as head",
    "raw": "rows taken as raw",
}


def did(nodes: dict[int, Node]) -> str:
    """Return what ran: `all`, `head` or `raw` as most rows of Combine went, and `sliced`; or `online`, or `stock`."""
    names = {node.name for node in nodes.values()}
    rows = {
        way: sum(number(node, metric) for node in nodes.values() if node.name == "Combine")
        for way, metric in WAYS.items()
    }
    combined = [max(rows, key=lambda way: rows[way])] if "Combine" in names else []
    sliced = ["sliced"] if "SlicedPartitions" in names else []
    return " ".join(combined + sliced) or ("online" if "SkewRoute" in names else "stock")
