"""The MILP: the allocation of key groups with the least load distance that a bounded migration can reach.

Madsen, Zhou, Cao, "Integrative Dynamic Reconfiguration in a Parallel Stream Processing Engine", section 4.3.1, whose
constraints (1) to (5) and symbols stand beside the names here. HiGHS solves it.

A large MILP is solved in steps, because HiGHS takes long to find good values for |N| |G| binary variables. The first
step is a relaxation that asks only *which* key groups leave. Their load may arrive in any portions, so each key group
is one binary variable. The bound it proves holds for the whole MILP. The second step is the MILP in which only these
key groups may move. The rest of the time goes to neighbourhoods: the MILP in which only the key groups on a few nodes
may move, among these nodes. The fullest and the emptiest nodes are always among them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize, sparse

from ..arrays import Bools, Floats, Int64s
from ..errors import SaltwiseError, SaltwiseValueError, check_whole
from .cluster import Cluster, loads_of

Rows = list[optimize.LinearConstraint]

W1, W2 = 1.0, 0.01
"""w_1 and w_2 of the objective, w_1 >> w_2."""

GAP = 1e-5
"""HiGHS may stop this far from the optimum, as a share of the mean load: far below what w_2 is there for."""

ENOUGH = 1e-3
"""The search for neighbourhoods stops this far from the bound, as a share of the mean load."""

SMALL = 3_000
"""A MILP with at most this many binary variables is solved in one step."""

NEIGHBOURS, IDLE = 2, 20
"""A neighbourhood has twice NEIGHBOURS random nodes. After IDLE of them in a row without improvement, it stops."""

INFEASIBLE = 2
"""HiGHS proved that there is no solution: scipy's status."""

NO_ALLOCATION = (
    "No allocation keeps each node within twice the mean load and its resources, with the migrations allowed: allow "
    "more of them, or add nodes."
)


class InfeasibleError(SaltwiseError):
    """No allocation meets the constraints of the MILP."""


