"""The rows of all tests of windows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.windows.readings import READINGS


@pytest.fixture(scope="module")
def readings(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The view readings, over files."""
    path = str(tmp_path_factory.mktemp("readings"))
    spark.sql(READINGS).write.mode("overwrite").parquet(path)
    spark.read.parquet(path).createOrReplaceTempView("readings")
    yield
    spark.catalog.dropTempView("readings")
