"""The examples in the docstrings of every module run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import saltwise

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(saltwise.__path__, "saltwise.")
    if not module.ispkg or module.name == "saltwise.reproduce"
)


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_docstrings_run(spark: SparkSession, module: str) -> None:
    df = spark.createDataFrame([("a",), ("a",), ("b",)], "k string")
    result = doctest.testmod(importlib.import_module(module), extraglobs={"spark": spark, "df": df, "F": F})
    assert result.failed == 0
