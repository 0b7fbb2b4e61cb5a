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
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType, StructField, StructType

from ...errors import SaltwiseError, SaltwiseValueError
from ...options import SkewOptions
from ..compat import call_of
from ..key_columns import as_column, flattened
from ..mergeable import NULL_IS_A_VALUE, RULES
from ..session import session_options
from ..split_groups import apply_split
from .protocol import Aggregator

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation, SparkSession

    from .bound_aggregators import BoundAggregator


class TakesAggregators:
    """What :func:`taking_aggregators` puts before a GroupedData of Spark or of Saltwise."""

    _rows: DataFrame
    _cols: list[Any]
    _options: SkewOptions

    def agg(self, *exprs: Any, observation: Observation | None = None) -> DataFrame:
        """Aggregate by Spark's functions and by Aggregators, in one pass.

        Args:
            exprs: Columns and instances of :class:`saltwise.Aggregator`, in any order, or what ``GroupedData.agg``
                takes. Beside an Aggregator, a Column is one call of a function.
            observation: has, when the query has run, ``groups``, ``states`` (that map tasks sent; rows of rare keys
                come as they are), ``merges``, ``state_bytes``, ``largest_state`` (in bytes) and ``most_states`` (of one
                key).

        Raises:
            SaltwiseValueError: a Column is no such call, or there is an observation and no Aggregator.
            SaltwiseError: numpy is not installed.
        """
        if any(isinstance(expr, Aggregator) for expr in exprs):
            return aggregated(self._rows, self._cols, exprs, self._options, observation)
        if observation is not None:
            raise SaltwiseValueError("observation is given, and there is no Aggregator to observe: leave it out.")
        return super().agg(*exprs)  # type: ignore[misc, no-any-return]

    def applyInPandas(
        self, func: Callable[..., Any], schema: StructType | str, merge: Callable[[Any], Any] | None = None
    ) -> DataFrame:
        """Apply a function of pandas DataFrames to each group, or, where it is said how to merge, to parts of groups.

        Args:
            func: as for ``GroupedData.applyInPandas``.
            schema: of what it returns.
            merge: takes what `func` made of the parts of one group, one after another in one DataFrame, and returns
                what `func` would have made of the group. Groups are split then, so no task gets more than its share of
                a hot key; without it they are placed, whole.

        Raises:
            SaltwiseValueError: there is a merge, and a key is a struct, an array or a map, or the strategy splits
                nothing.
            SaltwiseError: there is no merge with ``engine="arrow"``.

        >>> rows = spark.createDataFrame([("a", 1), ("a", 2), ("b", 3)], "k string, v bigint")
        >>> def totals(rows):
        ...     return rows.groupby("k", as_index=False)["v"].sum()
        >>> rows.skew_groupby("k").applyInPandas(totals, "k string, v bigint", merge=totals).orderBy("k").collect()
        [Row(k='a', v=3), Row(k='b', v=3)]
        """
        if merge is not None:
            return apply_split(self._rows, self._cols, func, schema, merge, self._options)
        whole = getattr(super(), "applyInPandas", None)
        if whole is None:
            raise SaltwiseError("engine='arrow' places no groups: give merge=, or group by the plugin.")
        return whole(func, schema)  # type: ignore[no-any-return]


def taking_aggregators(grouped: Any, df: DataFrame, cols: Sequence[Any], options: SkewOptions) -> Any:
    """Return the same GroupedData with an ``agg`` that takes Aggregators too.

    Args:
        grouped: what ``groupBy`` returned, of a classic session or of Connect, or Saltwise's own.
        df: what was grouped.
        cols: as they were given.
        options: likewise.
    """
    of = type(grouped)
    # Whatever class Spark has for it, and users ask for, it stays one of these.
    made: Any = object.__new__(type(of.__name__, (TakesAggregators, of), {}))
    vars(made).update(vars(grouped), _rows=df, _options=options, _cols=flattened(cols))
    return made


