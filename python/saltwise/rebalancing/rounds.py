"""One round of a balancer: which key groups move, within a budget, and only if that gains more than it costs.

The planners are the papers' algorithms: `flux`, `milp`, `albic`, `cola` (Madsen, Zhou, Cao, "Integrative Dynamic
Reconfiguration in a Parallel Stream Processing Engine"), `elb`, `clb` and `uhlb` (Guo and Zhou, "Stateful Load
Balancing for Parallel Stream Processing"). What they leave open is decided here: the budget of those that have none,
nodes that leave, and whether a plan is worth its moves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from ..arrays import Floats, Int64s
from ..errors import SaltwiseValueError
from .albic import albic
from .clb import clb
from .cluster import Cluster, loads_of
from .cola import cola
from .elb import elb
from .flux import repeated
from .milp import InfeasibleError, OutOfTimeError, milp
from .traffic import Traffic
from .uhlb import uhlb

EVEN = 1.05
"""Loads are even if the largest is at most this multiple of their mean. Then nothing is planned."""
SOLVER_SECONDS = 2.0
"""Time limit of a solver."""


class Window(NamedTuple):
    """The loads of some batches, and where the key groups are."""

    cluster: Cluster
    """Loads are mean seconds in a batch; the cost of a key group is the bytes of its state."""
    series: Floats
    """The load of each key group in each batch, the latest one last, shape (batches, |G|)."""
    traffic: Traffic | None = None
    """What key groups send to each other; only planners of :data:`BY_TRAFFIC` read it."""
    pinned: Sequence[int] = ()
    """The key groups that may not move."""


class Budget(NamedTuple):
    """What a round may move."""

    moves: int
    bytes: float = float("inf")
    moves_per_second: float = 20.0
    """How many states an executor opens in a second, whatever their size."""
    bytes_per_second: float = 100e6
    """How fast an executor reads states."""


class Decision(NamedTuple):
    """What a round decided."""

    node: Int64s
    """The node of each key group."""
    reason: str
    """Why nothing moves; empty if something does."""
    gain: float = 0.0
    """Seconds that the fullest node saves in a batch."""
    pause: float = 0.0
    """Seconds that the moves take on the node that receives the most."""


Planner = Callable[[Window, Budget, np.random.Generator], Int64s]


def decide(planner: str, window: Window, budget: Budget, rng: np.random.Generator) -> Decision:
    """Plan a round.

    Nothing moves if loads are even, if the planner finds no allocation, or if the moves take longer than the batches of
    the window would have gained. In the last case, plans with half as many moves are tried first, down to one move. Key
    groups on nodes that leave always move, as far as the budget allows.

    Args:
        planner: one of :data:`PLANNERS`.
        window: the loads, and where the key groups are.
        budget: what may move.
        rng: for planners that draw.

    Raises:
        SaltwiseValueError: there is no such planner.

    >>> cluster = Cluster(load=[4, 3, 2, 1], node=[0, 0, 0, 1], nodes=2, cost=[1e6] * 4)
    >>> window = Window(cluster, np.array([cluster.load] * 5))
    >>> decide("flux", window, Budget(moves=4), np.random.default_rng(1)).node
    array([1, 0, 0, 1])
    """
    cluster = window.cluster
    if planner not in PLANNERS:
        raise SaltwiseValueError.unknown("planner", planner, PLANNERS)
    leaving = ~cluster.staying[cluster.node]
    moves, reason, batches = budget.moves, "", len(window.series)
    if not leaving.any():
        if unevenness(cluster) <= EVEN:
            return Decision(cluster.node, f"loads are even: max/mean is {unevenness(cluster):.2f}")
        # No plan gains more than even loads would. More moves than fit into that time never pay.
        gain = float(cluster.loads()[cluster.staying].max() - cluster.mean)
        max_moves = cluster.nodes * np.floor(gain * batches * budget.moves_per_second)
        if max_moves < 1:
            reason = f"even loads would gain {gain:.3f} s in each of {batches} batches, and a move takes longer"
            return Decision(cluster.node, reason)
        moves = int(min(moves, max_moves))
    while moves:
        node, failure = _planned(planner, window, budget._replace(moves=moves), rng)
        moved = int(cluster.moved(node).sum())
        if not moved:
            reason = reason or failure
            break
        gain = float(cluster.loads()[cluster.staying].max() - cluster.loads(node)[cluster.staying].max())
        pause = _pause(cluster, node, budget)
        if leaving.any() or gain * batches > pause:
            return Decision(node, "", gain, pause)
        reason = f"moves would take {pause:.2f} s, and gain {max(0.0, gain):.2f} s in each of {batches} batches"
        moves = moved // 2
    return Decision(cluster.node, reason or "no plan within the budget is more even")


def _planned(planner: str, window: Window, budget: Budget, rng: np.random.Generator) -> tuple[Int64s, str]:
    """Return the allocation of a planner, as far as the budget allows, and why the planner found none."""
    cluster, failure = window.cluster, ""
    try:
        node = PLANNERS[planner](window, budget, rng)
    except (InfeasibleError, OutOfTimeError) as error:
        node, failure = cluster.node, str(error)
        if not cluster.staying[cluster.node].all():
            node = rehomed(cluster, node, np.arange(len(cluster.load)), np.flatnonzero(cluster.staying))
    return within(cluster, node, budget, window.pinned), failure


def unevenness(cluster: Cluster, node: Int64s | None = None) -> float:
    """Return the largest load of a node that stays as a multiple of the mean; 1 if there is no load.

    >>> unevenness(Cluster(load=[4, 2], node=[0, 1], nodes=2))
    1.3333333333333333
    """
    return float(cluster.loads(node)[cluster.staying].max() / cluster.mean) if cluster.mean else 1.0


def within(cluster: Cluster, node: Int64s, budget: Budget, pinned: Sequence[int] = ()) -> Int64s:
    """Return as much of an allocation as the budget allows, without the key groups that may not move.

    Key groups on nodes that leave go first. Then comes the key group with the highest load of the node that is fullest
    at that point, again and again.

    >>> cluster = Cluster(load=[4, 3, 2, 1], node=[0, 0, 0, 0], nodes=2)
    >>> within(cluster, np.array([0, 1, 1, 0]), Budget(moves=1))
    array([0, 1, 0, 0])
    """
    allocation = cluster.node.copy()
    moves_left, bytes_left = budget.moves, budget.bytes
    to_move = cluster.moved(node)
    to_move[list(pinned)] = False
    while moves_left and (to_move := to_move & (cluster.cost <= bytes_left)).any():
        loads = cluster.loads(allocation)
        first = max(
            np.flatnonzero(to_move),
            key=lambda g: (not cluster.staying[allocation[g]], loads[allocation[g]], cluster.load[g], -g),
        )
        allocation[first], to_move[first] = node[first], False
        moves_left -= 1
        bytes_left -= cluster.cost[first]
    return np.asarray(allocation)


def _pause(cluster: Cluster, node: Int64s, budget: Budget) -> float:
    seconds = 1 / budget.moves_per_second + cluster.cost / budget.bytes_per_second
    return float(loads_of(seconds * cluster.moved(node), node, cluster.nodes).max())


def _flux(window: Window, budget: Budget, rng: np.random.Generator) -> Int64s:
    """Repeat Flux until the budget has no move left. In each period, a pair of nodes moves at most one key group."""
    return repeated(window.cluster, budget.moves)


def _elb(window: Window, budget: Budget, rng: np.random.Generator) -> Int64s:
    """ELB with bounds around the mean as narrow as its largest substream allows.

    ELB refuses a substream above half of the range of its bounds. One above the mean keeps its instance to itself.
    """
    cluster = window.cluster
    node, load = cluster.node.copy(), _by_mean(cluster)
    groups, instances = np.arange(len(load)), np.arange(cluster.nodes)
    while len(instances) > 1 and len(groups):
        largest = groups[np.argmax(load[groups])]
        if load[largest] <= load[groups].sum() / len(instances):
            break
        groups, instances = groups[groups != largest], instances[instances != node[largest]]
        node = rehomed(cluster, node, groups, instances)
    mean = load[groups].sum() / len(instances)
    reach = max((EVEN - 1) * mean, load[groups].max(initial=0.0))
    if 0 < reach <= mean:
        place = np.searchsorted(instances, node[groups])
        balanced = elb(load[groups], place, len(instances), lower=mean - reach, upper=mean + reach)
        node[groups] = instances[balanced.instance]
    return np.asarray(node)


def _clb(window: Window, budget: Budget, rng: np.random.Generator) -> Int64s:
    cluster = window.cluster
    if len(window.series) < 2:
        return np.asarray(cluster.node)
    return _nodes_of_parts(cluster, clb(window.series, cluster.nodes))


def _uhlb(window: Window, budget: Budget, rng: np.random.Generator) -> Int64s:
    return uhlb(len(window.cluster.load), window.cluster.nodes, rng)


def _milp(window: Window, budget: Budget, rng: np.random.Generator) -> Int64s:
    pins = {group: int(window.cluster.node[group]) for group in window.pinned}
    cost = _finite(budget.bytes)
    return milp(window.cluster, budget.moves, cost, pins=pins, seconds=SOLVER_SECONDS).node


def _albic(window: Window, budget: Budget, rng: np.random.Generator) -> Int64s:
    cluster = window.cluster
    if window.traffic is None or not window.traffic.out.nnz:
        return _milp(window, budget, rng)
    scaled = replace(cluster, load=100 * _by_mean(cluster))
    cost = _finite(budget.bytes)
    return albic(scaled, window.traffic, budget.moves, rng, seconds=SOLVER_SECONDS, max_migr_cost=cost)


def _cola(window: Window, budget: Budget, rng: np.random.Generator) -> Int64s:
    """COLA plans from scratch, whatever a move costs. Here its parts go where most of their state is already.

    Without traffic it only evens out loads.
    """
    cluster = window.cluster
    groups = len(cluster.load)
    traffic = window.traffic or Traffic(np.zeros((groups, groups)), np.zeros(groups))
    return _nodes_of_parts(cluster, cola(replace(cluster, load=100 * _by_mean(cluster)), traffic))


def _by_mean(cluster: Cluster) -> Floats:
    """Return the loads as multiples of the mean. Tiny loads would make bounds around them inexact."""
    return np.asarray(cluster.load / (cluster.mean or 1.0))


def _finite(number: float) -> float | None:
    return None if number == float("inf") else number


def _without_leaving(plan: Planner) -> Planner:
    """Show only the nodes that stay to a planner that knows no marks. Key groups on the others are placed first."""

    def planned(window: Window, budget: Budget, rng: np.random.Generator) -> Int64s:
        cluster = window.cluster
        stay = np.flatnonzero(cluster.staying)
        node = rehomed(cluster, cluster.node, np.arange(len(cluster.load)), stay)
        left = replace(
            cluster,
            node=np.searchsorted(stay, node),
            nodes=len(stay),
            kill=(),
            capacity=cluster.capacity[stay],
            resources=(),
        )
        return np.asarray(stay[plan(window._replace(cluster=left), budget, rng)])

    return planned


PLANNERS: dict[str, Planner] = {
    "flux": _without_leaving(_flux),
    "milp": _milp,
    "albic": _albic,
    "cola": _without_leaving(_cola),
    "elb": _without_leaving(_elb),
    "clb": _without_leaving(_clb),
    "uhlb": _without_leaving(_uhlb),
}
"""The planners by name."""

BY_TRAFFIC = ("albic", "cola")
"""Planners that look at what key groups send to each other, so they plan all operators of a query together."""


def rehomed(cluster: Cluster, node: Int64s, groups: Int64s, nodes: Int64s) -> Int64s:
    """Move the key groups that are on none of `nodes` to the least loaded of them, the largest first.

    Return the node of each key group.
    """
    node = node.copy()
    orphans = groups[~np.isin(node[groups], nodes)]
    for group in orphans[np.argsort(-cluster.load[orphans], kind="stable")]:
        loads = cluster.loads(node)
        node[group] = nodes[np.argmin(loads[nodes])]
    return node


def _nodes_of_parts(cluster: Cluster, part: Int64s) -> Int64s:
    """Give parts to nodes so that as few bytes as possible move. Return the node of each key group.

    Args:
        cluster: where the key groups are now.
        part: the part of each key group. There are as many parts as nodes.
    """
    stays = np.zeros((cluster.nodes, cluster.nodes))
    np.add.at(stays, (part, cluster.node), cluster.cost)
    _, node = linear_sum_assignment(stays, maximize=True)
    return np.asarray(node[part])
