"""Aggregates that Spark's public functions alone compute in two phases: of parts of a group, then of the whole.

A part of a group holds one or more parts of the result, each an aggregate of its own; the second phase merges them into
what one aggregate over all rows returns. A state that lives on folds several parts into one of the same columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DecimalType, DoubleType, FloatType

from ..errors import SaltwiseValueError
from .aggregate_calls import Call
from .compat import call_of

if TYPE_CHECKING:
    from pyspark.sql import Column

    Columns = list[Column]

AVERAGE_DIGITS = 24
"""Digits that a decimal may have for its average: so many leave room to divide and to round once, as Spark does."""


@dataclass(frozen=True)
class Rule:
    """How one function is computed in two phases.

    Both are told the arguments that are no values, such as the precision of a sketch, and the type of the result.
    """

    parts: Callable[[Columns, Columns, DataType], Columns]
    """From the columns of values to the aggregates of the first phase."""
    merge: Callable[[Columns, Columns, DataType], Column]
    """From the columns of parts to the aggregate of the second phase."""
    fold: Callable[[Columns, Columns], Columns]
    """From the columns of parts to the aggregates that make one part of several."""
    values: int | None = 1
    """How many arguments are values; None: all."""


@dataclass(frozen=True)
class Mergeable:
    """One aggregate of a query, in two phases."""

    name: str
    """That of the function."""
    rule: Rule
    values: Columns
    others: Columns


def mergeable(column: Column, name: str) -> Mergeable:
    """Return the two phases of an aggregate.

    Args:
        column: the aggregate.
        name: what Spark calls it.

    Raises:
        SaltwiseValueError: the Column is not one call of a function that merges.

    >>> len(mergeable(F.max_by("page", "ms"), "max_by(page, ms)").values)  # doctest: +SKIP
    2
    """
    found = two_phases(column)
    if found is not None:
        return found
    raise SaltwiseValueError(
        f"agg got {name!r}; with engine='arrow' a column is one call, without DISTINCT, of {', '.join(RULES)}: compute "
        "further in a select, and group by the plugin or by df.groupBy for anything else."
    )


def two_phases(column: Column) -> Mergeable | None:
    """Return the two phases of an aggregate; None where the Column is not one call of a function that merges."""
    call = call_of(column)
    if (
        call is not None
        and call.name in RULES
        and not call.distinct
        and (call.condition is None or call.name not in NULL_IS_A_VALUE)
    ):
        return of_call(call)
    return None


def of_call(call: Call) -> Mergeable:
    """Return the two phases of the call of a function that has a rule."""
    rule = RULES[call.name]
    values = call.arguments[: rule.values] or [F.lit(1)]
    if call.condition is not None:
        # All these functions pass over a row where the last of their values is NULL.
        values[-1] = F.when(call.condition, values[-1])
    return Mergeable(call.name, rule, values, call.arguments[len(values) :])


def _called(name: str) -> Callable[[Columns, Columns, DataType], Columns]:
    return lambda values, others, of: [F.call_function(name, *values, *others)]


def _merged_by(name: str) -> Callable[[Columns, Columns, DataType], Column]:
    return lambda parts, others, of: F.call_function(name, *parts, *others)


def _folded_by(name: str) -> Callable[[Columns, Columns], Columns]:
    return lambda parts, others: [F.call_function(name, *parts, *others)]


def _count(parts: Columns, others: Columns, of: DataType) -> Column:
    return F.coalesce(F.sum(parts[0]), F.lit(0).cast(of))


def _best(name: str, extreme: str) -> Rule:
    """The value of the row that is first by another: each part keeps both."""
    return Rule(
        lambda values, others, of: [F.call_function(name, *values), F.call_function(extreme, values[1])],
        _merged_by(name),
        lambda parts, others: [F.call_function(name, *parts), F.call_function(extreme, parts[1])],
        values=2,
    )


def _sum_and_count(values: Columns, others: Columns, of: DataType) -> Columns:
    # Spark averages everything but decimals as doubles.
    value = values[0].cast(of) if isinstance(of, DoubleType) else values[0]
    return [F.sum(value), F.count(value)]


def _sum(parts: Columns, others: Columns, of: DataType) -> Column:
    total = F.sum(parts[0])
    if not isinstance(of, DecimalType):
        return total
    return _unless_overflowed(total, parts).cast(of)


def _unless_overflowed(total: Column, parts: Columns) -> Column:
    # A part that overflowed is NULL, and then so is the whole; a part without values is NULL too.
    overflowed = F.max(parts[0].isNull() & (parts[1] > 0))
    return F.when(~overflowed, total)


def _folded_sum_and_count(parts: Columns, others: Columns) -> Columns:
    return [_unless_overflowed(F.sum(parts[0]), parts), F.sum(parts[1])]


def _average(parts: Columns, others: Columns, of: DataType) -> Column:
    total, rows = F.sum(parts[0]), F.sum(parts[1])
    if isinstance(of, DoubleType):
        return F.when(rows > 0, total / rows)
    if not isinstance(of, DecimalType) or of.precision > AVERAGE_DIGITS + 4:
        raise SaltwiseValueError(
            f"agg got an average of type {of.simpleString()}; with engine='arrow' it averages numbers, decimals of up "
            f"to {AVERAGE_DIGITS} digits among them: cast its argument first, or group by the plugin or by df.groupBy."
        )
    # A quotient of decimals has the places that are left of 38 digits, but at least six. To round twice would not be to
    # round, so the dividend's type is the one that leaves just the places of the average.
    places = max(6, of.scale)
    shift = Decimal(10) ** (places - of.scale)
    dividend = total if shift == 1 else total * F.lit(1 / shift)
    quotient = dividend.cast(DecimalType(34, places - 4)) / rows
    return F.when(rows > 0, quotient if shift == 1 else quotient * F.lit(shift)).cast(of)


def _flat(parts: Columns, others: Columns, of: DataType) -> Column:
    return F.flatten(F.collect_list(parts[0]))


def _folded_list(parts: Columns, others: Columns) -> Columns:
    return [F.flatten(F.collect_list(parts[0]))]


def _folded_set(parts: Columns, others: Columns) -> Columns:
    return [F.array_distinct(*_folded_list(parts, others))]


def _folded_count(parts: Columns, others: Columns) -> Columns:
    return [F.sum(parts[0])]


def _set(values: Columns, others: Columns, of: DataType) -> Columns:
    assert isinstance(of, ArrayType)
    # array_distinct of older Sparks tells -0.0 from 0.0, and -0.0 + 0.0 is 0.0.
    floats = isinstance(of.elementType, (DoubleType, FloatType))
    return [F.collect_set(values[0] + F.lit(0).cast(of.elementType) if floats else values[0])]


_ITSELF = (
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
"""Functions that merge their own results."""

NULL_IS_A_VALUE = ("any_value", "first", "first_value")

RULES = dict(
    sorted(
        {
            **{name: Rule(_called(name), _merged_by(name), _folded_by(name)) for name in _ITSELF},
            "avg": Rule(_sum_and_count, _average, _folded_sum_and_count),
            "collect_list": Rule(_called("collect_list"), _flat, _folded_list),
            "collect_set": Rule(_set, lambda *merged: F.array_distinct(_flat(*merged)), _folded_set),
            "count": Rule(_called("count"), _count, _folded_count, values=None),
            "count_if": Rule(_called("count_if"), _count, _folded_count),
            "hll_sketch_agg": Rule(
                _called("hll_sketch_agg"),
                lambda parts, others, of: F.hll_union_agg(parts[0]),
                lambda parts, others: [F.hll_union_agg(parts[0])],
            ),
            "max_by": _best("max_by", "max"),
            "mean": Rule(_sum_and_count, _average, _folded_sum_and_count),
            "min_by": _best("min_by", "min"),
            "sum": Rule(_sum_and_count, _sum, _folded_sum_and_count),
        }.items()
    )
)
"""By the name of the function."""
