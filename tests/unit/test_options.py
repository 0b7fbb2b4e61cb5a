"""An option is settled in one way: argument, then the session's conf, then the default; none is dropped silently."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

import saltwise
from saltwise import SaltwiseError, SaltwiseValueError
from saltwise.options import EPSILON, MAX_CAPACITY, SettledOptions, SkewOptions, default_capacity, settle
from saltwise.placement.aims import Aims
from saltwise.placement.history import keys_to_track
from saltwise.spark.grouping.key_weights import key_capacity
from saltwise.strategies import ROUTING, STRATEGIES, StrategyName


def test_the_type_of_strategies_names_those_of_the_table() -> None:
    assert get_args(StrategyName) == tuple(STRATEGIES)


def test_sketches_have_at_most_as_many_counters_as_in_the_plugin() -> None:
    assert default_capacity(1e-9) == MAX_CAPACITY == 1 << 24
    with pytest.raises(SaltwiseValueError) as refused:
        SkewOptions(sketch_capacity=MAX_CAPACITY + 1)
    assert str(refused.value) == "sketch_capacity is 16777217; it must be a whole number from 1 to 16777216."


def test_a_theta_of_almost_nothing_has_the_largest_sketch_and_is_never_solved() -> None:
    from saltwise.splitting.schemes import SPLITTING
    from saltwise.splitting.source import Settings, new_sources

    assert settle(SkewOptions(theta=1e-320), {"partitions": "8", "sketch_capacity": "5"}).capacity == MAX_CAPACITY
    assert settle(SkewOptions(theta=1e-320), {"partitions": "8"}).capacity == MAX_CAPACITY
    source = new_sources(1, 8, Settings(SPLITTING["dchoices"], 1e-320, EPSILON, 0), keys=0, capacity=5)
    assert source.state["solve_at"] == 2**63 - 1


def test_a_placement_has_ten_counters_for_each_key_that_it_tracks() -> None:
    settled = SettledOptions("level", 100, 0.002)
    exact, counted = (key_capacity(settled, cost, Aims()) for cost in ("bytes", "rows"))
    assert exact == 10_000 > keys_to_track(100)
    assert counted == 10 * keys_to_track(100)
    assert key_capacity(settled, "rows", Aims(alpha=1.05)) > 3 * counted
    assert key_capacity(replace(settled, counters=5), "rows", Aims()) == 5


def test_options_win_over_the_session_and_the_session_over_defaults() -> None:
    session = {
        **{"partitions": "8", "strategy": "PKG", "theta": "0.1", "choices": "90", "sketch_capacity": "3"},
        "cost": "bytes",
    }
    defaults = settle(SkewOptions(), {"partitions": "8"}, ROUTING, "dchoices")
    assert defaults == SettledOptions("dchoices", 8, 1 / 40, EPSILON)
    assert (defaults.capacity, defaults.placement_capacity, defaults.cost) == (160, 10_000, "rows")
    # What the session says of all group-bys is fitted to this one: d to n, counters to 1/theta.
    assert settle(SkewOptions(), session) == SettledOptions("pkg", 8, 0.1, EPSILON, 8, 10, "bytes")
    given = SkewOptions("hash", 5, 0.5, 0.01, 3, 7, cost="rows")
    assert settle(given, session) == SettledOptions("hash", 5, 0.5, 0.01, 3, 7, "rows")


@pytest.mark.parametrize(
    ("session", "choices", "counters"),
    [
        ({"partitions": "1", "choices": "4"}, None, None),  # one worker leaves nothing to choose
        ({"partitions": "2", "choices": "4"}, 2, None),
        ({"partitions": "2", "theta": "1e-9", "sketch_capacity": "4"}, None, MAX_CAPACITY),
    ],
)
def test_confs_of_the_session_fit_any_workers_and_any_theta(
    session: dict[str, str], choices: int | None, counters: int | None
) -> None:
    settled = settle(SkewOptions("dchoices"), session)
    assert (settled.choices, settled.counters) == (choices, counters)


@pytest.mark.parametrize(
    ("session", "message"),
    [
        ({"choices": "1"}, "choices is 1; it must be a whole number of at least 2."),
        ({"sketch_capacity": "0"}, "sketch_capacity is 0; it must be a whole number from 1 to 16777216."),
    ],
)
@pytest.mark.parametrize("partitions", ["1", "8"])
def test_a_conf_that_fits_no_group_by_is_refused(session: dict[str, str], message: str, partitions: str) -> None:
    with pytest.raises(SaltwiseValueError) as refused:
        settle(SkewOptions(), session | {"partitions": partitions})
    assert str(refused.value) == message


@pytest.mark.parametrize("said", ["auto", "split", "READJ"])
def test_a_strategy_of_the_session_gives_way_where_it_cannot_be_used(said: str) -> None:
    session = {"partitions": "8", "strategy": said}
    assert settle(SkewOptions(), session, ROUTING, "dchoices").strategy == "dchoices"
    with pytest.raises(SaltwiseValueError, match=f"strategy is '{said.lower()}'; it must be one of hash, shuffle"):
        settle(SkewOptions(said), session, ROUTING, "dchoices")


def test_a_conf_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(SaltwiseValueError) as refused:
        settle(SkewOptions(), {"partitions": "8", "theta": "high"})
    assert str(refused.value) == "theta is 'high'; it must be a number."


def test_a_scheme_takes_memory_in_proportion_to_its_workers() -> None:
    from saltwise.splitting.schemes import SPLITTING
    from saltwise.splitting.source import Settings, new_sources

    workers = 2_000
    theta = 1 / (5 * workers)
    settings = Settings(SPLITTING["dchoices"], theta, EPSILON, 0)
    source = new_sources(1, workers, settings, keys=0, capacity=default_capacity(theta))
    reserved = sum(field.nbytes for field in source if isinstance(field, np.ndarray))
    assert reserved < 20_000 * workers


def test_without_numpy_the_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "saltwise.spark.grouping.key_weights")
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(SaltwiseError) as error:
        saltwise.weights_of  # noqa: B018
    assert str(error.value) == "weights_of needs numpy: run pip install 'saltwise[arrow]'."
    with pytest.raises(AttributeError, match="module 'saltwise' has no attribute 'weight_of'"):
        saltwise.weight_of  # noqa: B018
