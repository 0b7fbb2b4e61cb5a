"""The rows of the differential tests as a view."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.plans.events import EVENTS


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> Iterator[None]:
    spark.sql(EVENTS).createOrReplaceTempView("events")
    yield
    spark.catalog.dropTempView("events")
