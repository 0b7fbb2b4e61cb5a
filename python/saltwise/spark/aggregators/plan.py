"""The plan of aggregates in Python, alone or among Spark's own, in one pass and by Spark's public API::

    merge ← Explode ← Final(k) ← Exchange(k) ← Partial(k) ← combine ← child

``combine`` (a mapInArrow) adds columns to the rows: NULL, but for the last row of a key in a task, which has the states
of all aggregators in Python, and for that of a rare key in a block of rows, which has the key's rows as arrays. Spark
groups these rows: its own aggregates see what they would see anyway, and the parts of a key become a list, a few for
each map task. ``merge`` (a mapInArrow) gets the list as rows, one batch after another. Where no aggregate of Spark's is
asked for, only rows with parts leave ``combine``.

Where a splitting strategy is named, rows are first routed to workers, which then combine them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType, StructField, StructType

from ...errors import SaltwiseValueError
from ...strategies import ROUTING
from ..columns import as_column
from ..compat import call_of
from ..grouping.request import Grouping
from ..two_phases.arrow_groups import WORKER, check_travels, routed, task_number, with_names
from ..two_phases.merge_rules import NULL_IS_A_VALUE, RULES
from .bound_aggregators import AT, STATES, BoundAggregator, BoundAggregators
from .map_side import combine
from .protocol import Aggregator
from .reduce_side import merge

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation, SparkSession

USABLE = ("auto", "local", *ROUTING)
"""The strategies that Aggregators can use: map tasks combine their own rows, or rows are routed to workers first."""


def aggregate(grouping: Grouping, exprs: Sequence[Any], observation: Observation | None) -> DataFrame:
    """Return a DataFrame of one row a group, with names and types as Spark would give them.

    Args:
        grouping: what to group, and the options.
        exprs: Columns, and Aggregators, at least one.
        observation: what :meth:`saltwise.SkewGroupedData.agg` says.

    Raises:
        SaltwiseValueError: a Column is not one call of an aggregate function, a column does not travel by Arrow,
            Aggregators cannot use the strategy, or an option was given that they have no use for.
    """
    grouping.refuse_unused("an Aggregator", "aggregate by Spark's functions")
    settled = grouping.settle(USABLE)
    query = _query(grouping, exprs)
    rows = grouping.rows.select(*query.travelling)
    check_travels(rows, len(query.key))
    # Map tasks combine the rows that they have, unless a strategy spreads rows over workers first.
    if settled.strategy in ROUTING:
        rows = routed(rows, len(query.key), settled).drop(WORKER)
    groups, columns = _groups(query, rows, settled.theta)
    if observation is not None:
        groups = groups.observe(observation, *_metrics(F.col(STATES)[STATES]))
    return _results(query, groups, columns)


@dataclass(frozen=True)
class _Query:
    """What travels to the tasks, under names that cannot clash with the user's, and what comes back."""

    grouping: Grouping
    exprs: Sequence[Any]
    travelling: list[Column]
    """The columns of the key, then those of Spark's aggregates, then those of the Aggregators."""
    key: list[Column]
    """The key; a constant where there is none."""
    calls: list[Column]
    """Spark's own aggregates, of the columns that travel."""
    aggregators: BoundAggregators
    leaving: int
    """How many columns leave with each row: all but those of the Aggregators."""
    shown_key: list[StructField]
    """The fields of the key that Spark would show."""
    fields: list[StructField]
    """The fields of Spark's own aggregates."""


def _query(grouping: Grouping, exprs: Sequence[Any]) -> _Query:
    df, keys = grouping.rows, grouping.keys
    columns = [expr for expr in exprs if not isinstance(expr, Aggregator)]
    aggregators = [expr for expr in exprs if isinstance(expr, Aggregator)]
    schema = list(df.groupBy(*keys).agg(*(columns or [F.count("*")])).schema)
    fields = schema[len(schema) - len(columns) :]
    travelling, key = with_names("k", keys or [F.lit(0)])
    calls = []
    for i, (column, field) in enumerate(zip(columns, fields, strict=True)):
        call, values = _split(column, field.name)
        sent, received = with_names(f"v{i}_", values)
        travelling += sent
        calls.append(call(received).alias(f"r{i}"))
    leaving = len(travelling)
    for i, aggregator in enumerate(aggregators):
        travelling += with_names(f"a{i}_", [as_column(df, column) for column in aggregator.columns])[0]
    return _Query(
        grouping=grouping,
        exprs=exprs,
        travelling=travelling,
        key=key,
        calls=calls,
        aggregators=BoundAggregators([_bound(df, aggregator) for aggregator in aggregators], len(key), task_number),
        leaving=leaving,
        shown_key=schema[: -max(1, len(columns))],
        fields=fields,
    )


def _groups(query: _Query, rows: DataFrame, theta: float) -> tuple[DataFrame, list[Column]]:
    """Combine rows in map tasks; return a row a group, its states and rows in STATES, and the columns before STATES."""
    key = query.key
    fields = rows.schema.fields
    arrays = [StructField(field.name, ArrayType(field.dataType)) for field in fields[query.leaving :]]
    part_fields = [StructField(STATES, BinaryType()), *arrays]
    values = query.leaving - len(key) if query.calls else None
    combined = rows.mapInArrow(
        combine(query.aggregators, values, theta), StructType([*fields[: query.leaving], *part_fields])
    )
    # Where spark.sql.retainGroupColumns is off, Spark keeps only what agg names.
    by_key = bool(query.grouping.keys)
    kept, columns = with_names("of_k", key if by_key else [F.lit(0)])
    has_part = F.col(STATES).isNotNull() | F.col(arrays[0].name).isNotNull()
    part = F.when(has_part, F.struct(*(field.name for field in part_fields)))
    grouped = combined.groupBy(*(key if by_key else []))
    groups = grouped.agg(*kept, *query.calls, F.collect_list(part).alias(STATES))
    return groups, columns + [F.col(f"r{i}") for i in range(len(query.calls))]


