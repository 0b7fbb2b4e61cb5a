"""Flux: the fullest node gives a key group to the emptiest one, the second fullest to the second emptiest, and so on.

Shah et al., "Flux: An Adaptive Partitioning Operator for Continuous Query Systems", ICDE 2003, as Madsen, Zhou, Cao,
"Integrative Dynamic Reconfiguration in a Parallel Stream Processing Engine", section 2.2, sum it up.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..arrays import Int64s
from ..errors import check_whole
from .cluster import Cluster


def flux(cluster: Cluster, max_migrations: int) -> Int64s:
    """Return the node of each key group after one adaptation period of Flux.

    Nodes are sorted by load and paired from both ends. Each pair moves at most one key group: the biggest one
    that makes the loads vary less, so one smaller than the difference of the two loads.

    Args:
        cluster: nodes of one capacity; marks for removal are ignored.
        max_migrations: how many key groups may move.

    Raises:
        SaltwiseValueError: max_migrations is not a whole number of at least 0.

    >>> flux(Cluster(load=[5, 3, 1, 4], node=[0, 0, 0, 1], nodes=2), max_migrations=1)
    array([0, 1, 0, 1])
    """
    check_whole("max_migrations", max_migrations, 0)
    node, loads = cluster.node.copy(), cluster.loads()
    order = np.argsort(-loads, kind="stable")
    left = max_migrations
    for giver, taker in zip(order[: cluster.nodes // 2], order[::-1], strict=False):
        if not left:
            break
        load = cluster.load * cluster.capacity[giver]
        suitable = np.flatnonzero((cluster.node == giver) & (load > 0) & (load < loads[giver] - loads[taker]))
        if len(suitable):
            node[suitable[np.argmax(cluster.load[suitable])]] = taker
            left -= 1
    return np.asarray(node)


def repeated(cluster: Cluster, max_migrations: int) -> Int64s:
    """Return the allocation of Flux when its pairs take turns until no migration is left.

    >>> repeated(Cluster(load=[5, 3, 1, 4], node=[0, 0, 0, 1], nodes=2), max_migrations=3)
    array([0, 1, 0, 1])
    """
    now, left = cluster, max_migrations
    while left:
        node = flux(now, left)
        moves = int(now.moved(node).sum())
        if not moves:
            break
        now, left = replace(now, node=node), left - moves
    return np.asarray(now.node)
