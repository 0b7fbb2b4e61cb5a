"""Lossy Counting and the sliding window of lossy counters keep the bounds that their papers promise."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saltwise import SaltwiseError
from saltwise.sketches.lossy_counting import LossyCounting
from saltwise.sketches.sliding_counts import SlidingCounts

ITEMS = st.integers(0, 12)
STREAMS = st.lists(ITEMS, max_size=300)
WEIGHTED = st.lists(st.tuples(ITEMS, st.integers(1, 40)), max_size=120)
EPSILONS = st.sampled_from([0.9, 0.5, 0.34, 0.25, 0.1, 0.03])


def counted(epsilon: float, stream: list[tuple[int, int]]) -> tuple[LossyCounting[int], Counter[int]]:
    sketch: LossyCounting[int] = LossyCounting(epsilon)
    truth: Counter[int] = Counter()
    for item, weight in stream:
        sketch.offer(item, weight)
        truth[item] += weight
    return sketch, truth


@given(EPSILONS, WEIGHTED)
def test_the_true_weight_lies_between_the_bounds(epsilon: float, stream: list[tuple[int, int]]) -> None:
    sketch, truth = counted(epsilon, stream)
    assert sketch.total == truth.total()
    for item in range(14):
        bounds = sketch.estimate(item)
        assert bounds.lower <= truth[item] <= bounds.upper
        assert bounds.upper - bounds.lower <= epsilon * sketch.total
        assert bounds.estimate == bounds.lower


@given(EPSILONS, WEIGHTED, st.floats(0.01, 1))
def test_frequent_items_are_all_there_and_rare_ones_are_not(
    epsilon: float, stream: list[tuple[int, int]], share: float
) -> None:
    sketch, truth = counted(epsilon, stream)
    support = epsilon + share * (1 - epsilon)
    found = {item for item, _ in sketch.frequent(support)}
    assert found >= {item for item, weight in truth.items() if weight >= support * sketch.total}
    assert not {item for item in found if truth[item] < (support - epsilon) * sketch.total - 1e-9}


@given(EPSILONS, st.lists(st.integers(0, 10_000), max_size=400))
def test_few_items_are_kept(epsilon: float, stream: list[int]) -> None:
    sketch, _ = counted(epsilon, [(item, 1) for item in stream])
    buckets = math.ceil(sketch.total / sketch.width)
    assert len(sketch) <= sketch.width * sum(1 / i for i in range(1, buckets + 1)) + 1e-9


@given(EPSILONS, STREAMS)
def test_a_weight_is_that_many_rows(epsilon: float, stream: list[int]) -> None:
    sketch: LossyCounting[int] = LossyCounting(epsilon)
    for item in stream:
        sketch.offer(item, 3)
    for item in range(14):
        assert sketch.estimate(item).lower <= 3 * stream.count(item) <= sketch.estimate(item).upper


def test_frequent_items_come_highest_first() -> None:
    sketch, _ = counted(0.1, [(1, 5), (2, 9), (3, 7)])
    assert [(item, bounds.estimate) for item, bounds in sketch.frequent(0.2)] == [(2, 9), (3, 7), (1, 5)]


def test_nothing_is_frequent_where_there_are_no_rows() -> None:
    empty: LossyCounting[str] = LossyCounting(0.1)
    assert (empty.total, len(empty), empty.frequent(0.5)) == (0, 0, [])
    assert empty.estimate("a") == (0, 0, 0)


@given(st.integers(1, 20), st.integers(2, 5), STREAMS)
def test_the_window_has_between_w_and_its_upper_bound_of_rows(steps: int, counters: int, stream: list[int]) -> None:
    window = steps * (counters - 1)
    recent: SlidingCounts[int] = SlidingCounts(window, 0.1, counters)
    for rows, item in enumerate(stream, start=1):
        recent.offer(item)
        assert min(rows, window) <= recent.total < window * (1 + 1 / (counters - 1)) + 1e-9


@given(st.integers(1, 20), EPSILONS, WEIGHTED)
def test_the_window_counts_the_latest_rows(half: int, epsilon: float, stream: list[tuple[int, int]]) -> None:
    recent: SlidingCounts[int] = SlidingCounts(2 * half, epsilon)
    for item, weight in stream:
        recent.offer(item, weight)
    rows = [item for item, weight in stream for _ in range(weight)]
    latest = Counter(rows[len(rows) - recent.total :])
    for item in range(14):
        bounds = recent.estimate(item)
        assert bounds.lower <= latest[item] <= bounds.upper
        assert bounds.upper - bounds.lower <= epsilon * recent.total


def test_the_window_forgets_what_was_hot() -> None:
    recent: SlidingCounts[str] = SlidingCounts(window=100, epsilon=0.01)
    recent.offer("old", 10_000)
    assert [item for item, _ in recent.frequent(0.5)] == ["old"]
    recent.offer("new", 150)
    assert [item for item, _ in recent.frequent(0.02)] == ["new"]


@pytest.mark.parametrize("epsilon", [0, 1, -0.1, math.nan])
def test_epsilon_out_of_range(epsilon: float) -> None:
    with pytest.raises(SaltwiseError) as error:
        LossyCounting(epsilon)
    assert str(error.value) == f"epsilon is {epsilon!r}; it must be a share above 0 and below 1."


@pytest.mark.parametrize("weight", [0, -3, 1.5, True])
def test_weight_out_of_range(weight: int) -> None:
    for sketch in LossyCounting[str](0.1), SlidingCounts[str](2, 0.1):
        with pytest.raises(SaltwiseError) as error:
            sketch.offer("a", weight)
        assert str(error.value) == f"weight is {weight!r}; it must be a whole number of at least 1."


def test_support_out_of_range() -> None:
    with pytest.raises(SaltwiseError) as error:
        LossyCounting(0.1).frequent(0.1)
    assert str(error.value) == "support is 0.1; it must be a share above epsilon = 0.1 and at most 1."


def test_window_out_of_range() -> None:
    for window in 5, 0, 2.0, "4":
        with pytest.raises(SaltwiseError) as error:
            SlidingCounts(window=window, epsilon=0.1)  # type: ignore[arg-type]
        assert str(error.value) == f"window is {window!r}; it must be a multiple of counters - 1 = 2."
    with pytest.raises(SaltwiseError) as error:
        SlidingCounts(window=5, epsilon=0.1, counters=1)
    assert str(error.value) == "counters is 1; it must be a whole number of at least 2."


RUNS = st.lists(st.dictionaries(ITEMS, st.integers(1, 40), min_size=1), max_size=12)


@given(EPSILONS, RUNS)
def test_rows_that_come_together_are_counted_within_the_same_bounds(epsilon: float, runs: list[dict[int, int]]) -> None:
    sketch: LossyCounting[int] = LossyCounting(epsilon)
    truth: Counter[int] = Counter()
    for run in runs:
        sketch.offer_together(run)
        truth.update(run)
    assert sketch.total == truth.total()
    for item in range(14):
        bounds = sketch.estimate(item)
        assert bounds.lower <= truth[item] <= bounds.upper
        assert bounds.upper - bounds.lower <= epsilon * sketch.total


@given(st.integers(1, 20), EPSILONS, RUNS)
def test_the_window_counts_the_latest_whole_runs(half: int, epsilon: float, runs: list[dict[int, int]]) -> None:
    window = 2 * half
    recent: SlidingCounts[int] = SlidingCounts(window, epsilon)
    for run in runs:
        recent.offer_together(run)
    latest: Counter[int] = Counter()
    for run in reversed(runs):
        if latest.total() == recent.total:
            break
        latest.update(run)
    assert latest.total() == recent.total
    rows = [sum(run.values()) for run in runs]
    assert min(sum(rows), window) <= recent.total <= window * 3 // 2 + max(rows, default=0)
    assert len(recent.counters) <= 3
    for item in range(14):
        bounds = recent.estimate(item)
        assert bounds.lower <= latest[item] <= bounds.upper


def test_of_runs_as_large_as_the_window_only_the_last_one_counts() -> None:
    recent: SlidingCounts[str] = SlidingCounts(window=4, epsilon=0.1)
    for run in {"a": 40}, {"b": 40}, {"c": 40}:
        recent.offer_together(run)
        assert (recent.total, recent.estimate(next(iter(run))).estimate) == (40, 40)


def test_a_weight_among_many_that_is_none_adds_nothing() -> None:
    sketch: LossyCounting[str] = LossyCounting(0.1)
    with pytest.raises(SaltwiseError) as error:
        sketch.offer_together({"a": 1, "b": 0})
    assert str(error.value) == "weight is 0; it must be a whole number of at least 1."
    assert (sketch.total, len(sketch)) == (0, 0)
