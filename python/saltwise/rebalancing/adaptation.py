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

from ..errors import SaltwiseValueError
from .cluster import Cluster, Ints, Resource

Allocation = Callable[[Cluster], Ints]
"""keyGroupAlloc(): an algorithm that gives each key group a node, such as the MILP with its limits."""


class Period(NamedTuple):
    """What one adaptation period did."""

    cluster: Cluster
    """After it: the new allocation on the nodes that there are now."""
    terminated: Ints
    """Which of the nodes before it are gone; the others moved up in number."""
    added: int
    """New nodes, which have the highest numbers."""
    marked: Ints
    """By the new numbers, the nodes that are to be removed."""


def adapt(cluster: Cluster, allocate: Allocation, least: float, most: float) -> Period:
    """Run Algorithm 1 once.

    Nodes that are marked and empty are terminated. An allocation is planned, and the scaling decision looks at what it
    gives: it scales where the load per node is out of [least, most], so that nodes get half-way between. To scale out
    it takes marks back before it adds nodes of capacity 1; to scale in it marks the least loaded nodes. After it, the
    allocation is planned anew, and applied.

    Args:
        cluster: the key groups and where they are.
        allocate: plans an allocation.
        least: the mean load of a node below which there are too many.
        most: the mean load of a node above which there are too few.

    Raises:
        SaltwiseValueError: the bounds are no range.

    >>> from saltwise.rebalancing.milp import milp
    >>> cluster = Cluster(load=[30, 30, 30, 30], node=[0, 0, 1, 1], nodes=2)
    >>> period = adapt(cluster, lambda now: milp(now, max_migrations=2).node, least=30, most=50)
    >>> period.added, sorted(period.cluster.loads().tolist())
    (1, [30.0, 30.0, 60.0])
    """
    if not 0 <= least < most < float("inf"):
        raise SaltwiseValueError(f"least and most are {least!r} and {most!r}; they must be 0 <= least < most.")
    empty = np.bincount(cluster.node, minlength=cluster.nodes) == 0
    terminated = cluster.kill[empty[cluster.kill]]
    cluster = _without(cluster, terminated)
    plan = allocate(cluster)
    scaled = _scale(replace(cluster, node=plan), least, most)
    added = scaled.nodes - cluster.nodes
    if added or len(scaled.kill) != len(cluster.kill):
        cluster = replace(scaled, node=cluster.node)
        plan = allocate(cluster)
    return Period(replace(cluster, node=plan), terminated, added, cluster.kill)


def _scale(plan: Cluster, least: float, most: float) -> Cluster:
    """Return the cluster with as many nodes as the load needs."""
    mean, staying = plan.mean, int(plan.staying.sum())
    if least <= mean <= most:
        return plan
    needed = max(1, math.ceil(mean * staying / ((least + most) / 2)))
    if needed > staying:
        back = min(needed - staying, len(plan.kill))
        return _with(replace(plan, kill=plan.kill[back:]), needed - staying - back)
    loads = np.where(plan.staying, plan.loads(), np.inf)
    return replace(plan, kill=np.append(plan.kill, np.argsort(loads, kind="stable")[: staying - needed]))


def _without(cluster: Cluster, gone: Ints) -> Cluster:
    """Return the cluster without these nodes, which are empty; the others move up in number."""
    keep = np.setdiff1d(np.arange(cluster.nodes), gone)
    return replace(
        cluster,
        nodes=len(keep),
        node=np.searchsorted(keep, cluster.node),
        kill=np.searchsorted(keep, np.setdiff1d(cluster.kill, gone)),
        capacity=cluster.capacity[keep],
        resources=tuple(Resource(usage, limit[keep]) for usage, limit in cluster.resources),
    )


def _with(cluster: Cluster, more: int) -> Cluster:
    """Return the cluster with more nodes, which have as much of each resource as the best of the others."""
    return replace(
        cluster,
        nodes=cluster.nodes + more,
        capacity=np.append(cluster.capacity, np.ones(more)),
        resources=tuple(Resource(u, np.append(limit, np.full(more, limit.max()))) for u, limit in cluster.resources),
    )