def _results(query: _Query, groups: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """Merge the states and rows of each group; return the columns as the user asked for them."""
    spark, keys = groups.sparkSession, len(query.key)
    # A row for each part; the first has all else of the group. Without keys there may be a group without rows.
    parts = groups.select(*columns, F.posexplode_outer(STATES).alias(AT, STATES))
    at = F.coalesce(F.col(AT), F.lit(0))
    once, received = with_names("g", [F.when(at == 0, column) for column in columns])
    parts = parts.select(*once, at.alias(AT), f"{STATES}.*")
    results = [
        StructField(f"m{i}", type_of(spark, each.aggregator.returns)) for i, each in enumerate(query.aggregators)
    ]
    # What Spark says cannot be NULL stays so.
    shown_key = query.shown_key if len(query.shown_key) == keys else [None] * keys
    first = [
        StructField(sent.name, sent.dataType, field is None or field.nullable)
        for sent, field in zip(parts.schema, [*shown_key, *query.fields], strict=False)
    ]
    whole = parts.mapInArrow(merge(query.aggregators, len(once)), StructType([*first, *results]))
    return whole.select(
        *(_as(column, field) for column, field in zip(received, query.shown_key, strict=False)),
        *_in_order(query, received[keys:], results),
    )


def _in_order(query: _Query, columns: Sequence[Column], results: Sequence[StructField]) -> list[Column]:
    """Return Spark's aggregates and the results of Aggregators in the order in which the user named them."""
    sparks = iter(zip(columns, query.fields, strict=True))
    ours = iter(zip(results, query.aggregators, strict=True))
    ordered = []
    for expr in query.exprs:
        if isinstance(expr, Aggregator):
            result, bound = next(ours)
            name = expr.name or f"{type(expr).__name__}({', '.join(bound.names)})"
            ordered.append(F.col(result.name).alias(name))
        else:
            ordered.append(_as(*next(sparks)))
    return ordered


def _as(column: Column, field: StructField) -> Column:
    return column.alias(field.name, metadata=field.metadata)


DISTINCT: dict[str, Callable[..., Column]] = {"count": F.count_distinct, "sum": F.sum_distinct}

OF_TWO = ("corr", "covar_pop", "covar_samp", "regr_")
"""How the names of functions of two columns begin, beside those of :mod:`saltwise.spark.two_phases.merge_rules`."""


def _split(column: Column, name: str) -> tuple[Callable[[list[Column]], Column], list[Column]]:
    """Return an aggregate of Spark's as a function of the columns that it is of, and these columns.

    Constants, such as the percentage of a percentile, stay in the call.
    """
    call = call_of(column)
    rule = None if call is None else RULES.get(call.name)
    # All functions that have a rule, but some, pass over a row where the last of their values is NULL.
    passes_over_null = rule is not None and call is not None and call.name not in NULL_IS_A_VALUE
    if (
        call is None
        or (call.condition is not None and not passes_over_null)
        or (call.distinct and call.name not in DISTINCT)
    ):
        raise SaltwiseValueError(
            f"agg got {name!r} beside an Aggregator, where a column is one call of an aggregate function: compute "
            "further in a select, and aggregate anything else in an agg of its own."
        )
    count = rule.values if rule is not None else 2 if call.name.startswith(OF_TWO) else 1
    values = call.arguments[:count] or [F.lit(1)]
    others = call.arguments[len(values) :]
    if call.condition is not None:
        values[-1] = F.when(call.condition, values[-1])
    function = DISTINCT[call.name] if call.distinct else partial(F.call_function, call.name)
    return lambda held: function(*held, *others), values


def _bound(df: DataFrame, each: Aggregator) -> BoundAggregator:
    from pyspark.sql.pandas.types import to_arrow_type

    sent = copy.copy(each)
    # Columns do not travel to tasks.
    names = df.select(*each.columns).columns
    sent.columns = tuple(names)
    state = None if each.state is None else to_arrow_type(type_of(df.sparkSession, each.state))
    return BoundAggregator(sent, names, to_arrow_type(type_of(df.sparkSession, each.returns)), state)


def type_of(spark: SparkSession, of: DataType | str) -> DataType:
    """Return a type that is given as DDL or as itself."""
    schema = f"r {of}" if isinstance(of, str) else StructType([StructField("r", of)])
    return spark.createDataFrame([], schema).schema[0].dataType


def _metrics(states: Column) -> list[Column]:
    held = F.filter(states, F.isnotnull)
    sizes = F.transform(held, lambda state: F.octet_length(state).cast("bigint"))
    return [
        F.count(F.lit(1)).alias("groups"),
        F.sum(F.size(held)).alias("states"),
        F.sum(F.greatest(F.size(held) - 1, F.lit(0))).alias("merges"),
        F.sum(F.aggregate(sizes, F.lit(0).cast("bigint"), lambda a, b: a + b)).alias("state_bytes"),
        F.max(F.array_max(sizes)).alias("largest_state"),
        F.max(F.size(held)).alias("most_states"),
    ]
