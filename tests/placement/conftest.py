"""The rows of the tests of placement; however small an input is, it counts as large."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import DataFrame, SparkSession

if TYPE_CHECKING:
    from tests.agree import WithConf


@pytest.fixture(scope="session")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Rows of all kinds of keys: k is skewed, f has NaN and both zeros, s has NULL."""
    path = str(tmp_path_factory.mktemp("rows") / "rows")
    spark.range(0, 600, 1, 3).selectExpr(
        "IF(id % 3 = 0, 7, id * 7919 % 23) AS k",
        "CASE id % 5 WHEN 0 THEN double('NaN') WHEN 1 THEN -0.0D WHEN 2 THEN 0.0D ELSE id % 7 END AS f",
        "IF(id % 4 = 0, NULL, concat('s', id % 13)) AS s",
        "named_struct('a', id % 3, 'b', IF(id % 2 = 0, NULL, id % 5)) AS t",
        "id % 101 AS v",
    ).write.parquet(path)
    return spark.read.parquet(path)


@pytest.fixture
def any_input_is_large(with_conf: WithConf) -> Iterator[None]:
    with with_conf({"spark.saltwise.auto.smallInput": 0}):
        yield
