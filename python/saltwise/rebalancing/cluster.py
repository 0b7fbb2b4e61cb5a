"""Key groups on nodes: what a rebalancer knows after a statistics period, and how even an allocation is.

Madsen, Zhou, Cao, "Integrative Dynamic Reconfiguration in a Parallel Stream Processing Engine", section 3 and 4.3.1,
"Metric"; its symbols stand beside the names here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Bools, Floats, Int64s, checked_numbers
from ..errors import SaltwiseValueError, check_whole


class Resource(NamedTuple):
    """A resource that is not the bottleneck, such as memory."""

    usage: Floats
    """By key group, shape (|G|,)."""
    limit: Floats
    """By node, shape (|N|,)."""


@dataclass(frozen=True, eq=False)
class Cluster:
    """Key groups, their loads, and the nodes on which they are.

    Attributes:
        load: gLoad_k of each key group in a statistics period, at least 0: rows, or percent of a node.
        node: q: the node of each key group, 0 ... |N| - 1.
        nodes: |N|.
        cost: mc_k: the cost of migrating each key group; 1 each if not given.
        kill: B: the nodes that are marked for removal.
        capacity: the factor of all loads on each node, above 0: 2 if the node is half as fast; 1 each if not given.
        resources: further resources, of which each node has a limited amount.

    Raises:
        SaltwiseValueError: a number is negative, NaN or infinite, a node does not exist, or all nodes are marked.

    >>> cluster = Cluster(load=[5, 3, 4], node=[0, 0, 1], nodes=2)
    >>> cluster.loads(), cluster.load_distance()
    (array([8., 4.]), 2.0)
    >>> cluster.load_distance([0, 1, 1])
    1.0
    """

    load: Any
    node: Any
    nodes: int
    cost: Any = None
    kill: Any = ()
    capacity: Any = None
    resources: tuple[Resource, ...] = ()

    def __post_init__(self) -> None:
        check_whole("nodes", self.nodes)
        load = checked_numbers("load", self.load)
        cost = np.ones(len(load)) if self.cost is None else checked_numbers("cost", self.cost, len(load))
        capacity = np.ones(self.nodes)
        if self.capacity is not None:
            capacity = checked_numbers("capacity", self.capacity, self.nodes)
        if (capacity == 0).any():
            raise SaltwiseValueError(f"capacity of node {int(np.argmin(capacity))} is 0; it must be above 0.")
        kill = np.unique(np.asarray(self.kill, dtype=np.int64))
        if len(kill) and (kill[0] < 0 or kill[-1] >= self.nodes):
            raise SaltwiseValueError(
                f"kill names node {int(kill[0] if kill[0] < 0 else kill[-1])}; nodes are 0 to {self.nodes - 1}."
            )
        if len(kill) == self.nodes:
            raise SaltwiseValueError(f"kill names all {self.nodes} nodes; at least one must stay.")
        resources = tuple(
            Resource(checked_numbers("usage", usage, len(load)), checked_numbers("limit", limit, self.nodes))
            for usage, limit in self.resources
        )
        node = checked_allocation("node", self.node, groups=len(load), nodes=self.nodes)
        fields = {"load": load, "node": node, "cost": cost, "kill": kill, "capacity": capacity, "resources": resources}
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def staying(self) -> Bools:
        """Whether each node is in A: not marked for removal."""
        staying = np.ones(self.nodes, dtype=bool)
        staying[self.kill] = False
        return staying

    @property
    def mean(self) -> float:
        """The load of each node of A if all of A had the same load, and B had none.

        The paper rounds it up to whole percent. If all nodes have one capacity, it is the sum of the loads by |A|.
        """
        return float(self.load.sum() / (1 / self.capacity[self.staying]).sum())

    def loads(self, node: Any = None) -> Floats:
        """Return load_i of each node, under this allocation or another one."""
        return np.asarray(loads_of(self.load, self.node if node is None else node, self.nodes) * self.capacity)

    def load_distance(self, node: Any = None) -> float:
        """Return the largest difference between the load of a node of A and the mean (4.3.1)."""
        return float(np.abs(self.loads(node)[self.staying] - self.mean).max())

    def moved(self, node: Any) -> Bools:
        """Return which key groups migrate when the allocation becomes this one."""
        return np.asarray(self.node != np.asarray(node))


def loads_of(load: Floats, node: Any, nodes: int) -> Floats:
    """Return the load of each node.

    >>> loads_of(np.array([5.0, 3.0, 4.0]), [0, 0, 2], nodes=3)
    array([8., 0., 4.])
    """
    return np.bincount(np.asarray(node), load, nodes).astype(float)


def checked_allocation(name: str, allocation: Any, groups: int, nodes: int) -> Int64s:
    """Return the node of each key group as an array.

    Raises:
        SaltwiseValueError: there is not one node for each key group, or a node does not exist.

    >>> checked_allocation("node", [1, 0], groups=2, nodes=2)
    array([1, 0])
    """
    node = np.asarray(allocation)
    if node.shape != (groups,) or node.dtype.kind not in "iu":
        raise SaltwiseValueError(
            f"{name} is of type {node.dtype} and shape {node.shape}; it must be {groups} whole numbers."
        )
    wrong = np.flatnonzero((node < 0) | (node >= nodes))
    if len(wrong):
        raise SaltwiseValueError(f"{name} {int(wrong[0])} is {int(node[wrong[0]])}; it must be from 0 to {nodes - 1}.")
    return node.astype(np.int64)
