"""``applyInPandas`` on parts of groups, whose results a user's function merges::

    merge ← Exchange(key) ← function ← Sort(key) ← Exchange(worker) ← route ← child

A row goes to a worker by a splitting strategy, the function gets what a worker has of a key, and `merge` what the
function made of the parts. Between the two a key is a text or a whole number, which pandas carries as it is: it would
take NaN for NULL.
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

from ..errors import SaltwiseError, SaltwiseValueError
from ..options import SkewOptions
from .key_columns import as_column
from .session import session_options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def apply_split(
    df: DataFrame,
    cols: Sequence[Any],
    func: Callable[..., Any],
    schema: StructType | str,
    merge: Callable[[Any], Any],
    options: SkewOptions,
) -> DataFrame:
    """Return what `merge` makes of the results of `func` on parts of each group.

    Args:
        df: what to group.
        cols: the keys, as ``groupBy`` takes them.
        func: as for ``GroupedData.applyInPandas``: from a pandas DataFrame with rows of one key, or from the key and
            such a DataFrame, to a DataFrame.
        schema: of what both functions return.
        merge: from the results of all parts of one key, one after another in one DataFrame, to a DataFrame.
        options: the strategy, and how many workers.

    Raises:
        SaltwiseValueError: a key is a struct, an array or a map, a column is an interval of months, or the strategy
            splits nothing.
        SaltwiseError: numpy or pandas is not installed.
    """
    try:
        from ..splitting.router import settled
        from .arrow_engine import WORKER, named, routed
    except ImportError as error:
        raise SaltwiseError(f"merge= needs {error.name}: run pip install 'saltwise[arrow]'.") from error
    spark = df.sparkSession
    result = spark.createDataFrame([], schema).schema
    keys = [as_column(df, col) for col in cols] or [F.lit(0)]
    columns = df.columns
    # The names of a DataFrame may stand twice, so columns go by position.
    rows = df.select(*named("k", keys)[0], "*")
    names = [f"c{i}" for i in range(len(columns))]
    rows = rows.toDF(*rows.columns[: len(keys)], *names)
    of_key = rows.columns[: len(keys)]
    carried, tokens = named("saltwise_key_", [token(rows, name) for name in of_key])
    rows = routed(rows.select(*of_key, *carried, *names), len(keys), settled(options, session_options(spark)))

    labels = [f"saltwise_key_{i}" for i in range(len(keys))]
    takes_key = len(inspect.signature(func).parameters) == 2
    given = len(cols)

    def of_part(key: tuple[Any, ...], part: Any) -> Any:
        import pandas as pd

        frame = part[names].set_axis(columns, axis="columns")
        made = func(key[:given], frame) if takes_key else func(frame)
        if not isinstance(made, pd.DataFrame):
            return made
        if made.empty:
            return pd.DataFrame()
        # Columns without names go by position.
        named_ones = any(isinstance(label, str) for label in made.columns)
        texts = {
            label if named_ones else made.shape[1] + i: pd.Series(
                [key[len(of_key) + i]] * len(made), made.index, object
            )
            for i, label in enumerate(labels)
        }
        return pd.concat([made, pd.DataFrame(texts, made.index)], axis="columns")

    def of_group(parts: Any) -> Any:
        return merge(parts.drop(columns=labels))

    between = StructType([*result, *(StructField(label, rows.schema[label].dataType) for label in labels)])
    parts = rows.groupBy(*of_key, *tokens, WORKER).applyInPandas(of_part, between)
    return parts.groupBy(*labels).applyInPandas(of_group, result)


def token(rows: DataFrame, name: str) -> Column:
    """Return what stands for a key column in pandas: equal where Spark takes keys for equal, and unlike where not."""
    column, of = F.col(name), rows.schema[name].dataType
    if isinstance(of, StructType | ArrayType | MapType):
        raise SaltwiseValueError(
            f"a key is of type {of.simpleString()}; with merge= keys are plain columns: group by its parts, or leave "
            "merge out."
        )
    if isinstance(of, StringType | BinaryType):
        return column
    if isinstance(of, TimestampType):
        return F.unix_micros(column)
    # Adding 0.0 makes -0.0 the 0.0 that it is equal to.
    return (column + F.lit(0.0) if isinstance(of, DoubleType | FloatType) else column).cast("string")
