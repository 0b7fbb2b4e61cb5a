"""How the plugin refuses a query, for the tests of the sketch functions."""

from __future__ import annotations

import re

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import SparkSession

SKETCH = "give the binary result of space_saving_agg or space_saving_merge."


def refusal(spark: SparkSession, query: str) -> str:
    """Return the sentence with which the plugin itself refuses a query: on the driver, or in a task of Spark."""
    with pytest.raises(IllegalArgumentException) as refused:
        spark.sql(query).collect()
    return str(refused.value).split("\n")[0]


def type_refusal(spark: SparkSession, query: str) -> str:
    """Return why Spark's analyzer refuses the types of a query."""
    with pytest.raises(AnalysisException) as refused:
        spark.sql(query)
    reason = re.search(r"data type mismatch: (.*?)(?: SQLSTATE: \w+)?; line \d+ pos \d+", str(refused.value))
    assert reason, refused.value
    return reason[1]