def aggregated(
    df: DataFrame,
    cols: Sequence[Any],
    exprs: Sequence[Any],
    options: SkewOptions,
    observation: Observation | None,
) -> DataFrame:
    """Return a DataFrame of one row a group, with names and types as Spark would give them."""
    try:
        from ...splitting.router import settled, settled_head
        from ...splitting.schemes import SPLITTING
        from ..arrow_engine import WORKER, check_travels, named, routed
        from .bound_aggregators import AT, STATES, BoundAggregators
        from .map_side import combine
        from .reduce_side import merge
    except ImportError as error:
        raise SaltwiseError(f"Aggregators need {error.name}: run pip install 'saltwise[aggregates]'.") from error
    sparks = [expr for expr in exprs if not isinstance(expr, Aggregator)]
    ours = [expr for expr in exprs if isinstance(expr, Aggregator)]
    keys = [as_column(df, col) for col in cols]
    fields = list(df.groupBy(*keys).agg(*(sparks or [F.count("*")])).schema)
    shown = fields[: -max(1, len(sparks))]
    of_sparks = fields[len(fields) - len(sparks) :]

    # Only what is needed travels, under names that the user's cannot clash with.
    columns, key = named("k", keys or [F.lit(0)])
    travelling, calls = [*columns], []
    for i, (column, field) in enumerate(zip(sparks, of_sparks, strict=True)):
        call, values = _split(column, field.name)
        columns, held = named(f"v{i}_", values)
        travelling += columns
        calls.append(call(held).alias(f"r{i}"))
    leaving = len(travelling)
    bound = []
    for i, each in enumerate(ours):
        travelling += named(f"a{i}_", [as_column(df, column) for column in each.columns])[0]
        bound.append(_bound(df, each))
    aggregators = BoundAggregators(bound, len(key), _task)
    rows = df.select(*travelling)
    check_travels(rows, len(key))
    session = session_options(df.sparkSession)
    # Map tasks combine the rows that they have, unless it is said how rows are to be spread over workers first.
    if (options.strategy or session.get("strategy", "auto")).lower() in SPLITTING:
        rows = routed(rows, len(key), settled(options, session)).drop(WORKER)

    arrays = [StructField(field.name, ArrayType(field.dataType)) for field in rows.schema.fields[leaving:]]
    sent = [StructField(STATES, BinaryType()), *arrays]
    _, theta = settled_head(options, session)
    combined = rows.mapInArrow(
        combine(aggregators, leaving - len(key) if sparks else None, theta),
        StructType([*rows.schema.fields[:leaving], *sent]),
    )
    # Where spark.sql.retainGroupColumns is off, only what agg names is kept.
    kept, of_group = named("of_k", key if keys else [F.lit(0)])
    has_part = F.col(STATES).isNotNull() | F.col(arrays[0].name).isNotNull()
    part = F.when(has_part, F.struct(*(field.name for field in sent)))
    groups = combined.groupBy(*(key if keys else [])).agg(*kept, *calls, F.collect_list(part).alias(STATES))
    if observation is not None:
        groups = groups.observe(observation, *_metrics(F.col(STATES)[STATES]))

    # A row for each part; the first has all else of the group. Without keys there may be a group without rows.
    of_group += [F.col(f"r{i}") for i in range(len(calls))]
    states = groups.select(*of_group, F.posexplode_outer(STATES).alias(AT, STATES))
    at = F.coalesce(F.col(AT), F.lit(0))
    once, of_first = named("g", [F.when(at == 0, column) for column in of_group])
    states = states.select(*once, at.alias(AT), f"{STATES}.*")
    results = [StructField(f"m{i}", type_of(df.sparkSession, each.returns)) for i, each in enumerate(ours)]
    stock = [*(shown if len(shown) == len(key) else [None] * len(key)), *of_sparks]
    first = [
        StructField(each.name, each.dataType, field is None or field.nullable)
        for each, field in zip(states.schema, stock, strict=False)
    ]
    whole = states.mapInArrow(merge(aggregators, len(once)), StructType([*first, *results]))
    column_of = dict(zip(map(id, sparks), zip(of_first[len(key) :], of_sparks, strict=True), strict=True))
    out = [column.alias(field.name, metadata=field.metadata) for column, field in zip(of_first, shown, strict=False)]
    made = iter(zip(results, bound, strict=True))
    for expr in exprs:
        if isinstance(expr, Aggregator):
            result, each_bound = next(made)
            out.append(F.col(result.name).alias(expr.name or f"{type(expr).__name__}({', '.join(each_bound.names)})"))
        else:
            column, field = column_of[id(expr)]
            out.append(column.alias(field.name, metadata=field.metadata))
    return whole.select(*out)


DISTINCT: dict[str, Callable[..., Column]] = {"count": F.count_distinct, "sum": F.sum_distinct}

OF_TWO = ("corr", "covar_pop", "covar_samp", "regr_")
"""How the names of functions of two columns begin, beside those of :mod:`saltwise.spark.mergeable`."""


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

    from .bound_aggregators import BoundAggregator

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


def _task() -> int:
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None
    return int(task.partitionId())
