"""What the tests of placement share: functions of groups, and what a plan or an answer says of them."""

from __future__ import annotations

import contextlib
import io
import re
import sys

import pandas as pd
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import DoubleType

# Python workers cannot import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

TOGGLE = {"spark.saltwise.placement.enabled": True}
SUMMED = "rows bigint, total bigint"
LOCATED = "k bigint, rows bigint, partition int"


def summed(group: pd.DataFrame) -> pd.DataFrame:
    """One row for a group: how many rows it has, and what they add up to."""
    return pd.DataFrame({"rows": [len(group)], "total": [group["v"].sum()]})


def summed_by_arrow(group: pa.Table) -> pa.Table:
    return pa.table({"rows": [group.num_rows], "total": [sum(group["v"].to_pylist())]})


def located(group: pd.DataFrame) -> pd.DataFrame:
    """One row for a group: its key, its rows, and the partition that it is in."""
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None
    return pd.DataFrame({"k": [group["k"].iloc[0]], "rows": [len(group)], "partition": [task.partitionId()]})


def mean(column: str) -> Column:
    # Made when there is a session, which says of which kind it has to be.
    def of_group(values: pd.Series) -> float:
        return float(values.mean())

    return pandas_udf(of_group, DoubleType())(column)  # type: ignore[call-overload, no-any-return]


def answers(df: DataFrame) -> list[str]:
    return sorted(map(str, df.collect()))


def plan(df: DataFrame) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        df.explain()
    return out.getvalue()


def exchanges(df: DataFrame) -> list[str]:
    """The exchanges of rows, from the top; those of the pass over the keys belong to a subquery and are left out."""
    outer = [line for line in plan(df).splitlines() if not re.match(r".*:  ", line)]
    return [exchange[1] for line in outer if (exchange := re.search(r"Exchange (\w+)", line))]
