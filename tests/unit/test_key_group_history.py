"""A placement by key groups: its table changes within a budget, only where that pays, and lives as plain values."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saltwise import SaltwiseValueError
from saltwise.placement.key_groups import KeyGroups
from saltwise.rebalancing.key_group_history import WINDOW, KeyGroupHistory
from saltwise.rebalancing.rounds import EVEN

P = 12
LOADS = st.lists(st.integers(0, 100), min_size=P, max_size=P).map(lambda rows: np.array(rows, float))
NO_STATE = np.zeros(P)


@settings(max_examples=settings().max_examples // 5)  # each solves programs
@given(
    st.lists(st.tuples(LOADS, st.integers(1, 5)), min_size=1, max_size=5),
    st.sampled_from(["milp", "flux", "elb", "albic"]),
    st.sampled_from([0.1, 0.5, float("inf")]),
)
def test_moves_keep_to_the_budget_and_every_group_has_a_worker(
    batches: list[tuple[np.ndarray, int]], planner: str, limit: float
) -> None:
    history = KeyGroupHistory(P)
    state = np.full(P, 1000.0)
    workers_before = None
    for rows, workers in batches:
        placement = history.next(rows, state, workers, planner, "string", limit)
        assert isinstance(placement.function, KeyGroups)
        assert len(placement.function.table) == P
        assert max(placement.function.table) < workers
        if workers == workers_before:
            assert placement.migration <= limit + 1e-9
        workers_before = workers


@pytest.mark.parametrize("planner", ["milp", "flux", "elb"])
def test_even_groups_stay_and_uneven_ones_are_evened_out(planner: str) -> None:
    history = KeyGroupHistory(P)
    first = history.next(np.ones(P), NO_STATE, 4, planner, "int")
    again = history.next(np.ones(P), NO_STATE, 4, planner, "int")
    assert first.function == again.function
    assert again.made_by == "kept"
    skewed = np.where(np.arange(P) % 4 == 0, 100.0, 1.0)
    for _ in range(WINDOW):
        placement = history.next(skewed, NO_STATE, 4, planner, "int")
    assert placement.max_to_mean <= 1.4


def test_states_that_are_too_large_for_the_gain_stay() -> None:
    history = KeyGroupHistory(P)
    history.next(np.ones(P), NO_STATE, 4, "milp", "int")
    skewed, huge = np.where(np.arange(P) % 4 == 0, 100.0, 1.0), np.full(P, 1e9)
    for _ in range(3):
        placement = history.next(skewed, huge, 4, "milp", "int")
        assert (placement.made_by, placement.migration) == ("kept", 0.0)
    assert placement.max_to_mean > EVEN


@pytest.mark.parametrize("planner", ["milp", "flux"])
def test_a_worker_that_goes_is_emptied_and_the_others_stay_even(planner: str) -> None:
    history = KeyGroupHistory(P)
    before = history.next(np.ones(P), NO_STATE, 4, planner, "int").function
    after = history.next(np.ones(P), np.ones(P), 3, planner, "int").function
    assert isinstance(before, KeyGroups)
    assert isinstance(after, KeyGroups)
    assert sorted(after.table) == [0] * 4 + [1] * 4 + [2] * 4
    if planner == "flux":
        stay = [(one, other) for one, other in zip(before.table, after.table, strict=True) if one < 3]
        assert all(one == other for one, other in stay)


@given(st.lists(LOADS, min_size=1, max_size=4))
def test_it_lives_as_plain_values(batches: list[np.ndarray]) -> None:
    history = KeyGroupHistory(P)
    for rows in batches:
        history.next(rows, NO_STATE, 3, "flux", "date")
    again = KeyGroupHistory.from_content(json.loads(json.dumps(history.to_content())))
    one, other = (each.next(batches[0], NO_STATE, 3, "flux", "date") for each in (history, again))
    assert one == other


def test_a_planner_that_is_not_there() -> None:
    with pytest.raises(
        SaltwiseValueError, match="planner is 'milk'; it must be one of flux, milp, albic, cola, elb, clb, uhlb"
    ):
        KeyGroupHistory(P).next(np.ones(P), NO_STATE, 2, "milk", "int")
