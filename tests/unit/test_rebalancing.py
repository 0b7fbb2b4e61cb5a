"""ELB, CLB, UHLB and Flux move what their papers say; all of them refuse what is no load."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from saltwise import SaltwiseError
from saltwise.errors import SaltwiseValueError
from saltwise.rebalancing.clb import clb
from saltwise.rebalancing.cluster import Cluster, Resource, loads_of
from saltwise.rebalancing.elb import elb
from saltwise.rebalancing.flux import flux
from saltwise.rebalancing.uhlb import uhlb

LOADS = st.lists(st.integers(0, 50), min_size=1, max_size=60)


@st.composite
def assigned(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    load = np.array(draw(LOADS), dtype=float)
    n = draw(st.integers(1, 8))
    instance = draw(st.lists(st.integers(0, n - 1), min_size=len(load), max_size=len(load)))
    return load, np.array(instance), n


# ELB


@given(assigned(), st.floats(0.2, 3))
def test_elb_leaves_no_instance_above_the_upper_bound(case: tuple[np.ndarray, np.ndarray, int], width: float) -> None:
    load, instance, n = case
    half = load.max() * (1 + width)
    assume(half > 0)
    lower, upper = half / 2, half / 2 + 2 * half
    found = elb(load, instance, n, lower, upper)
    loads = loads_of(load, found.instance, max(n, found.instances.max() + 1))
    assert loads.max() <= upper + 1e-9
    assert loads.sum() == pytest.approx(load.sum())
    assert set(found.instance[load > 0]) <= set(found.instances)
    assert len(found.instances) == max(1, np.ceil(round(2 * load.sum() / (lower + upper), 9)))


@given(assigned())
def test_elb_takes_from_an_overloaded_instance_only_its_excess(
    case: tuple[np.ndarray, np.ndarray, int],
) -> None:
    load, instance, n = case
    assume(load.sum() > 0)
    average, half = load.sum() / n, load.max()
    assume(average > half)
    before = loads_of(load, instance, n)
    after = loads_of(load, elb(load, instance, n, average - half, average + half).instance, n)
    overloaded = before > average
    assert (after[overloaded] >= np.minimum(before[overloaded], average) - 1e-9).all()
    assert (after[~overloaded] >= before[~overloaded]).all()


@pytest.mark.parametrize("width", [4, 6])
def test_elb_comes_close_to_the_middle_of_the_bounds(width: int) -> None:
    load, instance = [4, 3, 2, 2, 2, 1], [0, 0, 0, 1, 1, 1]
    assert elb(load, instance, 2, lower=7 - width, upper=7 + width).instance.tolist() == [0, 0, 1, 1, 1, 1]


def test_elb_gives_nothing_to_an_instance_that_is_overloaded() -> None:
    load, instance = [3, 3, 3, 3, 3, 1, 1], [0, 0, 0, 1, 1, 1, 2]
    assert elb(load, instance, 3, lower=2, upper=10).instance.tolist() == [2, 0, 0, 1, 1, 2, 2]


def test_elb_empties_the_least_loaded_instances_when_fewer_are_enough() -> None:
    found = elb([2, 2, 2, 1, 1], [0, 1, 2, 2, 3], 4, lower=2, upper=6)
    assert found.instances.tolist() == [1, 2]
    assert loads_of(np.array([2.0, 2, 2, 1, 1]), found.instance, 4).tolist() == [0, 4, 4, 0]


def test_elb_leaves_a_single_instance_as_it_is() -> None:
    rng = np.random.default_rng(1)
    for _ in range(100):
        load = np.append(rng.random(50), 1e-30)
        assert (elb(load, [0] * 51, 1, 0.0, 2 * load.sum()).instance == 0).all()


def test_elb_gives_new_instances_numbers_from_n_on() -> None:
    found = elb([2] * 6, [0] * 6, 1, lower=2, upper=6)
    assert found.instances.tolist() == [0, 1, 2]
    assert np.bincount(found.instance).tolist() == [2, 2, 2]


# CLB


def test_clb_keeps_substreams_apart_whose_loads_rise_together() -> None:
    t = np.arange(24)
    day, night = 10 + 5 * np.sin(t / 4), 10 - 5 * np.sin(t / 4)
    instance = clb(np.stack([day, day, night, night], axis=1), n=3)
    assert instance[0] != instance[1]
    assert instance[2] != instance[3]


@given(st.integers(2, 12), st.integers(2, 20), st.integers(0, 100), st.floats(0, 0.9))
def test_clb_parts_the_heaviest_substream_from_all_that_correlate(
    windows: int, p: int, seed: int, theta: float
) -> None:
    series = np.random.default_rng(seed).poisson(50, (windows, p)).astype(float)
    off = series - series.mean(axis=0)
    covariance = off.T @ off / windows * (1 - np.eye(p))
    bound = theta * np.outer(series.std(axis=0), series.std(axis=0))
    assume(not (np.abs(covariance - bound) < 1e-6).any(where=~np.eye(p, dtype=bool)))
    rising = np.where(covariance > bound, covariance, 0)
    weight = rising.sum(axis=1).round(6)
    assume((weight == weight.max()).sum() == 1)
    assert clb(series, n=2, theta=theta).tolist() == (rising[np.argmax(weight)] > 0).astype(int).tolist()


def test_clb_takes_no_rounding_for_a_correlation() -> None:
    series = np.random.default_rng(76).poisson(50, (6, 8))
    covariance = np.cov(series, rowvar=False, bias=True)
    # The covariance of two of these is 0, and its sum in floating point is not.
    assert (np.abs(covariance) < 1e-9).any()
    assert clb(series, n=2, theta=0).tolist() == [1, 0, 1, 0, 1, 1, 0, 1]


def test_clb_leaves_instances_empty_when_nothing_correlates() -> None:
    assert clb([[1, 3], [3, 1]], n=5).tolist() == [0, 0]
    assert clb([[1, 1], [3, 3]], n=5).tolist() == [0, 1]
    assert clb([[1, 1], [2, 3], [3, 2]], n=5, theta=0.4).tolist() == [0, 1]
    assert clb([[1, 1], [2, 3], [3, 2]], n=5, theta=0.6).tolist() == [0, 0]


# UHLB


def test_uhlb_collides_no_more_often_than_a_2_universal_family_does() -> None:
    drawn = [uhlb(2, 10, np.random.default_rng(seed)) for seed in range(3_000)]
    assert np.mean([one == other for one, other in drawn]) < 0.12
    assert np.bincount(np.concatenate(drawn), minlength=10).min() > 450


# Flux


@given(assigned(), st.integers(0, 6))
def test_flux_makes_loads_vary_less_with_one_key_group_a_pair(
    case: tuple[np.ndarray, np.ndarray, int], most: int
) -> None:
    cluster = Cluster(*case)
    node = flux(cluster, most)
    moved = cluster.moved(node)
    assert moved.sum() <= min(most, cluster.nodes // 2)
    assert len(set(cluster.node[moved])) == moved.sum()
    if (cluster.load[moved] > 0).any():
        assert cluster.loads(node).var() < cluster.loads().var()


def test_flux_pairs_nodes_and_moves_the_biggest_suitable_key_group() -> None:
    cluster = Cluster([9, 4, 6, 2, 1, 1, 3], [0, 0, 1, 1, 2, 3, 3], 4)  # loads 13, 8, 1, 4
    assert flux(cluster, 2).tolist() == [2, 0, 1, 3, 2, 3, 3]
    assert flux(cluster, 1).tolist() == [2, 0, 1, 1, 2, 3, 3]


# What a cluster is


def test_a_load_distance_counts_nodes_that_stay_and_their_capacity() -> None:
    cluster = Cluster([30, 30, 20], [0, 1, 2], 3, kill=[2])
    assert (cluster.mean, cluster.load_distance()) == (40, 10)
    slow = Cluster([30, 30], [0, 1], 2, capacity=[1, 2])
    assert slow.loads().tolist() == [30, 60]
    assert (slow.mean, slow.load_distance()) == (40, 20)


WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: Cluster([1, -2], [0, 0], 1), "load 1 is -2.0; it must be a finite number of at least 0."),
    (lambda: Cluster([float("nan")], [0], 1), "load 0 is nan; it must be a finite number of at least 0."),
    (lambda: Cluster([], [], 1), "load has the shape (0,); it must be a flat list of at least one number."),
    (lambda: Cluster([1], [0], 0), "nodes is 0; it must be a whole number of at least 1."),
    (lambda: Cluster([1], [3], 2), "node 0 is 3; it must be from 0 to 1."),
    (lambda: Cluster([1], [0, 1], 2), "node is of type int64 and shape (2,); it must be 1 whole numbers."),
    (lambda: Cluster([1], [0], 2, cost=[-1]), "cost 0 is -1.0; it must be a finite number of at least 0."),
    (lambda: Cluster([1], [0], 2, capacity=[1, 0]), "capacity of node 1 is 0; it must be above 0."),
    (lambda: Cluster([1], [0], 2, kill=[2]), "kill names node 2; nodes are 0 to 1."),
    (lambda: Cluster([1], [0], 2, kill=[0, 1]), "kill names all 2 nodes; at least one must stay."),
    (
        lambda: Cluster([1], [0], 2, resources=(Resource(np.ones(1), np.ones(1)),)),
        "limit has the shape (1,); it must be a flat list of 2 numbers.",
    ),
    (lambda: elb([1, -1], [0, 0], 1, 1, 5), "load 1 is -1.0; it must be a finite number of at least 0."),
    (lambda: elb([1], [0], 0, 1, 5), "n is 0; it must be a whole number of at least 1."),
    (lambda: elb([1], [2], 2, 1, 5), "instance 0 is 2; it must be from 0 to 1."),
    (lambda: elb([1], [0], 1, 5, 5), "lower and upper are 5 and 5; they must be 0 <= lower < upper."),
    (
        lambda: elb([1, 3], [0, 0], 1, 1, 5),
        "substream 1 has a load of 3; it must be (upper - lower) / 2 = 2 at most: widen the bounds, or use more "
        "substreams.",
    ),
    (lambda: clb([[1, 2]], 2), "series has the shape (1, 2); it must be at least two windows of loads."),
    (lambda: clb([[1, 2], [float("nan"), 1]], 2), "load 0 is nan; it must be a finite number of at least 0."),
    (lambda: clb([[1, 2], [2, 1]], 0), "n is 0; it must be a whole number of at least 1."),
    (lambda: clb([[1, 2], [2, 1]], 2, -1.0), "theta is -1.0; it must be a number from 0 to below 1."),
    (lambda: clb([[1, 2], [2, 1]], 2, 1.0), "theta is 1.0; it must be a number from 0 to below 1."),
    (lambda: uhlb(3, 0, np.random.default_rng(1)), "n is 0; it must be a whole number of at least 1."),
    (lambda: flux(Cluster([1], [0], 1), -1), "max_migrations is -1; it must be a whole number of at least 0."),
]


@pytest.mark.parametrize(("call", "message"), WRONG, ids=[message[:40] for _, message in WRONG])
def test_what_is_wrong_is_said_in_one_sentence(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(SaltwiseValueError) as error:
        call()
    assert str(error.value) == message
    assert isinstance(error.value, SaltwiseError)
