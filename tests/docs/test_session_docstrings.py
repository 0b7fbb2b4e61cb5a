"""The examples in docstrings that need a session run."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.unit.test_docstrings import WITH_A_SESSION


@pytest.fixture(scope="module")
def df(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([("a",), ("a",), ("b",)], "k string")


@pytest.mark.parametrize("module", WITH_A_SESSION)
def test_the_examples_of_docstrings_run_with_a_session(spark: SparkSession, df: DataFrame, module: str) -> None:
    assert doctest.testmod(import_module(module), extraglobs={"spark": spark, "df": df, "F": F}).failed == 0
