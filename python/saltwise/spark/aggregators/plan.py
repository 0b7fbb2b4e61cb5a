"""The plan of aggregates in Python, with or without Spark's own aggregates, in one pass and by Spark's public API::

    merge ← Explode ← Final(k) ← Exchange(k) ← Partial(k) ← combine ← child

``combine`` (a mapInArrow) adds columns to the rows. On most rows they are NULL. The last row of a key in a task has the
states of all aggregators in Python. If a key is rare in a block of rows, its last row there has all of the key's rows
as arrays. Spark then groups the rows. Its own aggregates see each row once, as always, and the parts of a key become a
list, with a few parts from each map task. ``merge`` (a mapInArrow) gets the list as rows, one batch after another.
Without an aggregate of Spark's own, only rows with parts leave ``combine``.

With a splitting strategy, rows are first routed to workers, which then combine them.
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
from ...options import SettledOptions
from ...strategies import ROUTING
from ..columns import as_column, check_arrow_types, with_names
from ..two_phases.merge_rules import RULES, single_call, values_and_others
from ..two_phases.routing import WORKER, routed, task_number
from .bound_aggregators import AT, STATES, BoundAggregator, BoundAggregators
from .map_side import combine
from .protocol import Aggregator
from .reduce_side import merge

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation, SparkSession

USABLE_STRATEGIES = ("auto", "local", *ROUTING)
"""The strategies that Aggregators can use: map tasks combine their own rows, or rows are routed to workers first."""


def aggregate(
    df: DataFrame,
    keys: Sequence[Column],
    exprs: Sequence[Any],
    *,
    options: SettledOptions,
    observation: Observation | None,
) -> DataFrame:
    """Return a DataFrame with one row for each group. Names and types are those that Spark would give.

    Args:
        df: what to group.
        keys: the columns of the key; none for one group of all rows.
        exprs: Columns, and at least one Aggregator.
        options: the strategy and its parameters.
        observation: as for :meth:`saltwise.SkewGroupedData.agg`.

    Raises:
        SaltwiseValueError: a Column is not one call of an aggregate function, or mapInArrow does not take the type of a
            column.
    """
    query = _query(df, keys, exprs)
    rows = df.select(*query.sent_columns)
    check_arrow_types(rows, len(query.key))
    # Map tasks combine their own rows, unless a strategy spreads rows over workers first.
    if options.strategy in ROUTING:
        rows = routed(rows, len(query.key), options).drop(WORKER)
    groups, columns = _groups(query, rows, options.theta)
    if observation is not None:
        groups = groups.observe(observation, *_metrics(F.col(STATES)[STATES]))
    return _results(query, groups, columns)


@dataclass(frozen=True)
class _Query:
    """What tasks get, under names that cannot clash with the user's, and what they return."""

    exprs: Sequence[Any]
    has_key: bool
    """Whether there is a key. Without one, all rows are one group."""
    sent_columns: list[Column]
    """The columns of the key, then those of Spark's aggregates, then those of the Aggregators."""
    key: list[Column]
    """The columns of the key; a constant if there is no key."""
    calls: list[Column]
    """Spark's own aggregates, of the columns that are sent."""
    aggregators: BoundAggregators
    leaving: int
    """How many columns leave map tasks with each row: all but those of the Aggregators."""
    shown_key: list[StructField]
    """The fields of the key that Spark would show."""
    fields: list[StructField]
    """The fields of Spark's own aggregates."""


def _query(df: DataFrame, keys: Sequence[Column], exprs: Sequence[Any]) -> _Query:
    columns = [expr for expr in exprs if not isinstance(expr, Aggregator)]
    aggregators = [expr for expr in exprs if isinstance(expr, Aggregator)]
    schema = list(df.groupBy(*keys).agg(*(columns or [F.count("*")])).schema)
    fields = schema[len(schema) - len(columns) :]
    sent_columns, key = with_names("k", keys or [F.lit(0)])
    calls = []
    for i, (column, field) in enumerate(zip(columns, fields, strict=True)):
        call, values = _function_and_values(column, field.name)
        sent, received = with_names(f"v{i}_", values)
        sent_columns += sent
        calls.append(call(received).alias(f"r{i}"))
    leaving = len(sent_columns)
    for i, aggregator in enumerate(aggregators):
        sent_columns += with_names(f"a{i}_", [as_column(df, column) for column in aggregator.columns])[0]
    return _Query(
        exprs=exprs,
        has_key=bool(keys),
        sent_columns=sent_columns,
        key=key,
        calls=calls,
        aggregators=BoundAggregators([_bound(df, aggregator) for aggregator in aggregators], len(key), task_number),
        leaving=leaving,
        shown_key=schema[: -max(1, len(columns))],
        fields=fields,
    )


