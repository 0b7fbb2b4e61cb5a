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
from ..errors import SaltwiseError, SaltwiseValueError, check_not_negative, check_positive, check_whole
from .cluster import Cluster, loads_of

Rows = list[optimize.LinearConstraint]

W1, W2 = 1.0, 0.01
"""w_1 and w_2 of the objective, w_1 >> w_2."""

GAP = 1e-5
"""HiGHS may stop this far from the optimum, as a share of the mean load. Effects of w_2 are far larger."""

SEARCH_GAP = 1e-3
"""The search in neighbourhoods stops this far from the bound, as a share of the mean load."""

MAX_VARIABLES = 3_000
"""A MILP with at most this many binary variables is solved in one step."""

NEIGHBOURS = 2
"""A neighbourhood has twice as many random nodes."""

MAX_IDLE = 20
"""The search stops after so many neighbourhoods in a row without improvement."""

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


class _Limit(NamedTuple):
    """A limit of the migrations: constraint (2), or their number."""

    costs: Floats
    """What the migration of each key group costs, shape (|G|,)."""
    budget: float
    """What the migrations may cost together."""


class _Problem(NamedTuple):
    """What all steps share."""

    cluster: Cluster
    """Its allocation has the pins applied."""
    movable: Bools
    """The key groups that are not pinned."""
    limits: list[_Limit]
    """Without what the pins take."""
    must_leave: Bools
    """The key groups that must leave: those on nodes marked for removal, once the limits allow all of them to leave."""
    takers: Bools
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
    check_positive("seconds", seconds)
    deadline = time.monotonic() + seconds
    unit = _unit(cluster)
    cluster = replace(cluster, load=cluster.load / unit)
    limits = _limits(cluster, max_migrations, max_migr_cost, sizes)
    problem = _problem(cluster, limits, pins or {}, literal)
    all_nodes = np.ones(cluster.nodes, dtype=bool)
    if int(problem.movable.sum()) * cluster.nodes > MAX_VARIABLES:
        leaving, bound = _leave(problem, seconds / 2)
        node, _ = _place(problem, problem.cluster.node, leaving, all_nodes, seconds=seconds / 4)
        if node is not None:
            node = _improve(problem, node, bound, deadline=deadline, seconds_each=seconds / 10)
            return Solution(node, bound * unit)
    left = deadline - time.monotonic()
    node, bound = _place(problem, problem.cluster.node, problem.movable, all_nodes, seconds=left)
    if node is None:
        if not _feasible(problem.cluster):
            raise OutOfTimeError(seconds)
        node = problem.cluster.node
    return Solution(node, bound * unit)


def _unit(cluster: Cluster) -> float:
    """Return a unit in which loads look like the paper's, which are percent of a node: their mean is 32 to 64.

    HiGHS treats differences below a millionth as zero, whatever the unit. The unit is a power of two, so that no load
    is rounded.
    """
    _, exponent = math.frexp(cluster.mean)
    return math.ldexp(1.0, max(exponent, -1000) - 6)


def _limits(
    cluster: Cluster, max_migrations: int | None, max_migr_cost: float | None, sizes: Int64s | None
) -> list[_Limit]:
    limits = []
    if max_migrations is not None:
        check_whole("max_migrations", max_migrations, 0)
        limits.append(_Limit(np.ones(len(cluster.load)) if sizes is None else sizes.astype(float), max_migrations))
    if max_migr_cost is not None:
        check_not_negative("max_migr_cost", max_migr_cost)
        limits.append(_Limit(cluster.cost, max_migr_cost))
    return limits


def _problem(cluster: Cluster, limits: list[_Limit], pins: Mapping[int, int], literal: bool) -> _Problem:
    node = cluster.node.copy()
    movable = np.ones(len(node), dtype=bool)
    for group, pinned_to in pins.items():
        if not (0 <= group < len(node) and 0 <= pinned_to < cluster.nodes):
            raise SaltwiseValueError(
                f"pins put key group {group} on node {pinned_to}; key groups are 0 to {len(node) - 1}, nodes 0 to "
                f"{cluster.nodes - 1}."
            )
        node[group], movable[group] = pinned_to, False
    moved = cluster.moved(node)
    left = [_Limit(costs, budget - float(costs[moved].sum())) for costs, budget in limits]
    if any(limit.budget < 0 for limit in left):
        raise InfeasibleError("The pins alone take more migration than is allowed: allow more, or pin less.")
    marked = movable & ~cluster.staying[node]
    must_leave = marked & all(float(costs[marked].sum()) <= budget for costs, budget in left)
    takers, bonus = cluster.staying, W2 * float(cluster.load.mean())
    if literal:
        must_leave, takers, bonus = np.zeros_like(must_leave), np.ones_like(takers), 0.0
    return _Problem(
        cluster=replace(cluster, node=node),
        movable=movable,
        limits=left,
        must_leave=must_leave,
        takers=takers,
        bonus=bonus,
    )


