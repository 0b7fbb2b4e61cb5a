"""Two answers are compared as Spark leaves them open: order, the last bits of doubles, the order inside arrays."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    MapType,
    StringType,
    StructType,
)

from saltwise.spark.reports.answers import compare

VALUES = st.recursive(
    st.none() | st.integers(-3, 3) | st.floats(width=32) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=1), inner, max_size=2),
    max_leaves=4,
)
ROWS = st.lists(st.tuples(st.integers(0, 5), VALUES), max_size=12)


@given(ROWS, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_count(rows: list[tuple[object, ...]], dice: random.Random) -> None:
    shuffled = list(rows)
    dice.shuffle(shuffled)
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
    assert compare(one, other, types=[IntegerType(), FloatType()]).same
    assert not compare(one, [(1, 0.10001), (2, 0.2)], types=[IntegerType(), FloatType()]).same


def test_rows_without_a_key_find_their_partner_by_close_doubles() -> None:
    assert compare([(0.1 + 0.2, 5.0), (0.3, 1.0)], [(0.3, 5.0), (0.1 + 0.2, 1.0)]).same
    assert compare([(2.8e-17, 5.0), (0.0, 1.0)], [(0.0, 5.0), (2.8e-17, 1.0)]).same
    assert compare([([(0.1 + 0.2, 5), (0.3, 1)],)], [([(0.3, 5), (0.1 + 0.2, 1)],)]).same


@pytest.mark.parametrize(
    ("data_type", "one", "other"),
    [
        (StructType().add("rate", FloatType()), (0.1,), (0.10000000894069672,)),
        (ArrayType(FloatType()), [0.1], [0.10000000894069672]),
        (MapType(FloatType(), StringType()), {0.1: "a"}, {0.10000000894069672: "a"}),
        (
            ArrayType(StructType().add("n", IntegerType()).add("rate", FloatType())),
            [(1, 0.1)],
            [(1, 0.10000000894069672)],
        ),
    ],
)
def test_floats_inside_of_values_are_told_by_their_types(data_type: DataType, one: object, other: object) -> None:
    assert compare([(one,)], [(other,)], types=[data_type]).same
    assert not compare([(one,)], [(other,)]).same


def test_a_double_keeps_its_digits_beside_a_float_and_under_the_name_of_one() -> None:
    struct = StructType().add("float_rate", DoubleType()).add("rate", FloatType())
    assert compare([((0.1, 0.1),)], [((0.1, 0.10000000894069672),)], types=[struct]).same
    assert not compare([((0.1, 0.1),)], [((0.10000000894069672, 0.1),)], types=[struct]).same


@given(
    st.lists(st.tuples(st.floats(1e-4, 1), st.integers(0, 2), st.floats(1, 1000)), min_size=1, max_size=12),
    st.data(),
)
def test_a_planted_difference_in_one_double_is_found(rows: list[tuple[float, int, float]], data: st.DataObject) -> None:
    planted = [list(row) for row in data.draw(st.permutations(rows))]
    row, column = data.draw(st.sampled_from(planted)), data.draw(st.sampled_from((0, 2)))
    row[column] *= 1 + 1e-6
    assert compare(rows, planted).different >= 1


def test_rows_pair_where_equal_doubles_round_to_different_digits() -> None:
    one = [(1.23456785 - 1e-12, 5), (1.2345679, 3)]
    assert compare(one, [(1.23456785 + 1e-12, 5), (1.2345679, 3)]).same
    assert compare([(one,)], [([(1.23456785 + 1e-12, 5), (1.2345679, 3)],)]).same


STEP = 0.3e-9
"""Doubles are the same if three such steps lie between them, and not if four do."""
NEAR = st.integers(0, 6)
"""Numbers of steps: some of them are near each other."""


def at(*steps: int) -> tuple[float, ...]:
    return tuple(1 + step * STEP for step in steps)


@given(st.lists(st.tuples(NEAR, NEAR), min_size=1, max_size=5), st.data())
@settings(max_examples=settings().max_examples * 3)
def test_answers_are_the_same_if_and_only_if_all_rows_can_be_paired(
    one: list[tuple[int, int]], data: st.DataObject
) -> None:
    other = data.draw(st.lists(st.tuples(NEAR, NEAR), min_size=len(one), max_size=len(one)))
    near = [[all(abs(a - b) <= 3 for a, b in zip(row, partner, strict=True)) for partner in other] for row in one]
    pairings = itertools.permutations(range(len(other)))
    most = max(sum(near[i][j] for i, j in enumerate(pairing)) for pairing in pairings)
    found = compare([at(*row) for row in one], [at(*row) for row in other])
    assert found.different == len(one) - most
    found = compare([([at(*row) for row in one],)], [([at(*row) for row in other],)])
    assert found.same == (most == len(one))


DOUBLES = st.sampled_from([0.0, 0.5, 1.23456785, -2e9, math.inf, math.nan]) | NEAR.map(lambda step: at(step)[0])
NESTED = st.recursive(
    DOUBLES | st.integers(0, 2) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(DOUBLES, inner, max_size=2),
    max_leaves=5,
)


@given(st.lists(st.tuples(st.integers(0, 1), NESTED, DOUBLES), max_size=8), st.randoms(use_true_random=False))
def test_rows_that_are_shuffled_and_rounded_otherwise_are_the_same(
    rows: list[tuple[object, ...]], dice: random.Random
) -> None:
    def otherwise(value: object) -> object:
        """Return a value with other last digits of its doubles, and another order in its arrays."""
        if isinstance(value, float):
            return value * (1 + dice.uniform(-0.99e-9, 0.99e-9))
        if isinstance(value, dict):
            return {otherwise(key): otherwise(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [otherwise(inner) for inner in dice.sample(value, len(value))]
        return tuple(map(otherwise, value)) if isinstance(value, tuple) else value

    others = [otherwise(row) for row in dice.sample(rows, len(rows))]
    assert compare(rows, others).same  # type: ignore[arg-type]


def test_thousands_of_rows_near_each_other_pair() -> None:
    dice = random.Random(1)
    rows = [at(*(dice.randrange(30) for _ in range(2))) for _ in range(1_000)]
    others = [tuple(double * (1 + dice.uniform(-0.9e-9, 0.9e-9)) for double in row) for row in rows]
    dice.shuffle(others)
    assert compare(rows, others).same
    found = compare(rows, [*others[1:], (1.0, 2.0)])
    assert (found.different, found.differences[0][1]) == (1, "(1.0, 2.0)")


def test_the_order_inside_arrays_is_counted_and_is_no_difference() -> None:
    found = compare([("a", [1, 2, 3])], [("a", [3, 1, 2])])
    assert (found.same, found.reordered) == (True, 1)
    assert not compare([("a", [1, 2, 3])], [("a", [3, 1, 1])]).same
    assert not compare([("a", [1, 2, 3])], [("a", [3, 1, 2])], ordered=[1]).same
    assert compare([([1, 2], [1, 2, 3])], [([1, 2], [3, 1, 2])], ordered=[0]).reordered == 1
    # Rows that only the order inside arrays tells apart are paired by it.
    assert compare([("a", [1, 2]), ("a", [2, 1])], [("a", [2, 1]), ("a", [1, 2])]).reordered == 0
