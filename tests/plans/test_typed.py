"""Typed Datasets, whose columns have types of the JVM: the answers of stock Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession
from tests.agree import toggled

if TYPE_CHECKING:
    from tests.agree import WithConf

pytestmark = pytest.mark.classic("call Scala")

EVENTS = "SELECT string(id % 10) AS k, id % 7 AS v FROM range(0, 2000, 1, 2)"


@pytest.fixture(scope="module")
def typed(spark: SparkSession, compiled: Callable[[str], Any]) -> Any:
    """The queries of Typed.scala."""
    spark.sql(EVENTS).createOrReplaceTempView("events")
    return compiled("Typed").saltwise.test.Typed


@pytest.mark.parametrize(
    ("strategy", "adaptive"),
    [
        ("auto", True),
        ("local", True),
        ("split", True),
        ("auto", False),
        pytest.param("local", False, marks=pytest.mark.full),
        pytest.param("dchoices", True, marks=pytest.mark.full),
    ],
)
def test_typed_columns_have_the_answers_of_stock(
    spark: SparkSession, with_conf: WithConf, typed: Any, strategy: str, adaptive: bool
) -> None:
    def answers() -> list[str]:
        return str(typed.answers(spark._jsparkSession)).splitlines()

    conf = {"spark.sql.adaptive.enabled": adaptive}
    with with_conf(conf):
        stock = answers()
    with with_conf(conf | toggled({"strategy": strategy, "auto.smallInput": 0, "partitions": 4})):
        ours = answers()

    assert len(stock) == 9
    assert ours == stock
