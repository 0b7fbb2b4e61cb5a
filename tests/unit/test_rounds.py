"""What a round of a balancer moves, by every planner: never more than the budget, never for nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from saltwise import SaltwiseValueError
from saltwise.rebalancing.cluster import Cluster
from saltwise.rebalancing.rounds import EVEN, PLANNERS, Budget, Decision, Window, decide, unevenness, within
from saltwise.rebalancing.traffic import Traffic

EVENING = [name for name in PLANNERS if name != "uhlb"]
"""Planners that look at loads."""


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    nodes = draw(st.integers(2, 5))
    groups = draw(st.integers(nodes, 24))
    numbers = st.lists(st.floats(0, 100), min_size=groups, max_size=groups)
    return Cluster(
        load=draw(numbers),
        node=draw(st.lists(st.integers(0, nodes - 1), min_size=groups, max_size=groups)),
        nodes=nodes,
        cost=draw(numbers),
        kill=draw(st.lists(st.integers(0, nodes - 1), max_size=nodes - 1, unique=True)),
    )


def steady_window(cluster: Cluster, batches: int = 10) -> Window:
    """Return a window in which every batch was the same."""
    return Window(cluster, np.tile(cluster.load, (batches, 1)))


def decided(planner: str, window: Window, budget: Budget) -> Decision:
    return decide(planner, window, budget, rng=np.random.default_rng(1))


@given(clusters(), st.sampled_from(list(PLANNERS)), st.integers(1, 30), st.floats(0, 500))
@example(Cluster(load=[0, 1], node=[0, 0], nodes=2), "elb", 1, 500)
@example(Cluster(load=[5e-324, 0, 0], node=[0, 1, 1], nodes=3, kill=[2]), "elb", 3, 500)
def test_a_round_keeps_its_budget_and_says_why_nothing_moves(
    cluster: Cluster, planner: str, moves: int, size: float
) -> None:
    decision = decided(planner, steady_window(cluster), Budget(moves, size))
    moved = cluster.moved(decision.node)
    assert moved.sum() <= moves
    assert cluster.cost[moved].sum() <= size
    assert bool(decision.reason) == (not moved.any())


@given(clusters(), st.sampled_from(EVENING))
def test_key_groups_leave_the_nodes_that_leave_and_none_goes_there(cluster: Cluster, planner: str) -> None:
    decision = decided(planner, steady_window(cluster), Budget(100))
    staying = cluster.staying
    arrived = decision.node[cluster.moved(decision.node)]
    assert staying[arrived].all()
    if not decision.reason:
        assert staying[decision.node].all()


@pytest.mark.parametrize("planner", EVENING)
def test_a_planner_evens_out_what_one_node_holds(planner: str) -> None:
    load = 1 / np.arange(1, 33)
    cluster = Cluster(load=load, node=np.zeros(32, dtype=int), nodes=4)
    rng = np.random.default_rng(1)
    # Key groups whose loads rise in the same batches; for clb, which keeps such groups apart.
    window = Window(cluster, np.outer(1 + rng.random(10), load))
    assert unevenness(cluster) == 4
    assert unevenness(cluster, decided(planner, window, Budget(100)).node) < (2.2 if planner == "clb" else 1.1)


def test_loads_that_are_even_are_left_alone() -> None:
    cluster = Cluster(load=[5.1, 5, 5, 5], node=[0, 0, 1, 1], nodes=2)
    for planner in PLANNERS:
        assert decided(planner, steady_window(cluster), Budget(4)).reason == "loads are even: max/mean is 1.00"
    assert unevenness(cluster) <= EVEN


@pytest.mark.parametrize("planner", ["milp", "flux", "elb"])
def test_where_many_moves_take_longer_than_they_gain_fewer_are_made(planner: str) -> None:
    rng = np.random.default_rng(5)
    load = 8 * rng.dirichlet(np.ones(100))
    cluster = Cluster(load=load, node=np.arange(100) % 4, nodes=4)
    window = steady_window(cluster, batches=2)
    found = decided(planner, window, Budget(100))
    assert not found.reason
    assert 0 < found.pause < 2 * found.gain
    assert unevenness(cluster, found.node) < 1 + (unevenness(cluster) - 1) / 2


def test_moves_that_take_longer_than_they_gain_are_left_out() -> None:
    cluster = Cluster(load=[2, 1, 1], node=[0, 0, 1], nodes=2, cost=[1e9, 1e9, 1e9])
    dear = Budget(3, moves_per_second=1, bytes_per_second=1e8)
    assert decided("flux", steady_window(cluster, batches=10), dear).reason == (
        "moves would take 11.00 s, and gain 1.00 s in each of 10 batches"
    )
    assert not decided("flux", steady_window(cluster, batches=12), dear).reason


def test_nothing_is_planned_where_even_loads_would_not_pay_for_one_move() -> None:
    cluster = Cluster(load=[3, 1, 1, 1], node=[0, 0, 0, 1], nodes=2)
    for planner in PLANNERS:
        assert decided(planner, steady_window(cluster, batches=2), Budget(4, moves_per_second=0.2)).reason == (
            "even loads would gain 2.000 s in each of 2 batches, and a move takes longer"
        )
    assert not decided("milp", steady_window(cluster, batches=2), Budget(4, moves_per_second=1)).reason


def test_loads_near_the_largest_number_are_planned() -> None:
    cluster = Cluster(load=[1e307, 1e307], node=[0, 0], nodes=2)
    for planner in ("milp", "flux", "elb"):
        assert sorted(decided(planner, steady_window(cluster), Budget(4)).node) == [0, 1], planner


def test_a_node_that_leaves_is_emptied_whatever_that_costs() -> None:
    cluster = Cluster(load=[1, 1, 1], node=[0, 1, 2], nodes=3, cost=[1e12] * 3, kill=[2])
    for planner in PLANNERS:
        assert decided(planner, steady_window(cluster), Budget(3)).node[2] != 2, planner


def test_the_budget_goes_to_the_fullest_node_first() -> None:
    cluster = Cluster(load=[6, 1, 3, 3], node=[0, 0, 1, 1], nodes=3)
    assert within(cluster, np.array([2, 0, 2, 1]), Budget(1)).tolist() == [2, 0, 1, 1]


def test_elb_leaves_a_key_group_above_the_mean_alone_on_its_node() -> None:
    cluster = Cluster(load=[9, 1, 1, 1, 1], node=[0, 0, 0, 1, 2], nodes=3)
    node = decided("elb", steady_window(cluster), Budget(5)).node
    assert (node == 0).tolist() == [True, False, False, False, False]
    assert cluster.loads(node).tolist() == [9, 2, 2]


def test_albic_brings_together_what_sends_much() -> None:
    out = np.zeros((8, 8))
    out[range(4), range(4, 8)] = 10.0
    cluster = Cluster(load=[1.0] * 8, node=[0, 0, 0, 0, 0, 0, 1, 1], nodes=2)
    traffic = Traffic(out, operator=[0] * 4 + [1] * 4)
    node, window = cluster.node, steady_window(cluster)._replace(traffic=traffic)
    for _ in range(4):
        node = decided("albic", window, Budget(8)).node
        window = window._replace(cluster=Cluster(load=cluster.load, node=node, nodes=2))
    assert traffic.collocation(node) > traffic.collocation(cluster.node)


def test_albic_empties_a_node_that_leaves_where_there_is_no_load() -> None:
    out = np.zeros((4, 4))
    out[0, 2] = 5.0
    cluster = Cluster(load=[0] * 4, node=[0, 0, 1, 1], nodes=2, kill=[1])
    window = steady_window(cluster)._replace(traffic=Traffic(out, operator=[0, 0, 1, 1]))
    assert decided("albic", window, Budget(4)).node.tolist() == [0, 0, 0, 0]


def test_cola_brings_together_what_sends_much_and_evens_out_the_loads() -> None:
    out = np.zeros((8, 8))
    out[range(4), range(4, 8)] = 10.0
    cluster = Cluster(load=[1.0] * 8, node=[0, 0, 0, 0, 0, 0, 1, 1], nodes=2)
    traffic = Traffic(out, operator=[0] * 4 + [1] * 4)
    node = decided("cola", steady_window(cluster)._replace(traffic=traffic), Budget(8)).node
    assert traffic.collocation(node) == 1
    assert unevenness(cluster, node) == 1


def test_of_colas_plan_only_what_the_budget_allows_is_made_and_only_if_it_gains() -> None:
    rng = np.random.default_rng(3)
    cluster = Cluster(load=rng.random(40), node=np.minimum(np.arange(40) // 8, 3), nodes=4)
    traffic = Traffic(rng.random((40, 40)), operator=np.zeros(40))
    window = steady_window(cluster)._replace(traffic=traffic)
    planned = decided("cola", window, Budget(40))
    part = decided("cola", window, Budget(6))
    assert cluster.moved(planned.node).sum() > 6
    assert 0 < cluster.moved(part.node).sum() <= 6
    assert unevenness(cluster, planned.node) < unevenness(cluster, part.node) < unevenness(cluster)


def test_a_planner_that_does_not_exist_is_refused() -> None:
    with pytest.raises(
        SaltwiseValueError, match=r"planner is 'mlip'; it must be one of flux, milp, .*; did you mean 'm"
    ):
        decided("mlip", steady_window(Cluster(load=[1], node=[0], nodes=1)), Budget(1))
