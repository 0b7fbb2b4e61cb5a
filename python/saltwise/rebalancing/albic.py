"""ALBIC, autonomic load balancing with integrated collocation: key groups that talk to each other migrate together.

Madsen, Zhou, Cao, "Integrative Dynamic Reconfiguration in a Parallel Stream Processing Engine", section 4.3.2,
Algorithm 2; its symbols stand beside the names here.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..arrays import Bools, Floats, Int64s
from ..errors import check_positive, check_whole
from .cluster import Cluster, Resource
from .cola import check_traffic
from .milp import InfeasibleError, OutOfTimeError, milp
from .traffic import Traffic, graph_part


class _Pairs(NamedTuple):
    """Pairs of key groups of which one sends the other much."""

    sender: Int64s
    """Of each pair, shape (pairs,), like the fields below."""
    receiver: Int64s
    rate: Floats


def albic(
    cluster: Cluster,
    traffic: Traffic,
    max_migrations: int | None,
    rng: np.random.Generator,
    max_ld: float = 10.0,
    max_pl: float = 25.0,
    step_pl: float = 5.0,
    sf: float = 1.5,
    seconds: float = 5.0,
    max_migr_cost: float | None = None,
) -> Int64s:
    """Return an allocation that keeps collocated pairs, collocates one more, and is balanced by the MILP.

    Step 1 finds the pairs that send much. Step 2 makes units of those that are collocated. Step 3 brings the units of
    one pair to one node: the pair that sends most of those not collocated. Step 4 solves the MILP over units. If the
    load distance is above max_ld, or no allocation meets the constraints, all is repeated with smaller units.

    Args:
        cluster: the key groups and where they are.
        traffic: what they send each other.
        max_migrations: how many key groups may move; any number if None. The paper's experiments bound this.
        rng: draws the pair if several send the same.
        max_ld: maxLD, in the unit of the loads, like max_pl and step_pl. The defaults are the paper's, in percent.
        max_pl: maxPL, the highest load of a unit. When it has fallen to 0, the MILP is solved without units.
        step_pl: stepPL, by how much max_pl falls.
        sf: sF: a pair sends much if it sends more than sf times the average.
        seconds: time limit of each MILP.
        max_migr_cost: maxMigrCost, what the migrations may cost together; anything if not given.

    Raises:
        SaltwiseValueError: an argument is not allowed.
        InfeasibleError: no allocation meets the constraints of the MILP.
        OutOfTimeError: none was found in time.

    >>> cluster = Cluster(load=[20, 20, 20, 20], node=[0, 1, 1, 0], nodes=2)
    >>> traffic = Traffic([[0, 0, 5, 0], [0, 0, 0, 4], [0, 0, 0, 0], [0, 0, 0, 0]], operator=[0, 0, 1, 1])
    >>> traffic.collocation(albic(cluster, traffic, 2, np.random.default_rng(1), max_pl=40))
    1.0
    """
    check_traffic(cluster, traffic, max_ld)
    budget = _budget(cluster, max_migrations, max_migr_cost)
    for name, value in (("max_pl", max_pl), ("step_pl", step_pl), ("sf", sf)):
        check_positive(name, value)
    pairs = _scores(traffic, sf)
    limits: dict[str, Any] = {"max_migrations": max_migrations, "max_migr_cost": max_migr_cost}
    on_one_node = _collocated(cluster, pairs)
    collocated = _Pairs(pairs.sender[on_one_node], pairs.receiver[on_one_node], pairs.rate[on_one_node])
    while max_pl > 0:
        unit = _maintain(cluster, traffic, collocated, max_pl=max_pl, budget=budget)
        pins = _improve(cluster, pairs, unit, rng)
        try:
            units, sizes = _units(cluster, unit), np.bincount(unit)
            node = milp(units, **limits, pins=pins, seconds=seconds, sizes=sizes).node[unit]
        except (InfeasibleError, OutOfTimeError):
            node = None  # smaller units may do
        if node is not None and cluster.load_distance(node) <= max_ld:
            return node
        max_pl -= step_pl
    return milp(cluster, **limits, seconds=seconds).node


def _budget(cluster: Cluster, max_migrations: int | None, max_migr_cost: float | None) -> Floats:
    """Return what the migration of each key group takes of each budget, shape (budgets, |G|)."""
    parts = [np.zeros(len(cluster.load))]
    if max_migrations is not None:
        check_whole("max_migrations", max_migrations)
        parts.append(np.full(len(cluster.load), 1 / max_migrations))
    if max_migr_cost is not None:
        check_positive("max_migr_cost", max_migr_cost)
        parts.append(cluster.cost / max_migr_cost)
    return np.array(parts)


def _scores(traffic: Traffic, sf: float) -> _Pairs:
    """Step 1: the pairs of which one sends the other more than sf avg(g_k)."""
    sent = traffic.out.tocoo()
    operators = int(traffic.operator.max()) + 1
    size = np.bincount(traffic.operator, minlength=operators)
    sends = np.zeros((operators, operators), dtype=bool)
    sends[traffic.operator[sent.row], traffic.operator[sent.col]] = sent.data > 0
    downstream = np.maximum(1, sends @ size)[traffic.operator]
    average = traffic.out.sum(axis=1) / downstream
    much = sent.data > sf * average[sent.row]
    return _Pairs(sent.row[much], sent.col[much], sent.data[much])


def _collocated(cluster: Cluster, pairs: _Pairs) -> Bools:
    """Return which pairs are on one node."""
    return np.asarray(cluster.node[pairs.sender] == cluster.node[pairs.receiver])


def _maintain(cluster: Cluster, traffic: Traffic, pairs: _Pairs, *, max_pl: float, budget: Floats) -> Int64s:
    """Step 2: return the unit of each key group: sets of collocated pairs, cut where they are too large to migrate."""
    groups = len(cluster.load)
    joined = sparse.csr_array((np.ones(len(pairs.rate)), (pairs.sender, pairs.receiver)), (groups, groups))
    _, set_of = sparse.csgraph.connected_components(joined, directed=False)
    order = np.argsort(set_of, kind="stable")
    unit = np.empty(groups, dtype=np.int64)
    units = 0
    todo = np.split(order, np.flatnonzero(np.diff(set_of[order])) + 1)
    while todo:
        members = todo.pop()
        taken = budget[:, members].sum(axis=1)
        tightest, load = int(np.argmax(taken)), float(cluster.load[members].sum()) / max_pl
        parts = max(math.ceil(taken[tightest]), math.ceil(load))
        if parts > 1 and len(members) > 1:
            weight = budget[tightest, members] if taken[tightest] > load else cluster.load[members]
            todo += graph_part(traffic.out, members, weight, parts)
        else:
            unit[members] = units
            units += 1
    return unit


def _improve(cluster: Cluster, pairs: _Pairs, unit: Int64s, rng: np.random.Generator) -> dict[int, int]:
    """Step 3: return where to pin the units of the pair that sends most of those not collocated."""
    stay = cluster.staying[cluster.node]
    apart = np.flatnonzero(~_collocated(cluster, pairs) & stay[pairs.sender] & stay[pairs.receiver])
    if not len(apart):
        return {}
    sending_most = apart[pairs.rate[apart] == pairs.rate[apart].max()]
    chosen = int(rng.choice(sending_most))
    both = [int(pairs.sender[chosen]), int(pairs.receiver[chosen])]
    size = np.bincount(unit)
    in_partition = [g for g in both if size[unit[g]] > 1]
    loads = cluster.loads()
    candidates = in_partition if len(in_partition) == 1 else both
    node = int(min((cluster.node[g] for g in candidates), key=lambda i: loads[i]))
    return {int(unit[g]): node for g in both}


def _units(cluster: Cluster, unit: Int64s) -> Cluster:
    """Return the cluster with units in place of key groups."""
    _, first = np.unique(unit, return_index=True)
    return replace(
        cluster,
        load=np.bincount(unit, cluster.load),
        node=cluster.node[first],
        cost=np.bincount(unit, cluster.cost),
        resources=tuple(Resource(np.bincount(unit, usage).astype(float), limit) for usage, limit in cluster.resources),
    )
