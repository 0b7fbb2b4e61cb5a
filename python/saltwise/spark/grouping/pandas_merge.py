"""``applyInPandas`` on parts of groups, whose results a user's function merges::

    merge ← Exchange(key) ← function ← Sort(key) ← Exchange(worker) ← route ← child

A splitting strategy sends each row to a worker. The function gets what one worker has of a key, and `merge` gets what
the function made of the parts. Between the two a key travels as a text or a whole number, which pandas carries as it
is. In a column of floats pandas would make NaN of NULL.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ...errors import SaltwiseValueError
from ...strategies import ROUTING
from ..two_phases.arrow_groups import WORKER, routed, with_names
from .request import Grouping

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def apply_split(
    grouping: Grouping, func: Callable[..., Any], schema: StructType | str, merge: Callable[[Any], Any]
) -> DataFrame:
    """Return what `merge` makes of the results of `func` on parts of each group.

    Args:
        grouping: what to group, and the options.
        func: as for ``GroupedData.applyInPandas``: from a pandas DataFrame with rows of one key, or from the key and
            such a DataFrame, to a DataFrame.
        schema: of what both functions return.
        merge: from the results of all parts of one key, one after another in one DataFrame, to a DataFrame.

    Raises:
        SaltwiseValueError: a key is a struct, an array or a map, a column is an interval of months, the strategy does
            not split, or an option was given that there is no use for.
    """
    grouping.refuse_unused("merge=", "leave merge out")
    settled = grouping.settle(ROUTING, "dchoices")
    df = grouping.rows
    result = df.sparkSession.createDataFrame([], schema).schema
    keys = grouping.keys
    # A DataFrame may have two columns of one name, so columns go by position.
    rows = df.select(*with_names("k", keys or [F.lit(0)])[0], "*")
    names = [f"c{i}" for i in range(len(df.columns))]
    key_names = rows.columns[: len(rows.columns) - len(names)]
    rows = rows.toDF(*key_names, *names)
    carried, tokens = with_names("saltwise_key_", [token(rows, name) for name in key_names])
    labels = [f"saltwise_key_{i}" for i in range(len(key_names))]
    rows = routed(rows.select(*key_names, *carried, *names), len(key_names), settled)

    def merge_parts(parts: Any) -> Any:
        return merge(parts.drop(columns=labels))

    between = StructType([*result, *(StructField(label, rows.schema[label].dataType) for label in labels)])
    of_part = _function_of_part(func, len(keys), dict(zip(names, df.columns, strict=True)), labels)
    parts = rows.groupBy(*key_names, *tokens, WORKER).applyInPandas(of_part, between)
    return parts.groupBy(*labels).applyInPandas(merge_parts, result)


def _function_of_part(
    func: Callable[..., Any], keys: int, columns: dict[str, str], labels: Sequence[str]
) -> Callable[[tuple[Any, ...], Any], Any]:
    """Return the function of the first phase: it calls `func`, and adds columns with the key to what that returns.

    The first `keys` of the key columns are the user's. `columns` has the names under which the rows travel, and the
    user's names; `labels` the names of the columns with the key, as tokens.
    """
    takes_key = len(inspect.signature(func).parameters) == 2

    def of_part(key: tuple[Any, ...], part: Any) -> Any:
        import pandas as pd

        frame = part[list(columns)].set_axis(list(columns.values()), axis="columns")
        returned = func(key[:keys], frame) if takes_key else func(frame)
        if not isinstance(returned, pd.DataFrame):
            return returned
        if returned.empty:
            return pd.DataFrame()
        # Columns without names go by position.
        by_name = any(isinstance(label, str) for label in returned.columns)
        tokens = {
            label if by_name else returned.shape[1] + i: pd.Series(
                [key[len(labels) + i]] * len(returned), returned.index, object
            )
            for i, label in enumerate(labels)
        }
        return pd.concat([returned, pd.DataFrame(tokens, returned.index)], axis="columns")

    return of_part


def token(rows: DataFrame, name: str) -> Column:
    """Return what stands for a key column in pandas: equal exactly where Spark takes two keys for equal."""
    column, data_type = F.col(name), rows.schema[name].dataType
    if isinstance(data_type, StructType | ArrayType | MapType):
        raise SaltwiseValueError(
            f"a key is of type {data_type.simpleString()}; with merge= keys are plain columns: group by its parts, or "
            "leave merge out."
        )
    if isinstance(data_type, StringType | BinaryType):
        return column
    if isinstance(data_type, TimestampType):
        return F.unix_micros(column)
    # Adding 0.0 makes -0.0 the 0.0 that it is equal to.
    return (column + F.lit(0.0) if isinstance(data_type, DoubleType | FloatType) else column).cast("string")
