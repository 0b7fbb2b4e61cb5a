"""The adaptation framework: in each period, nodes are added or marked for removal, and key groups are allocated.

Madsen, Zhou, Cao, "Integrative Dynamic Reconfiguration in a Parallel Stream Processing Engine", section 4.1,
Algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..arrays import Int64s
from ..errors import SaltwiseValueError
from .cluster import Cluster, Resource

Allocation = Callable[[Cluster], Int64s]
"""keyGroupAlloc(): an algorithm that gives each key group a node, such as the MILP with its limits."""


class Period(NamedTuple):
    """What one adaptation period did."""

    cluster: Cluster
    """The new allocation, on the nodes that exist after the period."""
    terminated: Int64s
    """The nodes that are gone, by their old numbers. The others are numbered anew, in the same order."""
    added: int
    """How many nodes are new. Their numbers are the highest."""
    marked: Int64s
    """The nodes that are to be removed, by their new numbers."""


def adapt(cluster: Cluster, allocate: Allocation, min_load: float, max_load: float) -> Period:
    """Run Algorithm 1 once.

    Nodes that are marked and empty are terminated. An allocation is planned. If its load per node is out of [min_load,
    max_load], the cluster is scaled so that the load per node is in the middle. To scale out, marks are taken back
    before nodes of capacity 1 are added. To scale in, the least loaded nodes are marked. Then the allocation is planned
    again, and applied.

    Args:
        cluster: the key groups and where they are.
        allocate: plans an allocation.
        min_load: with a lower mean load of a node there are too many nodes.
        max_load: with a higher mean load of a node there are too few nodes.

    Raises:
        SaltwiseValueError: the bounds are not a range.

    >>> from saltwise.rebalancing.milp import milp
    >>> cluster = Cluster(load=[30, 30, 30, 30], node=[0, 0, 1, 1], nodes=2)
    >>> period = adapt(cluster, lambda now: milp(now, max_migrations=2).node, min_load=30, max_load=50)
    >>> period.added, sorted(period.cluster.loads().tolist())
    (1, [30.0, 30.0, 60.0])
    """
    if not 0 <= min_load < max_load < float("inf"):
        raise SaltwiseValueError(
            f"min_load and max_load are {min_load!r} and {max_load!r}; they must be 0 <= min_load < max_load."
        )
    empty = np.bincount(cluster.node, minlength=cluster.nodes) == 0
    terminated = cluster.kill[empty[cluster.kill]]
    cluster = _without(cluster, terminated)
    plan = allocate(cluster)
    scaled = _scale(replace(cluster, node=plan), min_load, max_load)
    added = scaled.nodes - cluster.nodes
    if added or len(scaled.kill) != len(cluster.kill):
        cluster = replace(scaled, node=cluster.node)
        plan = allocate(cluster)
    return Period(replace(cluster, node=plan), terminated, added, cluster.kill)


def _scale(plan: Cluster, min_load: float, max_load: float) -> Cluster:
    """Return the cluster with as many nodes as the load needs. Nodes to remove are marked."""
    mean, staying = plan.mean, int(plan.staying.sum())
    if min_load <= mean <= max_load:
        return plan
    needed = max(1, math.ceil(mean * staying / ((min_load + max_load) / 2)))
    if needed > staying:
        unmarked = min(needed - staying, len(plan.kill))
        return _with(replace(plan, kill=plan.kill[unmarked:]), needed - staying - unmarked)
    loads = np.where(plan.staying, plan.loads(), np.inf)
    return replace(plan, kill=np.append(plan.kill, np.argsort(loads, kind="stable")[: staying - needed]))


def _without(cluster: Cluster, terminated: Int64s) -> Cluster:
    """Return the cluster without these empty nodes. The others are numbered anew, in the same order."""
    keep = np.setdiff1d(np.arange(cluster.nodes), terminated)
    return replace(
        cluster,
        nodes=len(keep),
        node=np.searchsorted(keep, cluster.node),
        kill=np.searchsorted(keep, np.setdiff1d(cluster.kill, terminated)),
        capacity=cluster.capacity[keep],
        resources=tuple(Resource(usage, limit[keep]) for usage, limit in cluster.resources),
    )


def _with(cluster: Cluster, more: int) -> Cluster:
    """Return the cluster with more nodes. Each has as much of each resource as the best of the others."""
    return replace(
        cluster,
        nodes=cluster.nodes + more,
        capacity=np.append(cluster.capacity, np.ones(more)),
        resources=tuple(Resource(u, np.append(limit, np.full(more, limit.max()))) for u, limit in cluster.resources),
    )
