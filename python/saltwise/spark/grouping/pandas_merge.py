"""``applyInPandas`` on parts of groups. A function of the user merges the results of the parts::

    merge ← Exchange(key) ← function ← Sort(key) ← Exchange(worker) ← route ← child

A splitting strategy sends each row to a worker. The function gets the rows of a key that one worker has. `merge` gets
the results of all workers for a key. Between the two, the key is a text or a whole number, which pandas does not
change. In a column of floats, pandas would turn NULL into NaN.
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
from ..columns import with_names
from ..two_phases.routing import WORKER, routed
from .request import Request

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def apply_split(
    request: Request, func: Callable[..., Any], schema: StructType | str, merge: Callable[[Any], Any]
) -> DataFrame:
    """Apply a function to parts of each group, and another one to the results of the parts.

    Args:
        request: what to group, and the options.
        func: as for ``GroupedData.applyInPandas``: it gets a pandas DataFrame with rows of one key, or the key and such
            a DataFrame, and returns a DataFrame.
        schema: the schema of the DataFrames that both functions return.
        merge: gets the results of all parts of one key, one after another in one DataFrame, and returns a DataFrame.

    Raises:
        SaltwiseValueError: a key is a struct, an array or a map, a column is an interval of months, the strategy does
            not split, or an option was given that merge= does not use.
    """
    request.refuse_unused("merge=", "leave merge out")
    settled = request.settle(ROUTING, "dchoices")
    df = request.rows
    result = df.sparkSession.createDataFrame([], schema).schema
    keys = request.keys
    # A DataFrame may have two columns of one name, so each column gets a name for its position.
    rows = df.select(*with_names("k", keys or [F.lit(0)])[0], "*")
    names = [f"c{i}" for i in range(len(df.columns))]
    key_names = rows.columns[: len(rows.columns) - len(names)]
    rows = rows.toDF(*key_names, *names)
    named_tokens, tokens = with_names("saltwise_key_", [token(rows, name) for name in key_names])
    labels = [f"saltwise_key_{i}" for i in range(len(key_names))]
    rows = routed(rows.select(*key_names, *named_tokens, *names), len(key_names), settled)

    def merge_parts(parts: Any) -> Any:
        return merge(parts.drop(columns=labels))

    between = StructType([*result, *(StructField(label, rows.schema[label].dataType) for label in labels)])
    of_part = _function_of_part(func, len(keys), dict(zip(names, df.columns, strict=True)), labels)
    parts = rows.groupBy(*key_names, *tokens, WORKER).applyInPandas(of_part, between)
    return parts.groupBy(*labels).applyInPandas(merge_parts, result)


def _function_of_part(
    func: Callable[..., Any], keys: int, columns: dict[str, str], labels: Sequence[str]
) -> Callable[[tuple[Any, ...], Any], Any]:
    """Return the function of the first phase. It calls `func`, and adds the tokens of the key to the result.

    Args:
        func: the user's function.
        keys: how many of the first key columns are the user's.
        columns: the name of each column in the first phase, to the user's name.
        labels: the names of the columns with the tokens of the key.
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
    """Return a text or a whole number for a key column. Two of them are equal if and only if Spark's keys are equal."""
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
    # -0.0 and 0.0 are equal keys, and -0.0 + 0.0 is 0.0.
    return (column + F.lit(0.0) if isinstance(data_type, DoubleType | FloatType) else column).cast("string")