def _groups(query: _Query, rows: DataFrame, theta: float) -> tuple[DataFrame, list[Column]]:
    """Combine rows in map tasks, and group them.

    Returns:
        One row for each group, with its states and rows in the column STATES, and the columns before STATES.
    """
    key = query.key
    fields = rows.schema.fields
    arrays = [StructField(field.name, ArrayType(field.dataType)) for field in fields[query.leaving :]]
    part_fields = [StructField(STATES, BinaryType()), *arrays]
    values = query.leaving - len(key) if query.calls else None
    combined = rows.mapInArrow(
        combine(query.aggregators, values, theta), StructType([*fields[: query.leaving], *part_fields])
    )
    # If spark.sql.retainGroupColumns is off, Spark returns only the columns that agg names.
    named_keys, columns = with_names("of_k", key if query.has_key else [F.lit(0)])
    has_part = F.col(STATES).isNotNull() | F.col(arrays[0].name).isNotNull()
    part = F.when(has_part, F.struct(*(field.name for field in part_fields)))
    grouped = combined.groupBy(*(key if query.has_key else []))
    groups = grouped.agg(*named_keys, *query.calls, F.collect_list(part).alias(STATES))
    return groups, columns + [F.col(f"r{i}") for i in range(len(query.calls))]


def _results(query: _Query, groups: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """Merge the states and rows of each group; return the columns as the user asked for them."""
    spark, keys = groups.sparkSession, len(query.key)
    # One row for each part. The first one has the other columns of the group too. Without keys, a group may be empty.
    parts = groups.select(*columns, F.posexplode_outer(STATES).alias(AT, STATES))
    at = F.coalesce(F.col(AT), F.lit(0))
    group_columns, received = with_names("g", [F.when(at == 0, column) for column in columns])
    parts = parts.select(*group_columns, at.alias(AT), f"{STATES}.*")
    results = [
        StructField(f"m{i}", type_of(spark, member.aggregator.returns)) for i, member in enumerate(query.aggregators)
    ]
    # A column that cannot be NULL in Spark's schema cannot be NULL in ours.
    shown_key = query.shown_key if len(query.shown_key) == keys else [None] * keys
    first = [
        StructField(sent.name, sent.dataType, field is None or field.nullable)
        for sent, field in zip(parts.schema, [*shown_key, *query.fields], strict=False)
    ]
    whole = parts.mapInArrow(merge(query.aggregators, len(group_columns)), StructType([*first, *results]))
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

TWO_COLUMN_PREFIXES = ("corr", "covar_pop", "covar_samp", "regr_")
"""How the names of functions of two columns begin. Functions that have a rule in ``merge_rules`` are not among them."""


def _function_and_values(column: Column, name: str) -> tuple[Callable[[list[Column]], Column], list[Column]]:
    """Return an aggregate of Spark's own as a function of columns, and the columns that it gets.

    Constants, such as the percentage of a percentile, stay in the call.
    """
    call = single_call(column)
    if call is None or (call.distinct and call.name not in DISTINCT):
        raise SaltwiseValueError(
            f"agg got {name!r} beside an Aggregator, where a column is one call of an aggregate function: compute "
            "further in a select, and aggregate anything else in an agg of its own."
        )
    count = RULES[call.name].values if call.name in RULES else 1 + call.name.startswith(TWO_COLUMN_PREFIXES)
    values, others = values_and_others(call, count)
    function = DISTINCT[call.name] if call.distinct else partial(F.call_function, call.name)
    return lambda received: function(*received, *others), values


def _bound(df: DataFrame, aggregator: Aggregator) -> BoundAggregator:
    from pyspark.sql.pandas.types import to_arrow_type

    names = df.select(*aggregator.columns).columns
    spark = df.sparkSession
    state = None if aggregator.state is None else to_arrow_type(type_of(spark, aggregator.state))
    returns = to_arrow_type(type_of(spark, aggregator.returns))
    return BoundAggregator(for_tasks(aggregator, names), names, returns, state)


def for_tasks(aggregator: Aggregator, names: Sequence[str]) -> Aggregator:
    """Return an Aggregator with names in the place of its columns, because a Column cannot be pickled."""
    named = copy.copy(aggregator)
    named.columns = tuple(names)
    return named


def type_of(spark: SparkSession, declared: DataType | str) -> DataType:
    """Return a type that is declared in DDL or as a Spark type."""
    schema = f"r {declared}" if isinstance(declared, str) else StructType([StructField("r", declared)])
    return spark.createDataFrame([], schema).schema[0].dataType


def _metrics(parts: Column) -> list[Column]:
    """Return the metrics of an observation, from the states of a group; a part without a state is NULL."""
    states = F.filter(parts, F.isnotnull)
    sizes = F.transform(states, lambda state: F.octet_length(state).cast("bigint"))
    return [
        F.count(F.lit(1)).alias("groups"),
        F.sum(F.size(states)).alias("states"),
        F.sum(F.greatest(F.size(states) - 1, F.lit(0))).alias("merges"),
        F.sum(F.aggregate(sizes, F.lit(0).cast("bigint"), lambda a, b: a + b)).alias("state_bytes"),
        F.max(F.array_max(sizes)).alias("largest_state"),
        F.max(F.size(states)).alias("most_states"),
    ]
