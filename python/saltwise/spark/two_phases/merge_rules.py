"""Aggregates in two phases with Spark's public functions: first over the parts of a group, then over the whole group.

The first phase computes one or more partial results for each part of a group. The second phase merges them into the
result that one aggregate over all rows returns. ``fold`` merges several partial results into one partial result with
the same columns: a state that is kept from batch to batch needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DecimalType, DoubleType, FloatType

from ...errors import SaltwiseValueError
from ..aggregate_calls import Call
from ..compat import call_of

if TYPE_CHECKING:
    from pyspark.sql import Column

    Columns = list[Column]

AVERAGE_DIGITS = 24
"""The most digits that a decimal may have to be averaged. This leaves room to divide and to round once, like Spark."""


@dataclass(frozen=True)
class Rule:
    """How one function is computed in two phases.

    Both phases also get the arguments that are not values, such as the precision of a sketch, and the result type.
    """

    parts: Callable[[Columns, Columns, DataType], Columns]
    """Makes the aggregates of the first phase from the columns of values."""
    merge: Callable[[Columns, Columns, DataType], Column]
    """Makes the aggregate of the second phase from the columns of parts."""
    fold: Callable[[Columns, Columns], Columns]
    """Makes the aggregates that fold several parts into one, from the columns of parts."""
    values: int | None = 1
    """How many arguments are values; None means all."""


@dataclass(frozen=True)
class Mergeable:
    """One aggregate of a query, in two phases."""

    name: str
    """Name of the function."""
    rule: Rule
    values: Columns
    others: Columns


def mergeable(column: Column, name: str) -> Mergeable:
    """Return the two phases of an aggregate.

    Args:
        column: the aggregate.
        name: Spark's name of the column.

    Raises:
        SaltwiseValueError: the Column is not one call of a function that merges.

    >>> len(mergeable(F.max_by("page", "ms"), "max_by(page, ms)").values)  # doctest: +SKIP
    2
    """
    aggregate = two_phases(column)
    if aggregate is not None:
        return aggregate
    raise SaltwiseValueError(
        f"agg got {name!r}; with engine='arrow' a column must be one call, without DISTINCT, of {', '.join(RULES)}: "
        "compute further in a select, and use the plugin or df.groupBy for anything else."
    )


def two_phases(column: Column) -> Mergeable | None:
    """Return the two phases of an aggregate; None if the Column is not one call of a function that merges."""
    call = single_call(column)
    if call is None or call.distinct or call.name not in RULES:
        return None
    # max_by(value, other, k) keeps k values, and the rule keeps one.
    keeps_many = call.name in ("max_by", "min_by") and len(call.arguments) > 2
    return None if keeps_many else mergeable_call(call)


def single_call(column: Column) -> Call | None:
    """Return the one call that a Column consists of.

    None if the Column is anything else, or the call has a FILTER that :func:`values_and_others` cannot replace.
    """
    call = call_of(column)
    if call is None or call.condition is None:
        return call
    return call if call.name in RULES and call.name not in NULL_IS_A_VALUE else None


def mergeable_call(call: Call) -> Mergeable:
    """Return the two phases of a call of a function that has a rule."""
    rule = RULES[call.name]
    values, others = values_and_others(call, rule.values)
    return Mergeable(call.name, rule, values, others)


def values_and_others(call: Call, count: int | None) -> tuple[Columns, Columns]:
    """Return the arguments of a call that are values, and its other arguments. A FILTER becomes part of the last value.

    Args:
        call: as :func:`single_call` returns it.
        count: how many arguments are values; None means all. ``count(*)`` has one value, 1.
    """
    values = call.arguments[:count] or [F.lit(1)]
    others = call.arguments[len(values) :]
    if call.condition is not None:
        # The function skips a row whose last value is NULL.
        values[-1] = F.when(call.condition, values[-1])
    return values, others


def _partial(name: str) -> Callable[[Columns, Columns, DataType], Columns]:
    return lambda values, others, result: [F.call_function(name, *values, *others)]


def _merge_by(name: str) -> Callable[[Columns, Columns, DataType], Column]:
    return lambda parts, others, result: F.call_function(name, *parts, *others)


def _fold_by(name: str) -> Callable[[Columns, Columns], Columns]:
    return lambda parts, others: [F.call_function(name, *parts, *others)]


def _count(parts: Columns, others: Columns, result: DataType) -> Column:
    return F.coalesce(F.sum(parts[0]), F.lit(0).cast(result))


def _value_at_extreme(name: str, extreme: str) -> Rule:
    """The value of the row with the highest or lowest other value. Each part keeps both values."""
    return Rule(
        lambda values, others, result: [F.call_function(name, *values), F.call_function(extreme, values[1])],
        _merge_by(name),
        lambda parts, others: [F.call_function(name, *parts), F.call_function(extreme, parts[1])],
        values=2,
    )


def _sum_and_count(values: Columns, others: Columns, result: DataType) -> Columns:
    # Spark averages all types except decimals as doubles.
    value = values[0].cast(result) if isinstance(result, DoubleType) else values[0]
    return [F.sum(value), F.count(value)]


def _sum(parts: Columns, others: Columns, result: DataType) -> Column:
    total = F.sum(parts[0])
    if not isinstance(result, DecimalType):
        return total
    return _unless_overflowed(total, parts).cast(result)


def _unless_overflowed(total: Column, parts: Columns) -> Column:
    # A part that overflowed is NULL, and then the whole must be NULL too. A part without values is NULL as well.
    overflowed = F.max(parts[0].isNull() & (parts[1] > 0))
    return F.when(~overflowed, total)


def _fold_sum_and_count(parts: Columns, others: Columns) -> Columns:
    return [_unless_overflowed(F.sum(parts[0]), parts), F.sum(parts[1])]


def _average(parts: Columns, others: Columns, result: DataType) -> Column:
    total, rows = F.sum(parts[0]), F.sum(parts[1])
    if isinstance(result, DoubleType):
        return F.when(rows > 0, total / rows)
    if not isinstance(result, DecimalType) or result.precision > AVERAGE_DIGITS + 4:
        raise SaltwiseValueError(
            f"agg got an average of type {result.simpleString()}; with engine='arrow' it averages numbers, and "
            f"decimals of at most {AVERAGE_DIGITS} digits: cast its argument first, or use the plugin or df.groupBy."
        )
    # Spark gives a quotient of decimals the places that are left of 38 digits, but at least six. Rounding twice would
    # give a wrong result. So the dividend is cast to the type whose quotient has exactly the places of the average.
    places = max(6, result.scale)
    shift = Decimal(10) ** (places - result.scale)
    dividend = total if shift == 1 else total * F.lit(1 / shift)
    quotient = dividend.cast(DecimalType(34, places - 4)) / rows
    return F.when(rows > 0, quotient if shift == 1 else quotient * F.lit(shift)).cast(result)


def _flattened(parts: Columns, *_: object) -> Column:
    return F.flatten(F.collect_list(parts[0]))


def _fold_count(parts: Columns, others: Columns) -> Columns:
    return [F.sum(parts[0])]


def _set(values: Columns, others: Columns, result: DataType) -> Columns:
    assert isinstance(result, ArrayType)
    # In older versions of Spark, array_distinct keeps -0.0 and 0.0 apart. -0.0 + 0.0 is 0.0.
    floats = isinstance(result.elementType, (DoubleType, FloatType))
    return [F.collect_set(values[0] + F.lit(0).cast(result.elementType) if floats else values[0])]


_SELF_MERGING = (
    "any",
    "any_value",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "every",
    "first",
    "first_value",
    "hll_union_agg",
    "max",
    "min",
    "some",
)
"""Functions that also merge their own results."""

NULL_IS_A_VALUE = ("any_value", "first", "first_value")
"""Functions that may return NULL because a row has it. All other functions that have a rule skip such a row."""

RULES = dict(
    sorted(
        {
            **{name: Rule(_partial(name), _merge_by(name), _fold_by(name)) for name in _SELF_MERGING},
            "avg": Rule(_sum_and_count, _average, _fold_sum_and_count),
            "collect_list": Rule(_partial("collect_list"), _flattened, lambda parts, _: [_flattened(parts)]),
            "collect_set": Rule(
                _set,
                lambda parts, *_: F.array_distinct(_flattened(parts)),
                lambda parts, _: [F.array_distinct(_flattened(parts))],
            ),
            "count": Rule(_partial("count"), _count, _fold_count, values=None),
            "count_if": Rule(_partial("count_if"), _count, _fold_count),
            "hll_sketch_agg": Rule(
                _partial("hll_sketch_agg"),
                lambda parts, others, result: F.hll_union_agg(parts[0]),
                lambda parts, others: [F.hll_union_agg(parts[0])],
            ),
            "max_by": _value_at_extreme("max_by", "max"),
            "mean": Rule(_sum_and_count, _average, _fold_sum_and_count),
            "min_by": _value_at_extreme("min_by", "min"),
            "sum": Rule(_sum_and_count, _sum, _fold_sum_and_count),
        }.items()
    )
)
"""The rule of each function, by its name."""