class OutOfTimeError(SaltwiseError):
    """No allocation that meets the constraints was found in time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"The MILP has no allocation after {seconds:g} seconds: give it more time.")


class Solution(NamedTuple):
    """The best allocation found."""

    node: Int64s
    """The node of each key group, shape (|G|,)."""
    bound: float
    """Proven: no allocation has a smaller load distance."""


class _Problem(NamedTuple):
    """What all steps share."""

    cluster: Cluster
    """Its allocation has the pins applied."""
    movable: Bools
    """The key groups that are not pinned."""
    limits: list[tuple[Floats, float]]
    """Constraint (2): what the migration of each key group costs, and how much of the budget is left."""
    must: Bools
    """The key groups that must leave: those on nodes marked for removal, once the limits allow all of them to leave."""
    taking: Bools
    """The nodes that may get key groups."""
    bonus: float
    """What it gains to take a key group off a node marked for removal."""


def milp(
    cluster: Cluster,
    max_migrations: int | None = None,
    max_migr_cost: float | None = None,
    pins: Mapping[int, int] | None = None,
    seconds: float = 5.0,
    sizes: Int64s | None = None,
    literal: bool = False,
) -> Solution:
    """Minimise w_1 d - w_2 (d_u + d_l), where d is the load distance and d_u, d_l tighten its two sides.

    Nodes that are marked for removal get no key group (Lemma 1). Taking a key group off such a node gains w_2 times the
    average load. Once the limits allow all remaining ones to leave, all must leave. The paper names emptying as an
    objective, but its MILP relies on d alone. Key groups are not divisible, so the last ones need not lower d.

    Args:
        cluster: the key groups and where they are.
        max_migrations: how many key groups may move; any number if not given.
        max_migr_cost: what the migrations may cost together (constraint 2); anything if not given.
        pins: key groups and the node on which each must be.
        seconds: the time limit, above 0. Then the best allocation so far is taken.
        sizes: as how many migrations each one counts, where they are units of key groups; 1 by default.
        literal: whether to solve the paper's constraints (1) to (5) alone. Then only d decides whether marked nodes
            lose key groups, and they may get some.

    Raises:
        SaltwiseValueError: an argument is not allowed.
        InfeasibleError: no allocation meets the constraints.
        OutOfTimeError: none was found in time, and the present allocation does not meet the constraints.

    >>> cluster = Cluster(load=[5, 3, 2, 4, 2], node=[0, 0, 0, 1, 1], nodes=2)
    >>> milp(cluster, max_migrations=1).node
    array([0, 0, 1, 1, 1])
    """
    if not 0 < seconds < float("inf"):
        raise SaltwiseValueError(f"seconds is {seconds!r}; it must be a number above 0.")
    deadline = time.monotonic() + seconds
    unit = _unit(cluster)
    cluster = replace(cluster, load=cluster.load / unit)
    problem = _problem(cluster, max_migrations, max_migr_cost, pins or {}, sizes, literal)
    whole = np.ones(cluster.nodes, dtype=bool)
    if int(problem.movable.sum()) * cluster.nodes > SMALL:
        leaving, bound = _leave(problem, seconds / 2)
        node, _ = _place(problem, problem.cluster.node, leaving, whole, seconds / 4)
        if node is not None:
            return Solution(_improve(problem, node, bound, seconds / 10, deadline), bound * unit)
    node, bound = _place(problem, problem.cluster.node, problem.movable, whole, deadline - time.monotonic())
    if node is None:
        if not _feasible(problem.cluster):
            raise OutOfTimeError(seconds)
        node = problem.cluster.node
    return Solution(node, bound * unit)


def _unit(cluster: Cluster) -> float:
    """Return the unit in which the loads are about what the paper has, percent of a node: their mean is 32 to 64.

    HiGHS takes less than a millionth for nothing, whatever the unit. By a power of two no load is rounded.
    """
    _, exponent = math.frexp(cluster.mean)
    return math.ldexp(1.0, max(exponent, -1000) - 6)


def _problem(
    cluster: Cluster,
    max_migrations: int | None,
    max_migr_cost: float | None,
    pins: Mapping[int, int],
    sizes: Int64s | None,
    literal: bool,
) -> _Problem:
    limits: list[tuple[Floats, float]] = []
    if max_migrations is not None:
        check_whole("max_migrations", max_migrations, 0)
        each = np.ones(len(cluster.load)) if sizes is None else sizes.astype(float)
        limits.append((each, max_migrations))
    if max_migr_cost is not None:
        if not 0 <= max_migr_cost < float("inf"):
            raise SaltwiseValueError(f"max_migr_cost is {max_migr_cost!r}; it must be a number of at least 0.")
        limits.append((cluster.cost, max_migr_cost))
    node = cluster.node.copy()
    movable = np.ones(len(node), dtype=bool)
    for group, there in pins.items():
        if not (0 <= group < len(node) and 0 <= there < cluster.nodes):
            raise SaltwiseValueError(
                f"pins put key group {group} on node {there}; key groups are 0 to {len(node) - 1}, nodes 0 to "
                f"{cluster.nodes - 1}."
            )
        node[group], movable[group] = there, False
    moved = cluster.moved(node)
    left = [(each, at_most - float(each[moved].sum())) for each, at_most in limits]
    if any(rest < 0 for _, rest in left):
        raise InfeasibleError("The pins alone take more migration than is allowed: allow more, or pin less.")
    marked = movable & ~cluster.staying[node]
    must = marked & all(float(each[marked].sum()) <= rest for each, rest in left)
    if literal:
        must, taking, bonus = np.zeros_like(must), np.ones_like(cluster.staying), 0.0
    else:
        taking, bonus = cluster.staying, W2 * float(cluster.load.mean())
    return _Problem(replace(cluster, node=node), movable, left, must, taking, bonus)


def _feasible(cluster: Cluster) -> bool:
    """Return whether the allocation as it is meets the constraints that are not on migrations."""
    return cluster.loads().max() <= 2 * cluster.mean and all(
        (loads_of(usage, cluster.node, cluster.nodes) <= limit).all() for usage, limit in cluster.resources
    )


def _leave(problem: _Problem, seconds: float) -> tuple[Bools, float]:
    """Return which key groups leave if load may arrive in any portions, and a lower bound of the load distance.

    Variables: whether each key group leaves; for the load and each further resource, how much arrives at each node; d,
    d_u, d_l.

    Raises:
        InfeasibleError: even so there is no allocation.
    """
    cluster = problem.cluster
    groups, nodes = len(cluster.load), cluster.nodes
    kinds = [cluster.load, *(resource.usage for resource in cluster.resources)]
    leaves = sparse.csr_array((np.ones(groups), (cluster.node, np.arange(groups))), (nodes, groups))
    rows: Rows = []
    net = []
    for kind, usage in enumerate(kinds):
        arrives = [sparse.csr_array((nodes, nodes)) for _ in kinds]
        arrives[kind] = sparse.eye_array(nodes, format="csr")
        net.append(sparse.hstack([-leaves * usage, *arrives], "csr"))
        rows.append(_row(np.concatenate([-usage, np.repeat(np.arange(len(kinds)) == kind, nodes)]), 0, 0))
    there = np.array([np.bincount(cluster.node, usage, nodes) for usage in kinds])
    rows += _balance(cluster, net, there)
    rows += [_row(np.concatenate([each, np.zeros(len(kinds) * nodes)]), -np.inf, rest) for each, rest in problem.limits]
    lower = np.concatenate([problem.must, np.zeros(len(kinds) * nodes)])
    upper = np.concatenate([problem.movable, np.tile(np.where(problem.taking, np.inf, 0), len(kinds))])
    off_marked = np.concatenate([~cluster.staying[cluster.node], np.zeros(len(kinds) * nodes)])
    found = _solve(cluster, problem.bonus * off_marked, groups, rows, lower, upper, seconds)
    if found.status == INFEASIBLE:
        raise InfeasibleError(NO_ALLOCATION)
    # Without a solution in time, the second step moves nothing.
    leaving = np.zeros(groups, dtype=bool) if found.x is None else found.x[:groups] > 0.5
    return leaving, _bound(cluster, found)


def _place(problem: _Problem, node: Int64s, free: Bools, among: Bools, seconds: float) -> tuple[Int64s | None, float]:
    """Solve the MILP in which only some key groups may move. Return an allocation, None if none is found, and a bound.

    Variables: x_ik for each free key group k and each node i where it may be; d, d_u, d_l.

    The others stay as in `node`. Each free one may go to the nodes `among`, or stay where it was.

    Raises:
        InfeasibleError: there is none, even if all may move to all nodes.
    """
    cluster, nodes = problem.cluster, problem.cluster.nodes
    group = np.flatnonzero(free)
    k, i = np.repeat(group, nodes), np.tile(np.arange(nodes), len(group))
    stays = cluster.node[k] == i
    allowed = np.where(stays, ~problem.must[k], (among & problem.taking)[i])
    k, i, stays = k[allowed], i[allowed], stays[allowed]
    x = np.arange(len(k))
    kinds = [cluster.load, *(resource.usage for resource in cluster.resources)]
    net = [sparse.csr_array((usage[k], (i, x)), (nodes, len(x))) for usage in kinds]
    there = np.array([np.bincount(node[~free], usage[~free], nodes) for usage in kinds])
    each_once = sparse.csr_array((np.ones(len(x)), (np.searchsorted(group, k), x)), (len(group), len(x)))
    rows = [_constraint(each_once, 1, 1)] if len(group) else []
    moved = cluster.moved(node) & ~free
    for each, rest in problem.limits:
        rows.append(_row(np.where(stays, 0, each[k]), -np.inf, rest - float(each[moved].sum())))
    rows += _balance(cluster, net, there)
    off_marked = ~stays & ~cluster.staying[cluster.node[k]]
    found = _solve(
        cluster, problem.bonus * off_marked, len(x), rows, np.zeros(len(x)), np.ones(len(x)), max(0.1, seconds)
    )
    if found.x is None:
        if found.status == INFEASIBLE and among.all() and free.sum() == problem.movable.sum():
            raise InfeasibleError(NO_ALLOCATION)
        return None, 0.0
    chosen = found.x[: len(x)] > 0.5
    better = node.copy()
    better[k[chosen]] = i[chosen]
    return better, _bound(cluster, found)


def _improve(problem: _Problem, node: Int64s, bound: float, each: float, deadline: float) -> Int64s:
    """Solve neighbourhoods until the time is over, the bound is reached, or IDLE of them in a row improve nothing.

    `bound` is a lower bound of the load distance, `each` the seconds for a neighbourhood, and `deadline` is on the
    monotonic clock.
    """
    cluster, rng, idle = problem.cluster, np.random.default_rng(1), 0
    enough = bound + ENOUGH * cluster.mean
    while idle < IDLE and cluster.load_distance(node) > enough and time.monotonic() + each < deadline:
        load = np.where(cluster.staying, cluster.loads(node), cluster.mean)
        order = np.argsort(load, kind="stable")
        among = np.zeros(cluster.nodes, dtype=bool)
        takers = np.unique(node[cluster.moved(node)])  # their new key groups may move on without a further migration
        among[[*order[:2], *order[-2:]]] = True
        for candidates in (takers, np.arange(cluster.nodes)):
            among[rng.permutation(candidates)[:NEIGHBOURS]] = True
        tried, _ = _place(problem, node, problem.movable & among[node], among, each)
        if tried is not None and _unevenness(cluster, tried) < _unevenness(cluster, node):
            node, idle = tried, 0
        else:
            idle += 1
    return node


def _unevenness(cluster: Cluster, node: Int64s) -> list[float]:
    """Return the distances from the mean, largest first. Two nodes at the same distance count twice."""
    off = np.abs(cluster.loads(node)[cluster.staying] - cluster.mean)
    return sorted(off.round(9).tolist(), reverse=True)


def _balance(cluster: Cluster, net: list[Any], there: Floats) -> Rows:
    """Return constraints (3) and (4) on the load, and the limits of the further resources.

    For the load and each resource, `net` has what the variables add to each node, `there` what it has in addition.
    """
    mean, staying = cluster.mean, cluster.staying
    load = sparse.csr_array(net[0] * cluster.capacity[:, None])
    before = there[0] * cluster.capacity
    up, down = (np.tile(signs, (cluster.nodes, 1)) for signs in ([-1.0, 1.0, 0.0], [1.0, 0.0, -1.0]))
    rows = [
        optimize.LinearConstraint(sparse.hstack([load, up], "csr"), -np.inf, mean - before),
        optimize.LinearConstraint(sparse.hstack([load, down], "csr")[staying], mean - before[staying], np.inf),
    ]
    for added, fixed, resource in zip(net[1:], there[1:], cluster.resources, strict=True):
        rows.append(_constraint(added, -np.inf, resource.limit - fixed))
    return rows


def _constraint(matrix: Any, lower: Any, upper: Any) -> optimize.LinearConstraint:
    """Return rows in which d, d_u and d_l do not occur."""
    return optimize.LinearConstraint(
        sparse.hstack([matrix, sparse.csr_array((matrix.shape[0], 3))], "csr"), lower, upper
    )


def _row(coefficients: Floats, lower: float, upper: float) -> optimize.LinearConstraint:
    return _constraint(sparse.csr_array(coefficients[None, :].astype(float)), lower, upper)


def _solve(
    cluster: Cluster, gains: Floats, binaries: int, rows: Rows, lower: Floats, upper: Floats, seconds: float
) -> optimize.OptimizeResult:
    """Call HiGHS. The binary variables come first. `lower` and `upper` leave out d, d_u, d_l: these are 0 to the mean.

    `gains` says of each other variable what one of it gains.
    """
    mean = cluster.mean
    integral = np.arange(len(upper) + 4) < binaries
    # One more variable always equals the mean, so that the gap of HiGHS is a share of the mean and not of d.
    rows = [
        optimize.LinearConstraint(sparse.hstack([r.A, np.zeros((r.A.shape[0], 1))], "csr"), r.lb, r.ub) for r in rows
    ]
    return optimize.milp(
        np.concatenate([-gains, [W1, -W2, -W2, 1.0]]),
        integrality=integral,
        bounds=optimize.Bounds(np.append(lower, [0, 0, 0, mean]), np.append(upper, [mean] * 4)),
        constraints=rows,
        options={"time_limit": seconds, "mip_rel_gap": GAP},
    )


def _bound(cluster: Cluster, found: optimize.OptimizeResult) -> float:
    """Return a lower bound of d. Apart from d and the mean, the objective is never above 0."""
    if found.mip_dual_bound is None:
        return 0.0
    return max(0.0, float(found.mip_dual_bound) - cluster.mean)
