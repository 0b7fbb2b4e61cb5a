"""Groups that may not be split stay whole, each key is where its partition function says, and answers are stock's."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.placement.placed import LOCATED, SUMMED, answers, exchanges, located, mean, summed, summed_by_arrow

from saltwise import skew_groupby
from saltwise.keys import key_hashes
from saltwise.loads import worker_loads
from saltwise.placement.consistent_hash import ConsistentHash
from saltwise.placement.function_json import to_json
from saltwise.placement.hash_pair import HashPair
from saltwise.placement.key_groups import KeyGroups
from saltwise.placement.largest_first import largest_first
from saltwise.placement.partition_function import PartitionFunction, UniformHash
from saltwise.placement.store import PlacementStore
from saltwise.strategies import StrategyName
from saltwise.streams import zipf_shares

if TYPE_CHECKING:
    from tests.agree import Agree, WithConf
    from tests.conftest import SaltwiseLines

pytestmark = pytest.mark.usefixtures("any_input_is_large")

GROUPS, N = 300, 16


def full(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.full)


# Answers


@pytest.mark.parametrize(
    "keys",
    [pytest.param(["k"], marks=pytest.mark.smoke), ["f", "s", "t"], *map(full, (["f"], ["s"], ["t"], ["k", "s"]))],
    ids=str,
)
def test_groups_of_pandas_are_those_of_spark(rows: DataFrame, keys: list[str]) -> None:
    stock = rows.groupBy(*keys).applyInPandas(summed, SUMMED)
    ours = skew_groupby(rows, *keys, partitions=8).applyInPandas(summed, SUMMED)
    assert exchanges(ours) == ["placement"]
    assert answers(ours) == answers(stock)


@pytest.mark.parametrize("keys", [full(["k"]), ["f", "s"]], ids=str)
def test_groups_of_arrow_are_those_of_spark(rows: DataFrame, keys: list[str]) -> None:
    if not hasattr(rows.groupBy("k"), "applyInArrow"):
        pytest.skip("applyInArrow came with Spark 4.0")
    stock = rows.groupBy(*keys).applyInArrow(summed_by_arrow, SUMMED)
    ours = skew_groupby(rows, *keys).applyInArrow(summed_by_arrow, SUMMED)
    assert exchanges(ours) == ["placement"]
    assert answers(ours) == answers(stock)


@pytest.mark.parametrize(
    ("keys", "strategy"),
    [
        (["k"], "consistent"),
        (["f", "s", "t"], "offgreedy"),
        full(["k"], "offgreedy"),
        full(["f"], "consistent"),
        full(["s", "t"], "consistent"),
    ],
    ids=str,
)
def test_aggregates_of_whole_groups_are_those_of_spark(
    rows: DataFrame, keys: list[str], strategy: StrategyName
) -> None:
    aggregates = [F.sort_array(F.collect_list("v")), F.expr("percentile(v, 0.5)"), F.count("*"), F.max("v")]
    ours = skew_groupby(rows, *keys, strategy=strategy).agg(*aggregates)
    assert exchanges(ours) == ["placement"]
    # Both zeros are one key, which may be shown as either.
    assert sorted(a.replace("-0.0", "0.0") for a in answers(ours)) == sorted(
        a.replace("-0.0", "0.0") for a in answers(rows.groupBy(*keys).agg(*aggregates))
    )


def test_constants_among_the_keys_place_nothing_and_the_other_keys_do(agree: Agree) -> None:
    rows = "(SELECT id % 7 AS k, id AS v FROM range(0, 5000, 1, 4))"
    agree(f"SELECT 'all' AS c, k, sum(v) FROM {rows} GROUP BY 'all', k", strategies=["consistent"])
    counted = f"SELECT 'all' AS c, k, count(*) AS n FROM {rows} GROUP BY 'all', k"
    agree(f"SELECT c, count(*), max(n) FROM ({counted}) GROUP BY c", strategies=["consistent"])
    one_group = f"SELECT 'all' AS c, sort_array(collect_list(v)) FROM {rows} GROUP BY 'all'"
    agree.left_alone(one_group, "its keys are constants, so there is one group", strategy="consistent")


def test_python_aggregates_are_placed_without_a_strategy(rows: DataFrame) -> None:
    ours = skew_groupby(rows, "k").agg(mean("v"))
    assert exchanges(ours) == ["placement"]
    assert answers(ours) == answers(rows.groupBy("k").agg(mean("v")))


def test_without_adaptive_execution_answers_are_the_same(rows: DataFrame, with_conf: WithConf) -> None:
    with with_conf({"spark.sql.adaptive.enabled": False, "spark.sql.codegen.wholeStage": False}):
        ours = skew_groupby(rows, "s", partitions=3).applyInPandas(summed, SUMMED)
        assert answers(ours) == answers(rows.groupBy("s").applyInPandas(summed, SUMMED))


# The partition function

HOT = key_hashes([7, 8, 9, 10]).tolist()
FUNCTIONS: dict[str, PartitionFunction] = {
    "pair": HashPair(6, explicit={h: i for i, h in enumerate(HOT)}),
    "uniform": UniformHash(7),
    "consistent": ConsistentHash(5, replicas=100),
    "table over uniform": HashPair(6, explicit=dict.fromkeys(HOT, 5), replicas=0),
    "groups": KeyGroups(4, table=[3, 1, 0, 2, 2, 1, 0]),
    # So many workers that each has 50 replicas, and not the 1,000 that it says.
    "very many workers": ConsistentHash(20_000),
}


@pytest.mark.parametrize("kind", ["pair", *map(full, ("uniform", "consistent", "table over uniform", "groups"))])
def test_each_key_is_where_the_function_says(rows: DataFrame, kind: str) -> None:
    function = FUNCTIONS[kind]
    placed = skew_groupby(rows, "k", placement=function).applyInPandas(located, LOCATED).collect()
    assert [row["partition"] for row in placed] == function.place_keys([row["k"] for row in placed]).tolist()


@pytest.mark.classic("call the plugin's classes")
@pytest.mark.parametrize("kind", FUNCTIONS)
def test_the_plugin_reads_a_function_and_places_as_python_does(spark: SparkSession, kind: str) -> None:
    plugin: Any = spark._jvm.org.apache.spark.sql.saltwise  # type: ignore[union-attr]
    read = plugin.placement.PartitionFunctionJson.read(to_json(FUNCTIONS[kind])).function()
    keys = key_hashes(range(40))
    assert [read.place(key) for key in keys.tolist()] == FUNCTIONS[kind].place(keys).tolist()


def test_largest_first_is_that_of_python(rows: DataFrame) -> None:
    placed = skew_groupby(rows, "k", partitions=5).applyInPandas(located, LOCATED).collect()
    counts = {row["k"]: row["rows"] for row in placed}
    keys = key_hashes(list(counts))
    shares = np.array(list(counts.values())) / sum(counts.values())
    function = largest_first(keys, shares, workers=5, replicas=0)
    assert {row["k"]: row["partition"] for row in placed} == dict(
        zip(counts, function.place(keys).tolist(), strict=True)
    )


@pytest.mark.classic("read the status store")
@pytest.mark.parametrize("z", [full(0.6), 0.9])
def test_no_task_gets_more_than_the_heaviest_key_forces_on_it(spark: SparkSession, z: float) -> None:
    keys = np.random.default_rng(1).choice(GROUPS, 50_000, p=zipf_shares(GROUPS, z)).tolist()
    df = spark.createDataFrame(pd.DataFrame({"k": keys}))
    loads = worker_loads(spark, skew_groupby(df, "k", partitions=N).applyInPandas(located, LOCATED).collect)
    heaviest = max(Counter(keys).values()) / len(keys)
    assert sum(loads.rows) == len(keys)
    assert loads.max_to_mean <= 1.03 * max(1, heaviest * N)


@pytest.mark.parametrize(("strategy", "most"), [full("scan", 2), full("redist", 2), ("readj", 3), ("level", 2)])
def test_strategies_that_construct_a_function_balance_too(rows: DataFrame, strategy: StrategyName, most: int) -> None:
    """Algorithm 4, readj, takes no step that leaves the balance penalty as it is, so it stops where workers tie."""
    ten_keys = rows.selectExpr("v % 10 AS k", "v")
    ours = skew_groupby(ten_keys, "k", strategy=strategy, partitions=5).applyInPandas(located, LOCATED)
    assert exchanges(ours) == ["placement"]
    keys = Counter(row["partition"] for row in ours.collect())
    assert keys.keys() == set(range(5))
    assert max(keys.values()) == most


def test_a_store_keeps_keys_where_they_were(rows: DataFrame, tmp_path: Any) -> None:
    store = PlacementStore(tmp_path / "store")

    def places(df: DataFrame) -> dict[int, int]:
        placed = skew_groupby(df, "k", placement=store, partitions=4).applyInPandas(located, LOCATED).collect()
        return {row["k"]: row["partition"] for row in placed}

    first = places(rows)
    assert store.function is not None
    assert places(rows.where("k != 7 or v % 10 < 9")) == first


def test_a_key_that_a_function_never_saw_falls_to_its_hash(rows: DataFrame) -> None:
    function = HashPair(4, explicit={1: 0})
    placed = skew_groupby(rows, "k", placement=function).applyInPandas(located, LOCATED).collect()
    keys = [row["k"] for row in placed]
    assert [row["partition"] for row in placed] == ConsistentHash(4).place_keys(keys).tolist()


# What a key costs


@pytest.mark.parametrize("cost", ["bytes", "rows^2", "w"])
def test_keys_are_placed_by_what_they_cost(spark: SparkSession, cost: str) -> None:
    # By rows the keys 0 ... 5 are equal; by bytes and by weight, key 0 costs as much as all others.
    df = spark.range(0, 600, 1, 2).selectExpr(
        "id % 6 AS k", "repeat('x', IF(id % 6 = 0, 5000, 1000)) AS text", "IF(id % 6 = 0, 5, 1) + 0.0D AS w"
    )
    if cost == "rows^2":  # 30² = 900 is more than 5 · 12²
        df = df.where("k = 0 AND id < 180 OR k > 0 AND id < 72")
    placed = skew_groupby(df, "k", partitions=2, cost=cost).applyInPandas(located, LOCATED).collect()
    alone = next(row["partition"] for row in placed if row["k"] == 0)
    assert [row["k"] for row in placed if row["partition"] == alone] == [0]


@pytest.mark.parametrize("not_a_cost", ["NULL", "-5", pytest.param("double('NaN')", marks=pytest.mark.full)])
def test_a_row_whose_cost_is_no_cost_adds_nothing_and_ends_no_query(spark: SparkSession, not_a_cost: str) -> None:
    df = spark.range(0, 600, 1, 2).selectExpr("id % 6 AS k", f"IF(id = 7, {not_a_cost}, 1) AS w")
    placed = skew_groupby(df, "k", partitions=2, cost="w").applyInPandas(located, LOCATED).collect()
    assert sorted(row["rows"] for row in placed) == [100] * 6


def test_an_aggregate_that_ran_where_it_was_placed_is_not_told_to_be_left_alone(
    rows: DataFrame, saltwise_lines: SaltwiseLines
) -> None:
    df = skew_groupby(rows, "k", strategy="offgreedy", partitions=4).agg(F.collect_list("v"))
    df.collect()
    assert exchanges(df)[0] == "placement"
    assert not [line for line in saltwise_lines(df) if "left alone" in line]
