"""The toggle places what may not be split, observe tells what would be placed, and what stands beside placement."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from tests.placement.placed import SUMMED, TOGGLE, answers, exchanges, mean, plan, summed

from saltwise import skew_groupby
from saltwise.strategies import StrategyName

if TYPE_CHECKING:
    from tests.agree import WithConf
    from tests.conftest import SaltwiseLines

pytestmark = pytest.mark.usefixtures("any_input_is_large")

OBSERVE = {"spark.saltwise.mode": "observe"}


def each_kind_of_query(rows: DataFrame) -> Iterator[DataFrame]:
    """A query of each kind that the toggle changes."""
    by = Window.partitionBy("k")
    yield group_map(rows)
    yield rows.groupBy("s", "k").applyInPandas(summed, SUMMED)
    yield rows.groupBy("k").agg(mean("v"))
    yield rows.select("k", "v", F.sum("v").over(by), F.row_number().over(by.orderBy("v", "f", "s")))
    yield rows.where("v > 50").select("k", F.avg("v").over(by)).distinct()


def test_the_toggle_places_what_may_not_be_split(rows: DataFrame, with_conf: WithConf) -> None:
    stock = [(len(exchanges(df)), answers(df)) for df in each_kind_of_query(rows)]
    with with_conf(TOGGLE):
        for (before, wanted), df in zip(stock, each_kind_of_query(rows), strict=True):
            assert exchanges(df).count("placement") == 1
            assert len(exchanges(df)) == before
            assert answers(df) == wanted


def test_a_window_over_floats_takes_one_exchange(rows: DataFrame, with_conf: WithConf) -> None:
    windowed = rows.select("f", "v", F.sum("v").over(Window.partitionBy("f")))
    stock = answers(windowed)
    with with_conf(TOGGLE):
        df = windowed.select("*")
        assert exchanges(df) == ["placement"]
        assert answers(df) == stock


def test_the_toggle_leaves_aggregates_alone_that_may_be_split(rows: DataFrame, with_conf: WithConf) -> None:
    with with_conf(TOGGLE):
        assert "placement" not in plan(rows.groupBy("k").agg(F.collect_list("v")))


def group_map(rows: DataFrame) -> DataFrame:
    return rows.groupBy("k").applyInPandas(summed, SUMMED)


def group_map_of_rows_by_key(rows: DataFrame) -> DataFrame:
    return group_map(rows.repartition(3, "k"))


SMALL_INPUT = {"spark.saltwise.auto.smallInput": "1g"}
ONE_PARTITION = {"spark.saltwise.partitions": 1}
IS_SMALL = r"its input has about \d+ bytes, and spark.saltwise.auto.smallInput is 1073741824"
LIES_BY_KEY = "its rows are already grouped by key, without another shuffle"


@pytest.mark.parametrize(
    ("query", "conf", "reason"),
    [
        (group_map, SMALL_INPUT, IS_SMALL),
        (lambda rows: skew_groupby(rows, "k").agg(mean("v")), SMALL_INPUT, IS_SMALL),
        (group_map_of_rows_by_key, {}, LIES_BY_KEY),
        (group_map, ONE_PARTITION, "there is one partition, so there is nothing to balance"),
    ],
    ids=["small", "small, of an aggregate", "grouped already", "one partition"],
)
def test_what_is_left_alone_says_why(
    rows: DataFrame,
    with_conf: WithConf,
    saltwise_lines: SaltwiseLines,
    query: Callable[[DataFrame], DataFrame],
    conf: dict[str, object],
    reason: str,
) -> None:
    wanted = answers(query(rows))
    with with_conf({**TOGGLE, **conf}):
        df = query(rows)
        [line] = saltwise_lines(df)
        assert re.fullmatch(f"SkewGroupBy left alone: {reason}", line)
        assert answers(df) == wanted


def test_small_group_maps_that_ask_for_placement_have_it(rows: DataFrame, with_conf: WithConf) -> None:
    with with_conf(SMALL_INPUT):
        assert exchanges(skew_groupby(rows, "k").applyInPandas(summed, SUMMED)) == ["placement"]


def test_a_window_that_keeps_few_rows_drops_the_others_first(rows: DataFrame, with_conf: WithConf) -> None:
    ranked = F.row_number().over(Window.partitionBy("k").orderBy("v", "f", "s"))
    with with_conf(TOGGLE):
        assert "placement" not in plan(rows.withColumn("rank", ranked).where("rank < 3"))


def test_off_means_off(rows: DataFrame) -> None:
    assert all("placement" not in plan(df) for df in each_kind_of_query(rows))


# What a session tells that only observes


def would_run(df: DataFrame) -> list[str]:
    """Return what would run, for each group operator of a plan from the top."""
    reports: Any = df.sparkSession._jvm.org.apache.spark.sql.saltwise.report  # type: ignore[union-attr]
    groups = reports.GroupsOfPlan.of(df._jdf.queryExecution().executedPlan())
    return [groups.apply(i).wouldRun() for i in range(groups.length())]


@pytest.mark.classic("read what is noted at a plan")
@pytest.mark.parametrize(
    ("conf", "wanted"),
    [
        (
            {},
            {
                "placement, if spark.saltwise.placement.enabled is true",
                "auto: a key with too many rows for one task runs in slices",
            },
        ),
        (TOGGLE, {"placement"}),
    ],
    ids=["off", "on"],
)
def test_observe_tells_what_would_be_placed_or_run_in_slices(
    rows: DataFrame, with_conf: WithConf, conf: dict[str, object], wanted: set[str]
) -> None:
    stock = [exchanges(df) for df in each_kind_of_query(rows)]
    with with_conf({**OBSERVE, **conf}):
        for before, df in zip(stock, each_kind_of_query(rows), strict=True):
            assert wanted & {*would_run(df)}
            assert exchanges(df) == before


@pytest.mark.classic("read what is noted at a plan")
@pytest.mark.parametrize(
    ("query", "conf", "reason"),
    [
        (group_map, SMALL_INPUT, IS_SMALL),
        (group_map_of_rows_by_key, {}, LIES_BY_KEY),
        (
            lambda rows: rows.withColumn("r", F.rank().over(Window.partitionBy("k").orderBy("v"))).where("r < 3"),
            {},
            "it keeps the first rows of each group, and Spark drops the others before the shuffle",
        ),
        (
            lambda rows: skew_groupby(rows, "k", cost="z").applyInPandas(summed, SUMMED),
            {"spark.saltwise.placement.cost": "rows"},
            r"placement.cost is 'z'; it must be .*\.",
        ),
    ],
    ids=["small", "grouped already", "first rows", "refused"],
)
def test_observe_tells_why_groups_would_be_left_alone(
    rows: DataFrame,
    with_conf: WithConf,
    query: Callable[[DataFrame], DataFrame],
    conf: dict[str, object],
    reason: str,
) -> None:
    stock = exchanges(query(rows)) if not conf else None
    with with_conf({**OBSERVE, **conf}):
        df = query(rows)
        [told] = would_run(df)
        assert re.fullmatch(f"nothing: {reason}", told)
        assert stock is None or exchanges(df) == stock


# Beside other operators


def test_a_join_does_not_take_placement_for_a_hash(spark: SparkSession, rows: DataFrame) -> None:
    placed = skew_groupby(rows, "k", strategy="offgreedy", partitions=4).agg(F.count("*").alias("n"))
    stock = rows.groupBy("k").agg(F.count("*").alias("n"))
    other = spark.range(300).selectExpr("id AS k", "id AS name").repartition(4, "k")
    for ours in (
        placed.hint("merge").join(other, "k"),
        placed.hint("merge").join(placed.selectExpr("k", "n AS m"), "k"),
    ):
        assert ours.count() == stock.count()
        assert ours.agg(F.sum("n")).first() == stock.agg(F.sum("n")).first()


def test_rows_by_key_are_shuffled_again_where_the_user_says_so(rows: DataFrame) -> None:
    placed = skew_groupby(rows, "k", strategy="offgreedy", partitions=4).agg(F.max("v").alias("v"))
    found = placed.repartition(4, "k").select("k", F.spark_partition_id()).collect()
    stock = rows.select("k").distinct().repartition(4, "k").select("k", F.spark_partition_id()).collect()
    assert sorted(found) == sorted(stock)


def test_a_computed_input_is_read_once_unless_a_strategy_is_named(
    rows: DataFrame, with_conf: WithConf, saltwise_lines: SaltwiseLines
) -> None:
    def query(group_by: Callable[..., Any], **strategy: StrategyName) -> DataFrame:
        # Few rows, since a group costs Python a frame.
        inner = (
            rows.where("v < 8")
            .groupBy("k", "s")
            .applyInPandas(lambda g: pd.DataFrame({"k": [g["k"].iloc[0]], "v": [g["v"].sum()]}), "k bigint, v bigint")
        )
        both = inner.union(inner.where("k > 7"))
        grouped: DataFrame = group_by(both, "k", **strategy).applyInPandas(summed, SUMMED)
        return grouped.where("rows > 1")

    wanted = answers(query(DataFrame.groupBy))
    with with_conf(TOGGLE):
        ours = query(DataFrame.groupBy)
        reason = "a pass over its keys would compute its rows a second time; cache them, or name a strategy"
        assert f"SkewGroupBy left alone: {reason}" in saltwise_lines(ours)
        assert plan(ours).count("Exchange placement") == 2
        assert answers(ours) == wanted
        assert answers(query(skew_groupby, strategy="offgreedy")) == wanted
