"""How the plugin refuses a query, for the tests of the sketch functions."""

from __future__ import annotations

import re

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import SparkSession

SKETCH = "give the binary result of space_saving_agg or space_saving_merge."


def refusal(spark: SparkSession, query: str) -> str:
    """Return the sentence with which the plugin itself refuses a query: on the driver, or in a task of Spark."""
    with pytest.raises(Exception, match=r"\w") as refused:
        spark.sql(query).collect()
    if isinstance(refused.value, IllegalArgumentException):
        return str(refused.value).split("\n")[0]
    assert spark.version < "4", refused.value  # Spark 3.5 wraps all errors of tasks
    in_task = re.search(r"SaltwiseException: ([^\n]*)", str(refused.value))
    assert in_task, refused.value
    return in_task[1]


def type_refusal(spark: SparkSession, query: str) -> str:
    """Return why Spark's analyzer refuses the types of a query."""
    with pytest.raises(AnalysisException) as refused:
        spark.sql(query)
    reason = re.search(r"data type mismatch: (.*?)(?: SQLSTATE: \w+)?; line \d+ pos \d+", str(refused.value))
    assert reason, refused.value
    return reason[1]
