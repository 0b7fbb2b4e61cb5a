"""COLA: parts of the job that talk to each other stay together, and are split until the nodes are balanced.

Khandekar et al., "COLA: Optimizing Stream Processing Applications via Graph Partitioning", Middleware 2009, as Madsen,
Zhou, Cao, "Integrative Dynamic Reconfiguration in a Parallel Stream Processing Engine", section 2.1, sum it up. It
plans from scratch: where the key groups are now does not matter.
"""

from __future__ import annotations

import heapq

import numpy as np

from ..arrays import Int64s
from ..errors import SaltwiseValueError, check_not_negative
from .cluster import Cluster
from .traffic import Traffic, graph_part


def cola(cluster: Cluster, traffic: Traffic, max_ld: float = 10.0) -> Int64s:
    """Return an allocation with a load distance of at most max_ld, if splitting into single key groups gives one.

    All key groups are one part at first. While the load distance is too large, the part with the highest load is cut
    in two, and all parts are placed again: by descending load, each on the least loaded node.

    Args:
        cluster: the key groups; nodes marked for removal get none.
        traffic: what they send each other.
        max_ld: maxLD, the load distance that is balanced enough, in the unit of the loads.

    Raises:
        SaltwiseValueError: max_ld is not a number of at least 0, or the traffic is of other key groups.

    >>> cluster = Cluster(load=[2, 2, 2, 2], node=[0, 0, 0, 0], nodes=2)
    >>> out = [[0, 0, 5, 0], [0, 0, 0, 5], [0, 0, 0, 0], [0, 0, 0, 0]]
    >>> cola(cluster, Traffic(out, operator=[0, 0, 1, 1]))
    array([0, 0, 0, 0])
    >>> cola(cluster, Traffic(out, operator=[0, 0, 1, 1]), max_ld=1)
    array([0, 1, 0, 1])
    """
    check_traffic(cluster, traffic, max_ld)
    parts = [np.arange(len(cluster.load))]
    while True:
        loads = [float(cluster.load[part].sum()) for part in parts]
        node = _placed(cluster, parts, loads)
        several = [i for i in range(len(parts)) if len(parts[i]) > 1]
        if cluster.load_distance(node) <= max_ld or not several:
            return node
        part = parts.pop(max(several, key=lambda i: loads[i]))
        parts += graph_part(traffic.out, part, cluster.load[part], 2)


def _placed(cluster: Cluster, parts: list[Int64s], loads: list[float]) -> Int64s:
    heap = [(0.0, int(i)) for i in np.flatnonzero(cluster.staying)]
    node = np.empty(len(cluster.load), dtype=np.int64)
    for j in sorted(range(len(parts)), key=lambda j: -loads[j]):
        load, i = heap[0]
        node[parts[j]] = i
        heapq.heapreplace(heap, (load + loads[j] * cluster.capacity[i], i))
    return node


def check_traffic(cluster: Cluster, traffic: Traffic, max_ld: float) -> None:
    """Raise unless the traffic is that of the cluster's key groups, and max_ld is at least 0.

    Raises:
        SaltwiseValueError: one of them is not.
    """
    if len(traffic.operator) != len(cluster.load):
        raise SaltwiseValueError(
            f"traffic is of {len(traffic.operator)} key groups; it must be of the cluster's {len(cluster.load)}."
        )
    check_not_negative("max_ld", max_ld)
