"""The MILP finds the best allocation that its constraints allow, ALBIC and COLA keep together what talks."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from benchmarks.papers.reconfiguration_milp import fluctuating
from hypothesis import given, settings
from hypothesis import strategies as st

from saltwise.arrays import Int64s
from saltwise.errors import SaltwiseValueError
from saltwise.rebalancing.adaptation import adapt
from saltwise.rebalancing.albic import albic
from saltwise.rebalancing.cluster import Cluster, Resource
from saltwise.rebalancing.cola import cola
from saltwise.rebalancing.flux import flux
from saltwise.rebalancing.milp import W1, W2, InfeasibleError, OutOfTimeError, milp
from saltwise.rebalancing.traffic import Traffic, graph_part


def rng() -> np.random.Generator:
    return np.random.default_rng(1)


def objective(cluster: Cluster, node: Int64s) -> float:
    """Return w_1 d - w_2 (d_u + d_l), where both are as large as constraints (3) and (4) allow."""
    off, d = cluster.loads(node) - cluster.mean, cluster.load_distance(node)
    return W1 * d - W2 * float(2 * d - off.max() + off.min())


def best(cluster: Cluster, allowed: Callable[[Int64s], bool]) -> float:
    """Try every allocation; return the least objective."""
    every = (np.array(node) for node in product(range(cluster.nodes), repeat=len(cluster.load)))
    return min(objective(cluster, node) for node in every if allowed(node))


# The MILP


@settings(max_examples=settings().max_examples // 4)
@given(
    st.lists(st.integers(1, 20), min_size=6, max_size=6),
    st.lists(st.integers(0, 2), min_size=6, max_size=6),
    st.integers(1, 6),
)
def test_a_small_milp_is_solved_to_the_optimum(load: list[int], node: list[int], most: int) -> None:
    cluster = Cluster(load, node, 3)

    def allowed(plan: Int64s) -> bool:
        return bool(cluster.moved(plan).sum() <= most and cluster.load_distance(plan) <= cluster.mean)

    try:
        found = milp(cluster, max_migrations=most)
    except InfeasibleError:
        assert not any(allowed(np.array(plan)) for plan in product(range(3), repeat=6))
        return
    assert allowed(found.node)
    assert objective(cluster, found.node) == pytest.approx(best(cluster, allowed), abs=2e-5 * cluster.mean)
    assert found.bound <= cluster.load_distance(found.node) + 1e-6


def test_the_cost_of_migrations_is_bounded_by_state_and_not_by_number() -> None:
    cluster = Cluster([4, 4, 2, 2], [0, 0, 0, 0], 2, cost=[9, 1, 1, 1])
    node = milp(cluster, max_migr_cost=2).node
    assert node[0] == 0
    assert cluster.load_distance(node) == 0
    assert milp(cluster, max_migr_cost=1).node.sum() == 1


def test_a_node_of_half_the_capacity_gets_half_the_load() -> None:
    cluster = Cluster(np.ones(30), np.zeros(30, dtype=int), 2, capacity=[1, 2])
    assert np.bincount(milp(cluster).node).tolist() == [20, 10]


def test_a_further_resource_is_limited_on_each_node() -> None:
    memory = Resource(np.array([5.0, 5, 1, 1]), np.array([6.0, 6]))
    cluster = Cluster([3, 3, 3, 3], [0, 1, 0, 1], 2, resources=(memory,))
    node = milp(cluster, pins={2: 1}, max_migrations=2).node
    assert node[2] == 1
    assert node[0] != node[1]
    assert node[3] == 0


def test_pinned_key_groups_are_where_they_are_pinned() -> None:
    cluster = Cluster([5, 5, 5, 5], [0, 0, 1, 1], 2)
    node = milp(cluster, pins={0: 1, 2: 1}).node
    assert node.tolist() == [1, 0, 1, 0]


def test_nodes_marked_for_removal_are_emptied_even_of_key_groups_without_load() -> None:
    cluster = Cluster([5, 4, 3, 0, 2], [0, 1, 2, 2, 2], 3, kill=[2])
    while (cluster.node == 2).any():
        node = milp(cluster, max_migrations=1).node
        assert cluster.moved(node).sum() == 1
        assert (node[cluster.node != 2] != 2).all()
        cluster = Cluster(cluster.load, node, 3, kill=[2])
    assert cluster.load_distance() <= 1


def test_the_last_key_groups_leave_a_marked_node_at_any_load_distance() -> None:
    cluster = Cluster([30, 30, 30, 20, 20], [0, 1, 2, 3, 3], 4, kill=[3])
    assert milp(cluster, max_migrations=2).node.max() < 3
    one = Cluster([30, 30, 30, 20], [0, 1, 2, 3], 4, kill=[3])
    node = milp(one, max_migrations=1).node
    assert node.max() < 3
    assert one.load_distance(node) > one.load_distance()


def test_the_papers_constraints_alone_may_leave_a_marked_node_filled() -> None:
    one = Cluster([30, 30, 30, 20], [0, 1, 2, 3], 4, kill=[3])
    assert milp(one, max_migrations=1, literal=True).node.tolist() == [0, 1, 2, 3]
    many = Cluster([5] * 8, [0, 0, 1, 1, 2, 2, 3, 3], 4, kill=[3])
    assert milp(many, max_migrations=1, literal=True).node.tolist() == many.node.tolist()
    assert milp(many, max_migrations=1).node.max() == 3


def test_a_large_milp_keeps_its_limits_and_does_better_than_flux() -> None:
    cluster = fluctuating(20, 400, 30, rng())
    found = milp(cluster, max_migrations=20, seconds=1.5)
    assert cluster.moved(found.node).sum() <= 20
    assert found.bound - 1e-6 <= cluster.load_distance(found.node) < cluster.load_distance(flux(cluster, 20)) / 2


def test_a_large_scale_in_never_fills_marked_nodes_and_respects_memory() -> None:
    memory = Resource(np.ones(400), np.full(20, 26.0))
    cluster = fluctuating(20, 400, 30, rng())
    cluster = Cluster(cluster.load, cluster.node, 20, kill=[3, 4], resources=(memory,))
    node = milp(cluster, max_migrations=15, seconds=1.5).node
    assert np.isin(node, [3, 4]).sum() < 40
    assert not np.isin(node[~np.isin(cluster.node, [3, 4])], [3, 4]).any()
    assert np.bincount(node).max() <= 26


def test_the_unit_of_the_loads_makes_no_difference() -> None:
    load = rng().permutation(np.arange(1.0, 25) ** -0.6)
    found = [
        milp(Cluster(load * 2.0**unit, np.arange(24) % 4, 4), max_migrations=2, seconds=100) for unit in (-40, 0, 40)
    ]
    assert [each.node.tolist() for each in found] == [found[0].node.tolist()] * 3
    assert [each.bound * 2.0**-unit for each, unit in zip(found, (-40, 0, 40), strict=True)] == [found[1].bound] * 3


def test_loads_near_the_smallest_number_are_planned() -> None:
    assert milp(Cluster([5e-324, 5e-324], [0, 0], 2)).node.tolist() in ([0, 1], [1, 0], [0, 0])


def test_an_infeasible_milp_is_named() -> None:
    cluster = Cluster([9, 9, 1], [0, 0, 1], 3)
    for none in (cluster, Cluster(np.ones(400), np.arange(400) % 7, 20)):
        with pytest.raises(InfeasibleError) as error:
            milp(none, max_migrations=0)
        assert str(error.value) == (
            "No allocation keeps each node within twice the mean load and its resources, with the migrations allowed: "
            "allow more of them, or add nodes."
        )
    with pytest.raises(InfeasibleError) as error:
        milp(cluster, max_migrations=1, pins={0: 1, 1: 2})
    assert str(error.value) == "The pins alone take more migration than is allowed: allow more, or pin less."


def test_without_a_solution_in_time_nothing_moves_if_that_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    late = SimpleNamespace(x=None, status=1, mip_dual_bound=None)
    monkeypatch.setattr("saltwise.rebalancing.milp.optimize.milp", lambda *_, **__: late)
    for cluster in (Cluster([1], [0], 1), fluctuating(20, 400, 50, rng())):
        assert milp(cluster, seconds=2).node.tolist() == cluster.node.tolist()
    memory = Resource(np.array([1.0]), np.array([0.5, 1]))
    for cluster in (Cluster([2, 1], [0, 0], 3), Cluster([1], [0], 2, resources=(memory,))):
        with pytest.raises(OutOfTimeError, match=r"^The MILP has no allocation after 2 seconds: give it more time\.$"):
            milp(cluster, seconds=2)


# ALBIC and COLA


def chains(pairs: int) -> tuple[np.ndarray, Traffic]:
    """Return loads of 10 and the traffic of key groups of which each sends to one other."""
    out = np.zeros((2 * pairs, 2 * pairs))
    out[np.arange(pairs), pairs + np.arange(pairs)] = 5.0 + np.arange(pairs)
    return np.full(2 * pairs, 10.0), Traffic(out, np.repeat([0, 1], pairs))


def test_albic_collocates_one_more_pair_in_each_period_and_keeps_it() -> None:
    load, traffic = chains(8)
    node = np.concatenate([np.arange(8) % 4, (np.arange(8) + 1) % 4])
    seen = []
    for _ in range(8):
        cluster = Cluster(load, node, 4)
        node = albic(cluster, traffic, 4, rng())
        assert cluster.moved(node).sum() <= 4
        assert cluster.load_distance(node) <= 10
        seen.append(traffic.collocation(node))
    assert seen == sorted(seen)
    assert seen[0] > 0
    assert seen[-1] == 1


def test_albic_takes_the_pair_that_sends_most_first() -> None:
    load, traffic = chains(4)
    node = albic(Cluster(load, [0, 1, 2, 3, 1, 2, 3, 0], 4), traffic, 2, rng())
    assert node[3] == node[7]


def test_albic_balances_where_no_unit_fits() -> None:
    load, traffic = chains(2)
    cluster = Cluster(load, [0, 0, 0, 1], 2)
    node = albic(cluster, traffic, 1, rng(), max_ld=0)
    assert cluster.load_distance(node) == 0


def test_albic_splits_sets_that_are_too_large_to_balance() -> None:
    load, traffic = chains(4)
    cluster = Cluster(load, [0] * 8, 2)
    node = albic(cluster, traffic, 4, rng(), max_pl=20)
    assert cluster.load_distance(node) == 0
    assert traffic.collocation(node) == 1


def test_cola_keeps_together_what_talks_and_stops_splitting_when_balanced_enough() -> None:
    load, traffic = chains(8)
    cluster = Cluster(load, np.arange(16) % 4, 4)
    node = cola(cluster, traffic)
    assert cluster.load_distance(node) <= 10
    assert traffic.collocation(node) == 1
    assert cola(cluster, traffic, max_ld=1_000).tolist() == [0] * 16


@given(st.lists(st.floats(0, 50), min_size=1, max_size=30), st.integers(2, 5), st.integers(0, 1_000))
def test_cola_is_balanced_or_has_split_all(load: list[float], nodes: int, seed: int) -> None:
    groups = len(load)
    random = np.random.default_rng(seed)
    traffic = Traffic(random.random((groups, groups)) * (random.random((groups, groups)) < 0.3), np.zeros(groups, int))
    cluster = Cluster(load, np.zeros(groups, int), nodes, kill=[1])
    node = cola(cluster, traffic, max_ld=5)
    assert (node != 1).all()
    if cluster.load_distance(node) > 5:  # longest first is within 4/3 of the best, and of the largest key group
        assert cluster.loads(node).max() <= cluster.mean + max(load)


@given(st.integers(1, 40), st.integers(1, 12), st.integers(0, 1_000))
def test_parts_are_a_partition_and_none_is_empty(groups: int, parts: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    out = Traffic(random.random((groups, groups)), np.zeros(groups, int)).out
    found = graph_part(out, np.arange(groups), random.random(groups), parts)
    assert len(found) == min(parts, groups)
    assert min(map(len, found)) >= 1
    assert sorted(np.concatenate(found).tolist()) == list(range(groups))


# The adaptation framework


def balanced(cluster: Cluster) -> Int64s:
    return milp(cluster, max_migrations=4).node


def test_scaling_out_adds_nodes_and_takes_marks_back_first() -> None:
    cluster = Cluster([20.0] * 12, np.arange(12) % 3, 3, kill=[2])
    period = adapt(cluster, balanced, min_load=30, max_load=70)
    assert (period.added, period.cluster.nodes, period.marked.tolist()) == (2, 5, [])
    assert period.cluster.load_distance() < cluster.load_distance()


def test_scaling_in_marks_the_least_loaded_and_ends_it_once_empty() -> None:
    cluster = Cluster([10.0] * 8, np.arange(8) % 4, 4)
    periods = []
    for _ in range(5):
        periods.append(adapt(cluster, balanced, min_load=30, max_load=70))
        cluster = periods[-1].cluster
    assert len(periods[0].marked) == 2
    assert sum(len(period.terminated) for period in periods) == 2
    assert (cluster.nodes, cluster.loads().tolist(), cluster.kill.tolist()) == (2, [40, 40], [])


def test_an_allocation_that_is_enough_adds_no_node() -> None:
    cluster = Cluster([20.0] * 4, [0, 0, 0, 1], 2)
    period = adapt(cluster, balanced, min_load=30, max_load=70)
    assert period.added == 0
    assert period.cluster.loads().tolist() == [40, 40]


WRONG: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: milp(Cluster([1], [0], 1), max_migrations=-1),
        "max_migrations is -1; it must be a whole number of at least 0.",
    ),
    (
        lambda: milp(Cluster([1], [0], 1), max_migr_cost=float("nan")),
        "max_migr_cost is nan; it must be a number of at least 0.",
    ),
    (lambda: milp(Cluster([1], [0], 1), seconds=0), "seconds is 0; it must be a number above 0."),
    (
        lambda: milp(Cluster([1], [0], 2), pins={0: 2}),
        "pins put key group 0 on node 2; key groups are 0 to 0, nodes 0 to 1.",
    ),
    (
        lambda: Traffic([[1.0]], [0, 0]),
        "out has the shape (1, 1); it must have a row and a column for each of 2 key groups.",
    ),
    (lambda: Traffic([[-1.0]], [0]), "out 0 is -1.0; it must be a finite number of at least 0."),
    (
        lambda: cola(Cluster([1, 1], [0, 0], 1), Traffic([[1.0]], [0])),
        "traffic is of 1 key groups; it must be of the cluster's 2.",
    ),
    (lambda: cola(Cluster([1], [0], 1), Traffic([[1.0]], [0]), -1), "max_ld is -1; it must be a number of at least 0."),
    (
        lambda: albic(Cluster([1], [0], 1), Traffic([[1.0]], [0]), 1, rng(), step_pl=0),
        "step_pl is 0; it must be a number above 0.",
    ),
    (
        lambda: adapt(Cluster([1], [0], 1), balanced, 5, 5),
        "min_load and max_load are 5 and 5; they must be 0 <= min_load < max_load.",
    ),
]


@pytest.mark.parametrize(("call", "message"), WRONG, ids=[message[:40] for _, message in WRONG])
def test_what_is_wrong_is_said_in_one_sentence(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(SaltwiseValueError) as error:
        call()
    assert str(error.value) == message