def _feasible(cluster: Cluster) -> bool:
    """Return whether the present allocation meets the constraints that are not about migrations."""
    return cluster.loads().max() <= 2 * cluster.mean and all(
        (loads_of(usage, cluster.node, cluster.nodes) <= limit).all() for usage, limit in cluster.resources
    )


def _leave(problem: _Problem, seconds: float) -> tuple[Bools, float]:
    """Return which key groups leave if load may arrive in any portions, and a lower bound of the load distance.

    Variables: whether each key group leaves; for the load and each further resource, how much arrives at each node; d,
    d_u, d_l.

    Raises:
        InfeasibleError: there is no allocation even then.
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
    present = np.array([np.bincount(cluster.node, usage, nodes) for usage in kinds])
    rows += _balance(cluster, net, present)
    no_arrival = np.zeros(len(kinds) * nodes)
    rows += [_row(np.concatenate([costs, no_arrival]), -np.inf, budget) for costs, budget in problem.limits]
    lower = np.concatenate([problem.must_leave, np.zeros(len(kinds) * nodes)])
    upper = np.concatenate([problem.movable, np.tile(np.where(problem.takers, np.inf, 0), len(kinds))])
    off_marked = np.concatenate([~cluster.staying[cluster.node], np.zeros(len(kinds) * nodes)])
    gains = problem.bonus * off_marked
    solved = _solve(cluster, rows, gains, binaries=groups, lower=lower, upper=upper, seconds=seconds)
    if solved.status == INFEASIBLE:
        raise InfeasibleError(NO_ALLOCATION)
    # Without a solution in time, the second step moves nothing.
    leaving = np.zeros(groups, dtype=bool) if solved.x is None else solved.x[:groups] > 0.5
    return leaving, _bound(cluster, solved)


def _place(
    problem: _Problem, node: Int64s, free: Bools, among: Bools, *, seconds: float
) -> tuple[Int64s | None, float]:
    """Solve the MILP in which only some key groups may move. Return an allocation, None if there is none, and a bound.

    Variables: x_ik for each free key group k and each node i where it may be; d, d_u, d_l.

    The others stay as in `node`. Each free one may go to the nodes `among`, or stay where it was.

    Raises:
        InfeasibleError: no allocation meets the constraints, even if all may move to all nodes.
    """
    cluster, nodes = problem.cluster, problem.cluster.nodes
    group = np.flatnonzero(free)
    k, i = np.repeat(group, nodes), np.tile(np.arange(nodes), len(group))
    stays = cluster.node[k] == i
    allowed = np.where(stays, ~problem.must_leave[k], (among & problem.takers)[i])
    k, i, stays = k[allowed], i[allowed], stays[allowed]
    x = np.arange(len(k))
    kinds = [cluster.load, *(resource.usage for resource in cluster.resources)]
    net = [sparse.csr_array((usage[k], (i, x)), (nodes, len(x))) for usage in kinds]
    present = np.array([np.bincount(node[~free], usage[~free], nodes) for usage in kinds])
    each_once = sparse.csr_array((np.ones(len(x)), (np.searchsorted(group, k), x)), (len(group), len(x)))
    rows = [_constraint(each_once, 1, 1)] if len(group) else []
    moved = cluster.moved(node) & ~free
    for costs, budget in problem.limits:
        rows.append(_row(np.where(stays, 0, costs[k]), -np.inf, budget - float(costs[moved].sum())))
    rows += _balance(cluster, net, present)
    off_marked = ~stays & ~cluster.staying[cluster.node[k]]
    lower, upper = np.zeros(len(x)), np.ones(len(x))
    gains, seconds = problem.bonus * off_marked, max(0.1, seconds)
    solved = _solve(cluster, rows, gains, binaries=len(x), lower=lower, upper=upper, seconds=seconds)
    if solved.x is None:
        if solved.status == INFEASIBLE and among.all() and free.sum() == problem.movable.sum():
            raise InfeasibleError(NO_ALLOCATION)
        return None, 0.0
    chosen = solved.x[: len(x)] > 0.5
    better = node.copy()
    better[k[chosen]] = i[chosen]
    return better, _bound(cluster, solved)


def _improve(problem: _Problem, node: Int64s, bound: float, *, deadline: float, seconds_each: float) -> Int64s:
    """Solve neighbourhoods until the time is over, the bound is reached, or MAX_IDLE of them in a row improve nothing.

    Args:
        problem: what is solved.
        node: the allocation to improve.
        bound: a lower bound of the load distance.
        deadline: when to stop, on the monotonic clock.
        seconds_each: the time limit of a neighbourhood.
    """
    cluster, rng, idle = problem.cluster, np.random.default_rng(1), 0
    enough = bound + SEARCH_GAP * cluster.mean
    while idle < MAX_IDLE and cluster.load_distance(node) > enough and time.monotonic() + seconds_each < deadline:
        load = np.where(cluster.staying, cluster.loads(node), cluster.mean)
        order = np.argsort(load, kind="stable")
        among = np.zeros(cluster.nodes, dtype=bool)
        # The key groups that these nodes took may move on without a further migration.
        took = np.unique(node[cluster.moved(node)])
        among[[*order[:2], *order[-2:]]] = True
        for candidates in (took, np.arange(cluster.nodes)):
            among[rng.permutation(candidates)[:NEIGHBOURS]] = True
        better, _ = _place(problem, node, problem.movable & among[node], among, seconds=seconds_each)
        if better is not None and _unevenness(cluster, better) < _unevenness(cluster, node):
            node, idle = better, 0
        else:
            idle += 1
    return node


def _unevenness(cluster: Cluster, node: Int64s) -> list[float]:
    """Return the distances from the mean, largest first. Two nodes at the same distance count twice."""
    off = np.abs(cluster.loads(node)[cluster.staying] - cluster.mean)
    return sorted(off.round(9).tolist(), reverse=True)


def _balance(cluster: Cluster, net: list[Any], present: Floats) -> Rows:
    """Return constraints (3) and (4) on the load, and the limits of the further resources.

    Args:
        cluster: whose nodes are balanced.
        net: for the load and each resource, what the variables add to each node.
        present: for the same, what each node has in addition.
    """
    mean, staying = cluster.mean, cluster.staying
    load = sparse.csr_array(net[0] * cluster.capacity[:, None])
    before = present[0] * cluster.capacity
    up, down = (np.tile(signs, (cluster.nodes, 1)) for signs in ([-1.0, 1.0, 0.0], [1.0, 0.0, -1.0]))
    rows = [
        optimize.LinearConstraint(sparse.hstack([load, up], "csr"), -np.inf, mean - before),
        optimize.LinearConstraint(sparse.hstack([load, down], "csr")[staying], mean - before[staying], np.inf),
    ]
    for added, fixed, resource in zip(net[1:], present[1:], cluster.resources, strict=True):
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
    cluster: Cluster, rows: Rows, gains: Floats, *, binaries: int, lower: Floats, upper: Floats, seconds: float
) -> optimize.OptimizeResult:
    """Call HiGHS.

    Args:
        cluster: whose mean bounds d, d_u and d_l. These are the last variables, and have no place in the arrays below.
        rows: the constraints.
        gains: what one of each variable gains.
        binaries: how many variables are binary. They come first.
        lower: the least value of each variable.
        upper: the largest value of each variable.
        seconds: the time limit.
    """
    mean = cluster.mean
    integral = np.arange(len(upper) + 4) < binaries
    # A further variable always equals the mean. So the gap of HiGHS is a share of the mean and not of d.
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


def _bound(cluster: Cluster, solved: optimize.OptimizeResult) -> float:
    """Return a lower bound of d. The rest of the objective, without the mean, is never above 0."""
    if solved.mip_dual_bound is None:
        return 0.0
    return max(0.0, float(solved.mip_dual_bound) - cluster.mean)
