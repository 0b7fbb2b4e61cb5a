"""Tables in Parquet as views, since what Spark folds into a projection is no column of a side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from tests.agree import WithConf

Ran = Callable[..., str]
Tables = Callable[[Mapping[str, str]], AbstractContextManager[None]]


@pytest.fixture(scope="module")
def shuffled_tables(spark: SparkSession, with_conf: WithConf, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """Makes views of queries, for the length of a `with` block in which no join is broadcast and no input is small."""

    @contextmanager
    def made(views: Mapping[str, str]) -> Iterator[None]:
        for name, rows in views.items():
            path = str(tmp_path_factory.mktemp(name))
            spark.sql(rows).write.mode("overwrite").parquet(path)
            spark.read.parquet(path).createOrReplaceTempView(name)
        with with_conf({"spark.sql.autoBroadcastJoinThreshold": -1, "spark.saltwise.auto.smallInput": 0}):
            yield
        for name in views:
            spark.catalog.dropTempView(name)

    return made


@pytest.fixture
def ran(spark: SparkSession, with_conf: WithConf, plan_that_ran: Callable[[], str]) -> Ran:
    """Runs a query with the toggle on, or off if `enabled` says so, and returns its final plan."""

    def run(query: str, enabled: bool = True) -> str:
        with with_conf({"spark.saltwise.enabled": enabled}):
            spark.sql(query).collect()
        return plan_that_ran()

    return run
