"""Two answers are compared as Spark leaves them open: order, the last bits of doubles, the order inside arrays."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saltwise.spark.reports.answers import compare

VALUES = st.recursive(
    st.none() | st.integers(-3, 3) | st.floats(width=32) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=1), inner, max_size=2),
    max_leaves=4,
)
ROWS = st.lists(st.tuples(st.integers(0, 5), VALUES), max_size=12)


@given(ROWS, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_count(rows: list[tuple[object, ...]], random: object) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert compare(rows, shuffled).same


@given(ROWS, st.tuples(st.integers(6, 9), st.integers()))
def test_one_more_row_is_found(rows: list[tuple[object, ...]], more: tuple[object, ...]) -> None:
    found = compare(rows, [*rows, more])
    assert found.different == 1
    assert found.differences == [("", repr(more))]


def test_the_last_bits_of_doubles_do_not_count_and_a_value_does() -> None:
    assert compare([(1, 0.1 + 0.2)], [(1, 0.3)]).same
    assert compare([(1, math.nan)], [(1, math.nan)]).same
    assert compare([(1, math.inf)], [(1, math.inf)]).same
    assert not compare([(1, math.inf)], [(1, 1e308)]).same
    assert not compare([(1, 0.0)], [(1, math.nan)]).same
    assert not compare([(1, 0.3001)], [(1, 0.3)]).same
    assert not compare([(1, None)], [(1, 0.0)]).same
    found = compare([(k, float(k)) for k in range(9)], [(k, float(k) + (k == 4)) for k in range(9)])
    assert found.differences == [("(4, 4.0)", "(4, 5.0)")]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([(1, 2.8e-17)], [(1, 0.0)]),  # a sum that cancels
        ([(1, 0.0)], [(1, 4.7e-9)]),  # the deviation of equal values
        ([(1, 5e9), (2, 3.0)], [(1, 5e9), (2, 3.0000001)]),  # a sum of large numbers that is small
        ([([2.8e-17], {"a": 0.0})], [([0.0], {"a": 2.8e-17})]),
    ],
)
def test_what_rounding_leaves_of_a_cancelled_sum_does_not_count(
    one: list[tuple[object, ...]], other: list[tuple[object, ...]]
) -> None:
    found = compare(one, other)
    assert found.same
    assert 0 < found.rounding < 1.1e-7
    assert compare(one, one).rounding == 0


def test_a_large_column_hides_no_difference_elsewhere() -> None:
    assert not compare([(1e12, 0.0005)], [(1e12, 0.0005000005)]).same
    assert not compare([("hot", 1e9), ("rare", 4.0)], [("hot", 1e9), ("rare", 4.1)]).same


def test_floats_have_fewer_digits_than_doubles() -> None:
    one, other = [(1, 0.1), (2, 0.2)], [(1, 0.10000000894069672), (2, 0.2)]  # one float after the other
    assert not compare(one, other).same
    assert compare(one, other, floats=[1]).same
    assert not compare(one, [(1, 0.10001), (2, 0.2)], floats=[1]).same


def test_rows_without_a_key_find_their_partner_by_close_doubles() -> None:
    assert compare([(0.1 + 0.2, 5.0), (0.3, 1.0)], [(0.3, 5.0), (0.1 + 0.2, 1.0)]).same
    assert compare([(2.8e-17, 5.0), (0.0, 1.0)], [(0.0, 5.0), (2.8e-17, 1.0)]).same
    assert compare([([(0.1 + 0.2, 5), (0.3, 1)],)], [([(0.3, 5), (0.1 + 0.2, 1)],)]).same


@given(
    st.lists(st.tuples(st.floats(1e-4, 1), st.integers(0, 2), st.floats(1, 1000)), min_size=1, max_size=12),
    st.data(),
)
def test_a_planted_difference_in_one_double_is_found(rows: list[tuple[float, int, float]], data: st.DataObject) -> None:
    planted = [list(row) for row in data.draw(st.permutations(rows))]
    row, column = data.draw(st.sampled_from(planted)), data.draw(st.sampled_from((0, 2)))
    row[column] *= 1 + 1e-6
    assert compare(rows, planted).different >= 1


def test_the_order_inside_arrays_is_counted_and_is_no_difference() -> None:
    found = compare([("a", [1, 2, 3])], [("a", [3, 1, 2])])
    assert (found.same, found.reordered) == (True, 1)
    assert not compare([("a", [1, 2, 3])], [("a", [3, 1, 1])]).same
    assert not compare([("a", [1, 2, 3])], [("a", [3, 1, 2])], ordered=True).same
