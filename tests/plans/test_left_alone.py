"""What Saltwise cannot help keeps Spark's plan, and the plan says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import pytest
from pyspark.sql.pandas.functions import pandas_udf

if TYPE_CHECKING:
    from tests.agree import Agree, WithConf

pytestmark = pytest.mark.usefixtures("events")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, count(DISTINCT i) FROM events GROUP BY k",
        "SELECT k, count(DISTINCT i), sum(d), max(s) FROM events GROUP BY k",
        "SELECT k, array_sort(collect_list(DISTINCT i)) FROM events GROUP BY k",
    ],
)
def test_one_distinct_aggregate_is_left_alone(agree: Agree, query: str) -> None:
    agree.left_alone(query, "a DISTINCT aggregate has phases of its own")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, count(DISTINCT i), sum(DISTINCT l) FROM events GROUP BY k",
        "SELECT k, count(DISTINCT i), sum(DISTINCT l), array_sort(collect_list(s)) FROM events GROUP BY k",
        "SELECT k, count(DISTINCT i) FILTER (WHERE t), sum(d) FROM events GROUP BY k",
        "SELECT k, t, count(DISTINCT i), count(DISTINCT l) FROM events GROUP BY CUBE (k, t)",
    ],
)
def test_several_distinct_aggregates_are_left_alone(agree: Agree, query: str) -> None:
    agree.left_alone(query, "a DISTINCT aggregate has phases of its own", times=2)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT DISTINCT k, t FROM events",
        "SELECT k FROM events GROUP BY k",
        "SELECT k FROM events UNION SELECT i FROM events",
    ],
)
def test_a_query_without_an_aggregate_function_is_left_alone(agree: Agree, query: str) -> None:
    agree.left_alone(query, "there is no aggregate function, and the map side already drops repeated keys")


@pytest.mark.parametrize("strategy", ["auto", "dchoices"])
def test_an_aggregate_without_a_partial_phase_is_left_alone(agree: Agree, with_conf: WithConf, strategy: str) -> None:
    with with_conf({"spark.sql.execution.bypassPartialAggregation": True}):
        agree.left_alone(
            "SELECT k, array_sort(collect_list(i)) FROM events WHERE i IS NOT NULL GROUP BY k",
            "spark.sql.execution.bypassPartialAggregation is on, so there are no partial states to merge",
            strategy=strategy,
        )


@pytest.mark.parametrize("strategy", ["auto", "dchoices"])
def test_one_partition_is_left_alone(agree: Agree, strategy: str) -> None:
    agree.left_alone(
        "SELECT k, array_sort(collect_list(i)) FROM events GROUP BY k",
        "there is one partition, so there is nothing to balance",
        strategy=strategy,
        options={"partitions": 1},
    )


def test_auto_leaves_states_of_a_fixed_size_alone(agree: Agree) -> None:
    agree.left_alone(
        "SELECT k, sum(i), max(i), sum(d) FROM events GROUP BY k",
        "the states of sum, max have a fixed size, and the map side already combines them; "
        "name a strategy to rewrite all the same",
        strategy="auto",
    )


@pytest.mark.parametrize(
    "clustered",
    [
        "SELECT /*+ REPARTITION(4, k) */ * FROM events",
        "SELECT k, row_number() OVER (PARTITION BY k ORDER BY id) AS i FROM events",
        "SELECT * FROM (SELECT /*+ REPARTITION(4, k) */ * FROM events) WHERE i > 0",
    ],
)
def test_auto_leaves_rows_alone_that_are_grouped_by_key_already(agree: Agree, clustered: str) -> None:
    agree.left_alone(
        f"SELECT k, array_sort(collect_list(i)) FROM ({clustered}) GROUP BY k",
        "its rows are already grouped by key, without another shuffle",
        strategy="auto",
        options={"auto.smallInput": 0},
    )


def test_a_pandas_aggregate_is_left_alone(agree: Agree) -> None:
    def middle(values: pd.Series) -> float:
        return float(values.median())

    agree.left_alone(
        lambda spark: spark.table("events").groupBy("k").agg(pandas_udf(middle, "double")("d")),  # type: ignore[call-overload]
        "pythonudaf cannot be merged from partial states",
    )


def test_the_hint_on_what_cannot_be_rewritten_says_why(agree: Agree) -> None:
    with agree.with_conf({"spark.saltwise.enabled": False}):
        query = "SELECT /*+ SKEW_GROUPBY(pkg) */ k, count(DISTINCT i) FROM events GROUP BY k"

        agree.left_alone_pair(
            "SELECT k, count(DISTINCT i) FROM events GROUP BY k",
            query,
            "a DISTINCT aggregate has phases of its own",
        )


def test_a_global_aggregate_keeps_the_plan_of_spark(agree: Agree) -> None:
    agree.untouched("SELECT count(*), sum(d), array_sort(collect_list(i)) FROM events")


def test_a_query_without_an_aggregate_keeps_the_plan_of_spark(agree: Agree) -> None:
    agree.untouched("SELECT k, d FROM events WHERE i > 0")


def test_applyinpandas_keeps_the_plan_of_spark(agree: Agree) -> None:
    agree.untouched(
        lambda spark: (
            spark.table("events")
            .select("k", "d")
            .groupBy("k")
            .applyInPandas(lambda frame: frame.sort_values("d").head(2), "k int, d double")
        )
    )
