"""scan, redist, readj and level do what the paper's listings say, and their metrics are the paper's equations."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from inspect import signature
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from saltwise import SaltwiseError
from saltwise.placement.aims import Aims
from saltwise.placement.consistent_hash import ConsistentHash
from saltwise.placement.construct import ALGORITHMS, construct
from saltwise.placement.costs import (
    ideal_migration,
    imbalances,
    loads,
    migration_cost,
    relative_imbalance,
    relative_migration,
)
from saltwise.placement.hash_pair import HashPair
from saltwise.placement.partition_function import PartitionFunction
from saltwise.placement.resources import allowed_deviation, threshold, tracked, usage
from saltwise.placement.store import PlacementStore
from saltwise.placement.utility import UTILITIES
from saltwise.streams import zipf_shares

REPLICAS = 20
BETAS: dict[str, Callable[[float], float]] = {"C": lambda f: 1.0, "L": lambda f: f, "Q": lambda f: f * f}
COMBINE: dict[str, Callable[[float, float], float]] = {
    "A": lambda rho, gamma: rho,
    "APM": lambda rho, gamma: rho + gamma,
    "APLM": lambda rho, gamma: rho + math.log(1 + gamma),
    "ATM": lambda rho, gamma: rho * (1 + gamma),
    "ATLM": lambda rho, gamma: rho * (1 + math.log(1 + gamma)),
}

Placed = dict[int, int]


class Naive:
    """The listings word by word, each penalty computed from the whole mapping."""

    def __init__(
        self, f: dict[int, float], workers: int, previous: HashPair, resources: str, utility: str, hot: list[int]
    ) -> None:
        self.f, self.workers, self.resources, self.combine, self.hot = f, workers, resources, COMBINE[utility], hot
        every = [*f, *previous.explicit]
        old = dict(zip(every, previous.place(np.array(every, np.int64)).tolist(), strict=True))
        new = ConsistentHash(workers, replicas=REPLICAS).place(np.array(every, np.int64)).tolist()
        self.old, self.hash = old, dict(zip(every, new, strict=True))
        self.dropped = set(previous.explicit) - set(hot)

    def beta(self, resource: str, key: int) -> float:
        return BETAS[resource](self.f.get(key, 0.0))

    def rho(self, placed: Placed) -> float:
        counting = [r for r in self.resources if r != "C"]
        factors = []
        for resource in counting:
            load = [sum(self.beta(resource, d) for d in placed if placed[d] == i) for i in range(self.workers)]
            mean = sum(load) / self.workers
            factors.append((max(load) - min(load)) / (allowed_deviation(1.2, self.workers) * mean))
        return math.prod(factors) ** (1 / len(factors))

    def gamma(self, placed: Placed) -> float:
        state = self.resources[0]
        moved = sum(self.beta(state, d) for d in self.dropped if self.old[d] != self.hash[d])
        moved += sum(self.beta(state, d) for d in placed if placed[d] != self.old[d])
        return moved / (sum(self.beta(state, d) for d in {*self.hot, *self.dropped}) / self.workers)

    def utility(self, placed: Placed) -> float:
        return self.combine(self.rho(placed), self.gamma(placed))


@st.composite
def cases(draw: st.DrawFn, algorithm: str) -> tuple[Naive, HashPair]:
    """Return a problem of some hot keys, and the algorithm's own solution of it."""
    workers = draw(st.integers(2, 5))
    weights = draw(st.lists(st.integers(1, 1000), min_size=1, max_size=8, unique=True))
    resources, utility = draw(st.sampled_from(["LCL", "LLL", "LQL", "CCL"])), draw(st.sampled_from(list(UTILITIES)))
    keys = [-(2**62) + 7919**4 * i for i in range(len(weights))]
    f = {key: weight / (sum(weights) + 500) for key, weight in zip(keys, weights, strict=True)}
    before = draw(st.integers(1, workers))
    explicit = draw(st.dictionaries(st.sampled_from([*keys, 5, 6]), st.integers(0, before - 1)))
    previous = HashPair(before, explicit=explicit, replicas=REPLICAS)
    shares = np.array(list(f.values()))
    hot = [
        key for key, is_hot in zip(keys, tracked(shares, workers, Aims(resources, domain=10**6)), strict=True) if is_hot
    ]
    made = construct(
        np.array(keys), shares, workers, previous, algorithm, resources, utility=utility, domain=10**6, replicas=REPLICAS
    )  # fmt: skip
    return Naive(f, workers, previous, resources, utility, hot), made


