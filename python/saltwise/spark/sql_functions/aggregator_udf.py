"""Aggregates in Python as SQL functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..._optional import required_by
from ...errors import SaltwiseValueError
from ..aggregators.protocol import Aggregator

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_ROWS_OF_UPDATE = 1 << 17
"""The most rows of a group in one call of update."""


def register_aggregator(spark: SparkSession, name: str, aggregator: Aggregator) -> None:
    """Register an Aggregator as a temporary SQL function of its columns, as a grouped-aggregate pandas UDF.

    Spark gives such a function whole groups. So SQL has the same results, but only ``skew_groupby(...).agg`` splits
    groups. In a query block with such a function, Spark allows no aggregate of its own. It turns whole numbers among
    NULLs into doubles, and returns NULL for NaN. The package must be installed where tasks run.

    Args:
        spark: a classic or a Connect session.
        name: the name of the function. It takes one argument for each column of the Aggregator, and the Aggregator gets
            them under the names of these columns; a Column that is no name stands for any argument.
        aggregator: the Aggregator.

    Raises:
        SaltwiseValueError: the Aggregator returns a struct, which Spark does not allow for such a function.
        OptionalPackageError: pandas cannot be imported.

    >>> from saltwise.aggregates import ApproxDistinct
    >>> register_aggregator(spark, "about_distinct", ApproxDistinct("value"))
    >>> spark.sql("SELECT about_distinct(id) AS n FROM VALUES ('a'), ('b'), ('a') AS t(id)").collect()
    [Row(n=2)]
    """
    with required_by("register_aggregator", extra="arrow"):
        import pandas as pd
        import pyarrow as pa
        from pyspark.sql.pandas.functions import pandas_udf
    from ..aggregators.plan import for_tasks, type_of

    returns = type_of(spark, aggregator.returns)
    if returns.typeName() == "struct":
        raise SaltwiseValueError(
            f"{type(aggregator).__name__} returns a {returns.simpleString()}, and in SQL an aggregate function in "
            "Python cannot return a struct: return an array with the struct, or use skew_groupby(...).agg."
        )
    names = [column if isinstance(column, str) else f"_{i}" for i, column in enumerate(aggregator.columns)]
    aggregator = for_tasks(aggregator, names)

    def aggregate_group(first: Any, *others: Any) -> Any:
        columns = [first, *others]
        if len(columns) != len(names):
            raise SaltwiseValueError(f"{name} got {len(columns)} arguments; it takes {len(names)}: {', '.join(names)}.")
        rows = pa.RecordBatch.from_arrays([pa.Array.from_pandas(column) for column in columns], names)
        state = aggregator.zero()
        for start in range(0, rows.num_rows, MAX_ROWS_OF_UPDATE):
            batch = rows.slice(start, MAX_ROWS_OF_UPDATE)
            state = aggregator.update(state, batch if aggregator.batches == "arrow" else batch.to_pandas())
        return aggregator.finish(state)

    # Spark reads the annotations. pandas may be missing where this module is imported, so they are set here.
    aggregate_group.__annotations__ = {"first": pd.Series, "others": pd.Series, "return": Any}
    spark.udf.register(name, pandas_udf(aggregate_group, returns))  # type: ignore[call-overload]
