"""The options of skew_groupby: what has no use for one refuses it, and the confs of the session count where it is silent."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import saltwise
from saltwise import SaltwiseValueError, skew_groupby
from saltwise.aggregates import Moments
from saltwise.options import EPSILON, SkewOptions
from saltwise.placement.function_json import from_json
from saltwise.placement.hash_pair import HashPair
from saltwise.placement.partition_function import UniformHash
from saltwise.spark.grouping import key_weights
from saltwise.spark.grouping.planned_placement import partition_function_json
from saltwise.spark.grouping.request import Request
from saltwise.strategies import ROUTING, StrategyName

if TYPE_CHECKING:
    import pandas as pd
    from tests.agree import WithConf
    from tests.conftest import SaltwiseLines


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    return spark.range(0, 400, 1, 2).selectExpr("if(id % 2 = 0, 0, id % 40) AS k", "id AS v", "id % 3 AS w").cache()


def count_rows() -> tuple[Callable[[pd.DataFrame], pd.DataFrame], Callable[[pd.DataFrame], pd.DataFrame]]:
    """Functions that travel by value: Python workers cannot import this module."""

    def counted(part: pd.DataFrame) -> pd.DataFrame:
        return part.head(1)[["k"]].assign(n=len(part))

    def added(parts: pd.DataFrame) -> pd.DataFrame:
        return parts.head(1)[["k"]].assign(n=parts["n"].sum())

    return counted, added


def test_a_strategy_may_be_spelled_in_capitals(rows: DataFrame) -> None:
    ours = skew_groupby(rows, "k", partitions=3, **{"strategy": "READJ"})  # type: ignore[call-overload]
    stock = rows.groupBy("k").agg(F.sort_array(F.collect_list("v")))
    found = ours.agg(F.sort_array(F.collect_list("v")))
    assert sorted(found.collect()) == sorted(stock.collect())


GIVEN: list[tuple[str, Any]] = [("hot", [0]), ("cost", "bytes"), ("placement", UniformHash(3, "bigint"))]


@pytest.mark.parametrize(("name", "value"), GIVEN)
@pytest.mark.parametrize(
    ("user", "instead"),
    [
        ("an Aggregator", "aggregate by Spark's functions"),
        ("merge=", "leave merge out"),
        ("engine='arrow'", "group by the plugin"),
    ],
)
def test_what_has_no_use_for_an_option_refuses_it(
    rows: DataFrame, user: str, instead: str, name: str, value: Any
) -> None:
    counted, added = count_rows()
    calls: Mapping[str, Callable[[], object]] = {
        "an Aggregator": lambda: skew_groupby(rows, "k", **{name: value}).agg(Moments("v")),
        "merge=": lambda: skew_groupby(rows, "k", **{name: value}).applyInPandas(counted, "k long, n long", added),
        "engine='arrow'": lambda: skew_groupby(rows, "k", engine="arrow", **{name: value}),
    }
    with pytest.raises(SaltwiseValueError) as refused:
        calls[user]()
    assert str(refused.value) == (f"{name} is given, and {user} has no use for it: leave {name} out, or {instead}.")


@pytest.mark.parametrize("strategy", ["split", "offgreedy", "readj"])
def test_aggregators_and_merge_refuse_the_same_strategies(rows: DataFrame, strategy: StrategyName) -> None:
    counted, added = count_rows()
    grouped = skew_groupby(rows, "k", strategy=strategy)
    with pytest.raises(SaltwiseValueError, match=f"^strategy is '{strategy}'; it must be one of auto, local, hash"):
        grouped.agg(Moments("v"))
    with pytest.raises(SaltwiseValueError, match=f"^strategy is '{strategy}'; it must be one of hash, shuffle"):
        grouped.applyInPandas(counted, "k long, n long", merge=added)


def test_hot_keys_are_routed_by_dchoices_where_no_strategy_is_named(
    rows: DataFrame, saltwise_lines: SaltwiseLines
) -> None:
    ours = skew_groupby(rows, "k", partitions=4, hot={0: 0.5}).agg(F.sort_array(F.collect_list("v")))
    assert saltwise_lines(ours)[-1].startswith("SkewRoute [k], dchoices, n=4, hot keys given")
    stock = rows.groupBy("k").agg(F.sort_array(F.collect_list("v")))
    assert sorted(ours.collect()) == sorted(stock.collect())


@pytest.mark.parametrize("strategy", ["split", "local", "offgreedy"])
def test_hot_keys_are_refused_by_strategies_that_do_not_route(
    spark: SparkSession, rows: DataFrame, strategy: StrategyName
) -> None:
    message = (
        f"hot is given, and strategy '{strategy}' does not route rows; name one of {', '.join(ROUTING)}, or leave hot "
        "out."
    )
    with pytest.raises(SaltwiseValueError) as refused:
        skew_groupby(rows, "k", strategy=strategy, hot=[0])
    assert str(refused.value) == message
    hint = f"""SKEW_GROUPBY({strategy}, 'hot=[{{"key": [0]}}]')"""
    with pytest.raises(Exception, match=re.escape(message)):
        spark.sql(f"SELECT /*+ {hint} */ id % 3, collect_list(id) FROM range(9) GROUP BY id % 3").collect()


def test_a_strategy_of_the_session_that_aggregators_cannot_use_gives_way(rows: DataFrame, with_conf: WithConf) -> None:
    counted, added = count_rows()
    with with_conf({"spark.saltwise.strategy": "split"}):
        grouped = skew_groupby(rows, "k")
        assert grouped.agg(Moments("v")).count() == rows.select("k").distinct().count()
        merged = grouped.applyInPandas(counted, "k long, n long", merge=added)
        assert {row["k"]: row["n"] for row in merged.collect()}[0] == 200


def test_placed_groups_go_by_the_confs_of_the_session(
    rows: DataFrame, with_conf: WithConf, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[object, int | None]] = []
    weights_of = key_weights.weights_of

    def spy(df: DataFrame, keys: Any, cost: Any = "rows", capacity: int | None = None) -> Any:
        asked.append((cost, capacity))
        return weights_of(df, keys, cost, capacity)

    monkeypatch.setattr("saltwise.spark.grouping.planned_placement.weights_of", spy)
    confs = {"spark.saltwise.placement.cost": "rows^2", "spark.saltwise.sketch.capacity": 50}
    with with_conf(confs):
        partition_function_json(Request(rows, ("k",), SkewOptions("readj", partitions=4)))
        partition_function_json(Request(rows, ("k",), SkewOptions("scan", partitions=4, cost="bytes")))
    partition_function_json(Request(rows, ("k",), SkewOptions("redist", partitions=4)))
    assert asked == [("rows^2", 50), ("bytes", 50), ("rows", 10_000)]


def test_keys_are_placed_by_the_cost_of_the_session(rows: DataFrame, with_conf: WithConf) -> None:
    heavy = rows.selectExpr("k", "if(k = 3, 1000, 1) AS bytes")
    with with_conf({"spark.saltwise.placement.cost": "bytes"}):
        json = partition_function_json(Request(heavy, ("k",), SkewOptions("readj", partitions=4)))
    function = from_json(json)
    assert isinstance(function, HashPair)
    assert len(function.tracked) > 0


def test_the_report_predicts_by_theta_and_epsilon_of_the_session(rows: DataFrame, with_conf: WithConf) -> None:
    with with_conf({"spark.saltwise.theta": 0.4, "spark.saltwise.epsilon": 0.9, "spark.saltwise.partitions": 10}):
        of_session = saltwise.skew_report(rows, "k")
        given = saltwise.skew_report(rows, "k", theta=0.01, epsilon=EPSILON)
    assert (of_session.theta, of_session.partitions) == (0.4, 10)
    assert of_session.predicted == saltwise.skew_report(rows, "k", theta=0.4, epsilon=0.9, partitions=10).predicted
    assert of_session.predicted["dchoices"] != given.predicted["dchoices"]