@given(cases("scan"))
@settings(max_examples=settings().max_examples // 2)
def test_each_step_of_scan_takes_the_best_placement(case: tuple[Naive, HashPair]) -> None:
    naive, made = case
    placed: Placed = {}
    for key in sorted(naive.hot, key=lambda d: -naive.f[d]):
        best = min(naive.utility(placed | {key: worker}) for worker in range(naive.workers))
        placed[key] = made.explicit[key]
        assert naive.utility(placed) == pytest.approx(best, rel=1e-9, abs=1e-12)
    assert set(made.explicit) == set(naive.hot)


@given(cases("redist"))
@settings(max_examples=settings().max_examples // 2)
def test_each_step_of_redist_takes_the_best_utility_by_frequency(case: tuple[Naive, HashPair]) -> None:
    naive, made = case
    placed: Placed = {}
    left = set(naive.hot)
    while left:
        found = {
            (key, worker): naive.utility(placed | {key: worker}) / naive.f[key]
            for key, worker in product(left, range(naive.workers))
        }
        best = min(found.values())
        # One of the best candidates is what redist made; floating sums may order equal ones otherwise.
        taken = [k for (k, worker), u in found.items() if u <= best + 1e-9 and made.explicit[k] == worker]
        assert taken
        placed[taken[0]] = made.explicit[taken[0]]
        left.discard(taken[0])
    assert set(made.explicit) == set(naive.hot)


@given(st.sampled_from(["readj", "level"]).flatmap(cases))
@settings(max_examples=settings().max_examples // 2)
def test_readj_never_balances_worse_than_keys_that_stay(
    case: tuple[Naive, HashPair],
) -> None:
    naive, made = case
    assume(naive.hot)
    placed = dict(made.explicit)
    assert set(placed) == set(naive.hot)
    stayed = {d: naive.old[d] if naive.old[d] < naive.workers else naive.hash[d] for d in naive.hot}
    assert naive.rho(placed) <= naive.rho(stayed) * (1 + 1e-9)


@pytest.mark.parametrize("algorithm", ["readj", "level"])
@pytest.mark.parametrize("z", [0.3, 0.6, 0.9])
def test_readj_ends_where_no_move_and_no_swap_helps(z: float, algorithm: str) -> None:
    keys = np.arange(12) * 2**50
    shares = zipf_shares(12, z)
    f = dict(zip(keys.tolist(), shares.tolist(), strict=True))
    previous = HashPair(3, explicit={int(key): i % 3 for i, key in enumerate(keys)}, replicas=REPLICAS)
    placed = dict(construct(keys, shares, 4, previous, algorithm, replicas=REPLICAS).explicit)
    naive = Naive(f, 4, previous, "LCL", "APM", keys.tolist())
    rho = naive.rho(placed)
    assert rho < naive.rho(dict(previous.explicit))
    for d, worker in product(placed, range(4)):
        assert naive.rho(placed | {d: worker}) >= rho * (1 - 1e-9)
    for d, e in product(placed, placed):
        assert naive.rho(placed | {d: placed[e], e: placed[d]}) >= rho * (1 - 1e-9)


def chain(algorithm: str, workers: int, resources: str = "LLL", utility: str = "APM") -> tuple[float, float]:
    """Return b and m of the last of a chain of adaptations, of a hundred thousand keys at z = 1."""
    keys = np.random.default_rng(3).integers(-(2**63), 2**63 - 1, 100_000)
    frequencies = zipf_shares(100_000, 1.0)
    before: PartitionFunction = ConsistentHash(1)
    function: PartitionFunction = before
    for n in range(2, workers + 1):
        before, function = function, construct(
            keys[:500], frequencies[:500], n, function, algorithm, resources, utility=utility, domain=100_000
        )  # fmt: skip
    placed = [before.place(keys), function.place(keys)]
    b = relative_imbalance(loads(placed[1], frequencies, workers, resources))
    return b, relative_migration(placed[0], placed[1], frequencies, workers, resources[0])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_placed_keys_balance_better_than_a_consistent_hash_and_move_little(algorithm: str) -> None:
    keys = np.random.default_rng(3).integers(-(2**63), 2**63 - 1, 100_000)
    by_hash = relative_imbalance(loads(ConsistentHash(10).place(keys), zipf_shares(100_000, 1.0), 10, "LLL"))
    b, m = chain(algorithm, 10)
    assert b < 0.85 * by_hash
    assert m < 2.5


def test_a_utility_that_ignores_migration_moves_more() -> None:
    assert chain("redist", 10, utility="A")[1] > 1.3 * chain("redist", 10, utility="APM")[1]


def test_readj_leaves_alone_what_is_balanced() -> None:
    keys = np.arange(40) * 2**50
    even = HashPair(4, explicit={int(key): i % 4 for i, key in enumerate(keys)})
    assert construct(keys, np.full(40, 1 / 40), 4, even, "readj") == even


@pytest.mark.parametrize("algorithm", [name for name in ALGORITHMS if name != "readj"])
def test_without_a_function_in_use_equal_keys_are_spread_evenly(algorithm: str) -> None:
    keys = np.arange(40) * 2**50
    made = construct(keys, np.full(40, 1 / 40), 8, algorithm=algorithm)
    assert np.bincount(made.place(keys)).tolist() == [5] * 8


@pytest.mark.parametrize(("algorithm", "counts"), [("readj", [6, 6]), ("level", [3, 3, 3, 3])])
def test_readj_stops_where_workers_tie_and_level_goes_on(algorithm: str, counts: list[int]) -> None:
    keys = np.arange(12)
    previous = HashPair(4, explicit={int(key): int(key) % 2 for key in keys})
    made = construct(keys, np.full(12, 1 / 12), 4, previous, algorithm)
    assert np.bincount(made.place(keys)).tolist() == counts


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_no_key_stays_on_a_worker_that_is_no_more(algorithm: str) -> None:
    keys = np.arange(30) * 2**50
    five = construct(keys, zipf_shares(30, 0.5), 5)
    four = construct(keys, zipf_shares(30, 0.5), 4, five, algorithm)
    assert set(four.place(keys).tolist()) == {0, 1, 2, 3}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_constant_resources_and_a_single_worker_need_no_table(algorithm: str) -> None:
    keys = np.array([1, 2])
    assert construct(keys, np.array([0.6, 0.4]), 5, algorithm=algorithm, resources="CCC").explicit == {}
    assert construct(keys, np.array([0.6, 0.4]), 1, algorithm=algorithm).explicit == {}
    assert construct(keys[:1], np.array([1.0]), 1, algorithm=algorithm).explicit == {}
    assert len(construct(keys[:1], np.array([1.0]), 5, algorithm=algorithm, resources="CCC").explicit) == 1
    assert construct(keys[:0], np.array([]), 5, algorithm=algorithm).explicit == {}


def test_a_key_that_is_tracked_no_more_falls_back_to_the_hash() -> None:
    previous = HashPair(3, explicit={1: 2, 2: 1})
    made = construct(np.array([1, 2]), np.array([0.5, 1e-6]), 3, previous)
    assert set(made.explicit) == {1}


def test_the_channels_of_figure_1() -> None:
    frequencies = np.array([5.0, 3, 2, 1, 4, 3, 3, 1])
    placed = np.array([0, 0, 0, 0, 1, 1, 1, 1], np.int32)
    found = loads(placed, frequencies, 2, "LQL")
    assert found.tolist() == [[11, 11], [39, 35], [11, 11]]
    assert imbalances(found).round(1).tolist() == [1.0, 1.1, 1.0]
    after = placed.copy()
    after[[4, 5]] = 2
    assert migration_cost(placed, after, frequencies) == 7


def test_relative_costs_are_those_of_the_equations() -> None:
    frequencies, before, after = np.array([0.5, 0.3, 0.2]), np.array([0, 1, 1]), np.array([0, 1, 2])
    assert ideal_migration(frequencies, 3) == pytest.approx(1 / 3)
    assert relative_migration(before, after, frequencies, 3) == pytest.approx(0.6)
    assert relative_migration(before, after, frequencies, 3, "C") == pytest.approx(1.0)
    b = relative_imbalance(loads(after, frequencies, 3, "LCL"), alpha=1.25)
    assert b == pytest.approx((2.5 / 1.25 * 1 / 1.25 * 2.5 / 1.25) ** (1 / 3))


def test_an_empty_worker_makes_the_imbalance_infinite_unless_all_are_empty() -> None:
    assert imbalances(np.array([[1.0, 0.0], [0.0, 0.0]])).tolist() == [math.inf, 1.0]


@given(st.floats(1.01, 4), st.integers(2, 100))
def test_theta_is_what_the_fullest_of_otherwise_equal_workers_may_have(alpha: float, workers: int) -> None:
    theta = allowed_deviation(alpha, workers)
    assert theta == pytest.approx((alpha - 1) / (1 + alpha / (workers - 1)))
    load = np.array([alpha, *[1.0] * (workers - 1)])
    assert load.max() == pytest.approx((1 + theta) * load.mean())


def test_delta_is_that_of_equation_17() -> None:
    theta = allowed_deviation(1.2, 10)
    assert threshold(Aims("CCC"), 10) == 1
    assert threshold(Aims("CCL"), 10) == pytest.approx(0.1 * theta / 10)
    assert threshold(Aims("CQC", domain=10**6), 10) == pytest.approx(math.sqrt(0.1 * theta / (10**6 * 10)))
    assert threshold(Aims("LQL", domain=10), 10) == pytest.approx(min(0.1 * theta / 10, math.sqrt(0.1 * theta / 100)))
    assert threshold(Aims("LLL"), 1) == 1


def test_quadratic_resources_track_as_many_keys_as_linear_ones() -> None:
    shares = zipf_shares(10**6, 1.0)[:5000]
    linear = tracked(shares, 10, Aims("LLL"))
    assert (tracked(shares, 10, Aims("LQL", domain=10**6)) == linear).all()
    assert linear.sum() == 39
    assert (shares >= threshold(Aims("LQL", domain=10**6), 10)).sum() > 1500


def test_defaults_of_the_paper_are_said_once() -> None:
    assert Aims() == Aims(resources="LLL", alpha=1.2, sigma=0.1, utility="APM", domain=None)
    for function in construct, PlacementStore.__init__:
        parameters = signature(function).parameters
        assert {field.name: parameters[field.name].default for field in fields(Aims)} == vars(Aims())


def test_usage_is_constant_linear_or_quadratic() -> None:
    assert [usage(np.array([0.5]), r).tolist() for r in "CLQ"] == [[1.0], [0.5], [0.25]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "redits"}, "algorithm is 'redits'; it must be one of scan, redist, readj, level; did you mean 'redist'?"),
        ({"utility": "APN"}, "utility is 'APN'; it must be one of A, APM, APLM, ATM, ATLM."),
        ({"resources": "LXL"}, "resources is 'LXL'; it must be three of C, L and Q, for state, computation and communication."),
        ({"resources": "LL"}, "resources is 'LL'; it must be three of C, L and Q, for state, computation and communication."),
        ({"resources": "LQL"}, "domain is None; it must be the number of different keys, as LQL has a quadratic resource."),
        ({"resources": "LQL", "domain": 2.5}, "domain is 2.5; it must be a whole number of at least 1."),
        ({"domain": 0}, "domain is 0; it must be a whole number of at least 1."),
        ({"alpha": 1.0}, "alpha is 1.0; it must be a number above 1."),
        ({"sigma": 0}, "sigma is 0; it must be a share above 0 and at most 1."),
        ({"workers": 0}, "workers is 0; it must be a whole number from 1 to 100000."),
        ({"previous": ConsistentHash(2, "string")}, "key_type is 'bigint'; it must be 'string', as in previous."),
        ({"frequencies": np.array([math.nan])}, "frequencies has nan; it must be shares of all rows, from 0 to 1."),
    ],
)  # fmt: skip
def test_arguments_that_are_not_allowed(options: dict[str, object], message: str) -> None:
    with pytest.raises(SaltwiseError) as error:
        construct(**({"keys": np.array([1]), "frequencies": np.array([0.5]), "workers": 2} | options))  # type: ignore[arg-type]
    assert str(error.value) == message
