"""Placement: groups that may not be split stay whole, each key is where its partition function says, and answers are stock's."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import DoubleType

from saltwise import skew_groupby
from saltwise.errors import SaltwiseValueError
from saltwise.keys import key_hashes
from saltwise.loads import worker_loads
from saltwise.placement.consistent_hash import ConsistentHash
from saltwise.placement.function_json import FORMAT, VERSION, to_json
from saltwise.placement.hash_pair import HashPair
from saltwise.placement.key_groups import KeyGroups
from saltwise.placement.largest_first import largest_first
from saltwise.placement.partition_function import PartitionFunction, UniformHash
from saltwise.placement.store import PlacementStore
from saltwise.strategies import StrategyName
from saltwise.streams import zipf_shares
from saltwise.versioned_json import dump_versioned

if TYPE_CHECKING:
    from tests.agree import Agree, WithConf
    from tests.conftest import SaltwiseLines

# Python workers cannot import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

TOGGLE = {"spark.saltwise.placement.enabled": True}
OBSERVE = {"spark.saltwise.mode": "observe"}

GROUPS, N = 300, 16


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Rows of all kinds of keys: k is skewed, f has NaN and both zeros, s has NULL."""
    path = str(tmp_path_factory.mktemp("rows") / "rows")
    spark.range(0, 6_000, 1, 3).selectExpr(
        "IF(id % 3 = 0, 7, id * 7919 % 211) AS k",
        "CASE id % 5 WHEN 0 THEN double('NaN') WHEN 1 THEN -0.0D WHEN 2 THEN 0.0D ELSE id % 7 END AS f",
        "IF(id % 4 = 0, NULL, concat('s', id % 13)) AS s",
        "named_struct('a', id % 3, 'b', IF(id % 2 = 0, NULL, id % 5)) AS t",
        "id % 101 AS v",
    ).write.parquet(path)
    return spark.read.parquet(path)


def summed(group: pd.DataFrame) -> pd.DataFrame:
    """One row for a group: how many rows it has, and what they add up to."""
    return pd.DataFrame({"rows": [len(group)], "total": [group["v"].sum()]})


def summed_by_arrow(group: pa.Table) -> pa.Table:
    return pa.table({"rows": [group.num_rows], "total": [sum(group["v"].to_pylist())]})


SUMMED = "rows bigint, total bigint"


def mean(column: str) -> Column:
    # Made when there is a session, which says of which kind it has to be.
    def of_group(values: pd.Series) -> float:
        return float(values.mean())

    return pandas_udf(of_group, DoubleType())(column)  # type: ignore[call-overload, no-any-return]


def located(group: pd.DataFrame) -> pd.DataFrame:
    """One row for a group: its key, its rows, and the partition that it is in."""
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None
    return pd.DataFrame({"k": [group["k"].iloc[0]], "rows": [len(group)], "partition": [task.partitionId()]})


LOCATED = "k bigint, rows bigint, partition int"


def answers(df: DataFrame) -> list[str]:
    return sorted(map(str, df.collect()))


def plan(df: DataFrame) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        df.explain()
    return out.getvalue()


def exchanges(df: DataFrame) -> list[str]:
    """The exchanges of rows, from the top; those of the pass over the keys belong to a subquery and are left out."""
    outer = [line for line in plan(df).splitlines() if not re.match(r".*:  ", line)]
    return [found[1] for line in outer if (found := re.search(r"Exchange (\w+)", line))]


@pytest.fixture(autouse=True)
def any_input_is_large(with_conf: WithConf) -> Iterator[None]:
    with with_conf({"spark.saltwise.auto.smallInput": 0}):
        yield


# Answers


@pytest.mark.smoke
@pytest.mark.parametrize("keys", [["k"], ["f"], ["s"], ["t"], ["k", "s"]], ids=str)
def test_groups_of_pandas_are_those_of_spark(rows: DataFrame, keys: list[str]) -> None:
    stock = rows.groupBy(*keys).applyInPandas(summed, SUMMED)
    ours = skew_groupby(rows, *keys, partitions=8).applyInPandas(summed, SUMMED)
    assert exchanges(ours) == ["placement"]
    assert answers(ours) == answers(stock)


@pytest.mark.parametrize("keys", [["k"], ["f", "s"]], ids=str)
def test_groups_of_arrow_are_those_of_spark(rows: DataFrame, keys: list[str]) -> None:
    if not hasattr(rows.groupBy("k"), "applyInArrow"):
        pytest.skip("applyInArrow came with Spark 4.0")
    stock = rows.groupBy(*keys).applyInArrow(summed_by_arrow, SUMMED)
    ours = skew_groupby(rows, *keys).applyInArrow(summed_by_arrow, SUMMED)
    assert exchanges(ours) == ["placement"]
    assert answers(ours) == answers(stock)


@pytest.mark.parametrize("strategy", ["consistent", "offgreedy"])
@pytest.mark.parametrize("keys", [["k"], ["f"], ["s", "t"]], ids=str)
def test_aggregates_of_whole_groups_are_those_of_spark(
    rows: DataFrame, keys: list[str], strategy: StrategyName
) -> None:
    aggregates = [F.sort_array(F.collect_list("v")), F.expr("percentile(v, 0.5)"), F.count("*"), F.max("v")]
    ours = skew_groupby(rows, *keys, strategy=strategy).agg(*aggregates)
    assert exchanges(ours) == ["placement"]
    # Both zeros are one key, which may be shown as either.
    assert [a.replace("-0.0", "0.0") for a in answers(ours)] == [
        a.replace("-0.0", "0.0") for a in answers(rows.groupBy(*keys).agg(*aggregates))
    ]


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


@pytest.mark.parametrize("adaptive", [True, False])
def test_without_adaptive_execution_answers_are_the_same(rows: DataFrame, with_conf: WithConf, adaptive: bool) -> None:
    with with_conf({"spark.sql.adaptive.enabled": adaptive, "spark.sql.codegen.wholeStage": adaptive}):
        ours = skew_groupby(rows, "s", partitions=3).applyInPandas(summed, SUMMED)
        assert answers(ours) == answers(rows.groupBy("s").applyInPandas(summed, SUMMED))


# The partition function


@pytest.mark.parametrize("kind", ["uniform", "consistent", "pair", "table over uniform", "groups"])
def test_each_key_is_where_the_function_says_in_python(rows: DataFrame, kind: str) -> None:
    hot = key_hashes([7, 8, 9, 10]).tolist()
    function: PartitionFunction = {
        "uniform": UniformHash(7),
        "consistent": ConsistentHash(5, replicas=100),
        "pair": HashPair(6, explicit={h: i for i, h in enumerate(hot)}),
        "table over uniform": HashPair(6, explicit=dict.fromkeys(hot, 5), replicas=0),
        "groups": KeyGroups(4, table=[3, 1, 0, 2, 2, 1, 0]),
    }[kind]
    found = skew_groupby(rows, "k", placement=function).applyInPandas(located, LOCATED).collect()
    assert [row["partition"] for row in found] == function.place_keys([row["k"] for row in found]).tolist()


@pytest.mark.classic("call the plugin's classes")
def test_a_ring_of_very_many_workers_is_that_of_python(spark: SparkSession) -> None:
    function = ConsistentHash(20_000)  # so each has 50 replicas, and not the 1,000 that it says
    plugin: Any = spark._jvm.org.apache.spark.sql.saltwise  # type: ignore[union-attr]
    read = plugin.placement.PartitionFunctionJson.read(to_json(function)).function()
    keys = key_hashes(range(20))
    assert [read.place(key) for key in keys.tolist()] == function.place(keys).tolist()


def test_largest_first_is_that_of_python(rows: DataFrame) -> None:
    found = skew_groupby(rows, "k", partitions=5).applyInPandas(located, LOCATED).collect()
    counts = {row["k"]: row["rows"] for row in found}
    keys = key_hashes(list(counts))
    shares = np.array(list(counts.values())) / sum(counts.values())
    function = largest_first(keys, shares, workers=5, replicas=0)
    assert {row["k"]: row["partition"] for row in found} == dict(
        zip(counts, function.place(keys).tolist(), strict=True)
    )


@pytest.mark.classic("read the status store")
@pytest.mark.parametrize("z", [0.6, 0.9])
def test_no_task_gets_more_than_the_heaviest_key_forces_on_it(spark: SparkSession, z: float) -> None:
    keys = np.random.default_rng(1).choice(GROUPS, 200_000, p=zipf_shares(GROUPS, z)).tolist()
    df = spark.createDataFrame(pd.DataFrame({"k": keys}))
    found = worker_loads(spark, skew_groupby(df, "k", partitions=N).applyInPandas(located, LOCATED).collect)
    heaviest = max(Counter(keys).values()) / len(keys)
    assert sum(found.rows) == len(keys)
    assert found.max_to_mean <= 1.03 * max(1, heaviest * N)


@pytest.mark.parametrize(("strategy", "most"), [("scan", 2), ("redist", 2), ("readj", 3), ("level", 2)])
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
        found = skew_groupby(df, "k", placement=store, partitions=4).applyInPandas(located, LOCATED).collect()
        return {row["k"]: row["partition"] for row in found}

    first = places(rows)
    assert store.function is not None
    assert places(rows.where("k != 7 or v % 10 < 9")) == first


def test_a_key_that_a_function_never_saw_falls_to_its_hash(rows: DataFrame) -> None:
    function = HashPair(4, explicit={1: 0})
    found = skew_groupby(rows, "k", placement=function).applyInPandas(located, LOCATED).collect()
    keys = [row["k"] for row in found]
    assert [row["partition"] for row in found] == ConsistentHash(4).place_keys(keys).tolist()


# What a key costs


@pytest.mark.parametrize("cost", ["bytes", "rows^2", "w"])
def test_keys_are_placed_by_what_they_cost(spark: SparkSession, cost: str) -> None:
    # By rows the keys 0 ... 5 are equal; by bytes and by weight, key 0 costs as much as all others.
    df = spark.range(0, 600, 1, 2).selectExpr(
        "id % 6 AS k", "repeat('x', IF(id % 6 = 0, 5000, 1000)) AS text", "IF(id % 6 = 0, 5, 1) + 0.0D AS w"
    )
    if cost == "rows^2":  # 30² = 900 is more than 5 · 12²
        df = df.where("k = 0 AND id < 180 OR k > 0 AND id < 72")
    found = skew_groupby(df, "k", partitions=2, cost=cost).applyInPandas(located, LOCATED).collect()
    alone = next(row["partition"] for row in found if row["k"] == 0)
    assert [row["k"] for row in found if row["partition"] == alone] == [0]


@pytest.mark.parametrize(
    ("weight", "shown"), [("-1", "-1"), ("double('NaN')", "NaN"), ("IF(v = 3, NULL, 1)", "null"), ("1e300D", "1.0E300")]
)
def test_a_weight_that_is_none_is_refused(rows: DataFrame, with_conf: WithConf, weight: str, shown: str) -> None:
    weighted = skew_groupby(rows.withColumn("w", F.expr(weight)), "k", cost="w").applyInPandas(summed, SUMMED)
    # The sentence is the cause of the error that Connect tells.
    with (
        with_conf({"spark.sql.connect.serverStacktrace.enabled": "true"}),
        pytest.raises(Exception, match=f"is {re.escape(shown)}; it must be a number from 0 to 2\\^53"),
    ):
        weighted.collect()


# The toggle


def everything(rows: DataFrame) -> Iterator[DataFrame]:
    """A query of each kind that the toggle means."""
    by = Window.partitionBy("k")
    yield rows.groupBy("k").applyInPandas(summed, SUMMED)
    yield rows.groupBy("s", "k").applyInPandas(summed, SUMMED)
    yield rows.groupBy("k").agg(mean("v"))
    yield rows.select("k", "v", F.sum("v").over(by), F.row_number().over(by.orderBy("v", "f", "s")))
    yield rows.where("v > 50").select("k", F.avg("v").over(by)).distinct()


def test_the_toggle_places_what_may_not_be_split(rows: DataFrame, with_conf: WithConf) -> None:
    stock = [(len(exchanges(df)), answers(df)) for df in everything(rows)]
    with with_conf(TOGGLE):
        for (before, wanted), df in zip(stock, everything(rows), strict=True):
            assert exchanges(df).count("placement") == 1
            assert len(exchanges(df)) == before
            assert answers(df) == wanted


def test_the_toggle_leaves_aggregates_alone_that_may_be_split(rows: DataFrame, with_conf: WithConf) -> None:
    with with_conf(TOGGLE):
        assert "placement" not in plan(rows.groupBy("k").agg(F.collect_list("v")))


@pytest.mark.parametrize(
    ("query", "conf", "reason"),
    [
        (
            lambda rows: rows.groupBy("k").applyInPandas(summed, SUMMED),
            {"spark.saltwise.auto.smallInput": "1g"},
            r"its input has about \d+ bytes, and spark.saltwise.auto.smallInput is 1073741824",
        ),
        (
            lambda rows: skew_groupby(rows, "k").agg(mean("v")),
            {"spark.saltwise.auto.smallInput": "1g"},
            r"its input has about \d+ bytes, and spark.saltwise.auto.smallInput is 1073741824",
        ),
        (
            lambda rows: rows.repartition(3, "k").groupBy("k").applyInPandas(summed, SUMMED),
            {},
            "its rows are already grouped by key, without another shuffle",
        ),
        (
            lambda rows: rows.groupBy("k").applyInPandas(summed, SUMMED),
            {"spark.saltwise.partitions": 1},
            "there is one partition, so there is nothing to balance",
        ),
    ],
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


def test_group_maps_that_ask_for_placement_have_it_however_small_they_are(rows: DataFrame, with_conf: WithConf) -> None:
    with with_conf({"spark.saltwise.auto.smallInput": "1g"}):
        assert exchanges(skew_groupby(rows, "k").applyInPandas(summed, SUMMED)) == ["placement"]


def test_a_window_that_keeps_few_rows_of_a_group_drops_the_others_first(rows: DataFrame, with_conf: WithConf) -> None:
    ranked = F.row_number().over(Window.partitionBy("k").orderBy("v", "f", "s"))
    with with_conf(TOGGLE):
        assert "placement" not in plan(rows.withColumn("rank", ranked).where("rank < 3"))


def test_off_means_off(rows: DataFrame) -> None:
    assert all("placement" not in plan(df) for df in everything(rows))


# What a session tells that only observes


def would_run(df: DataFrame) -> list[str]:
    """Return what would run, for each group operator of a plan from the top."""
    reports: Any = df.sparkSession._jvm.org.apache.spark.sql.saltwise.report  # type: ignore[union-attr]
    groups = reports.GroupsOfPlan.of(df._jdf.queryExecution().executedPlan())
    return [groups.apply(i).wouldRun() for i in range(groups.length())]


@pytest.mark.classic("read what is noted at a plan")
@pytest.mark.parametrize(
    ("conf", "wanted"),
    [({}, "placement, if spark.saltwise.placement.enabled is true"), (TOGGLE, "placement")],
    ids=["off", "on"],
)
def test_observe_tells_what_would_be_placed(
    rows: DataFrame, with_conf: WithConf, conf: dict[str, object], wanted: str
) -> None:
    stock = [exchanges(df) for df in everything(rows)]
    with with_conf({**OBSERVE, **conf}):
        for before, df in zip(stock, everything(rows), strict=True):
            assert wanted in would_run(df)
            assert exchanges(df) == before


@pytest.mark.classic("read what is noted at a plan")
@pytest.mark.parametrize(
    ("query", "conf", "reason"),
    [
        (
            lambda rows: rows.groupBy("k").applyInPandas(summed, SUMMED),
            {"spark.saltwise.auto.smallInput": "1g"},
            r"its input has about \d+ bytes, and spark.saltwise.auto.smallInput is 1073741824",
        ),
        (
            lambda rows: rows.repartition(3, "k").groupBy("k").applyInPandas(summed, SUMMED),
            {},
            "its rows are already grouped by key, without another shuffle",
        ),
        (
            lambda rows: rows.withColumn("r", F.rank().over(Window.partitionBy("k").orderBy("v"))).where("r < 3"),
            {},
            "it keeps the first rows of each group, and Spark drops the others before the shuffle",
        ),
        (
            lambda rows: skew_groupby(rows, "k").applyInPandas(summed, SUMMED),
            {"spark.saltwise.placement.cost": "z"},
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


def test_what_is_no_mere_scan_is_computed_once_unless_it_was_asked_for(
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


# What is refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"strategy": "pkg"},
            "strategy is 'pkg', and these groups may not be split; it must be one of auto, hash, consistent, offgreedy, "
            "scan, redist, readj, level.",
        ),
        (
            {"cost": "nope"},
            "placement.cost is 'nope'; it must be rows, bytes, rows^2, or a column of numbers that the query reads: "
            "k, k, v.",
        ),
        (
            {"placement": UniformHash(4, "string")},
            "placement.function is for keys of type string, and the keys here are of type bigint; give one that was "
            "constructed for these keys.",
        ),
        (
            {"placement": UniformHash(4), "partitions": 8},
            "partitions is 8, and placement.function has 4 workers; leave partitions out, or construct a function for 8 "
            "workers.",
        ),
    ],
)
def test_a_query_that_cannot_be_placed_is_refused(rows: DataFrame, options: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=re.escape(message)):
        skew_groupby(rows.select("k", "v"), "k", **options).applyInPandas(summed, SUMMED).collect()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"placement": "somewhere"}, "placement is 'somewhere'; it must be a partition function or a PlacementStore."),
        (
            {"placement": UniformHash(4), "strategy": "pkg"},
            "placement is given, and strategy is 'pkg'; it must be one of auto, scan, redist, readj, level.",
        ),
        (
            {"placement": UniformHash(4), "engine": "arrow"},
            "placement is given, and engine='arrow' has no use for it: leave placement out, or group by the plugin.",
        ),
        (
            {"cost": "bytes", "engine": "arrow"},
            "cost is given, and engine='arrow' has no use for it: leave cost out, or group by the plugin.",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused_at_once(rows: DataFrame, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SaltwiseValueError) as refused:
        skew_groupby(rows, "k", **options)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the text is not JSON"),
        ("{}", "the text is JSON, but not a partition function"),
        (
            to_json(UniformHash(4)).replace('"version": 1', '"version": 2'),
            "the partition function has version 2, but this Saltwise reads version 1",
        ),
        (
            to_json(UniformHash(4)).replace('"workers": 4', '"workers": 5'),
            "the partition function is damaged: its checksum does not match",
        ),
        (
            dump_versioned(FORMAT, VERSION, {"kind": "uniform", "workers": 10**9}),
            "the partition function is damaged: workers is 1000000000; it must be a whole number from 1 to 100000",
        ),
    ],
)
def test_a_function_that_cannot_be_read_is_refused(rows: DataFrame, text: str, message: str) -> None:
    hinted = rows.hint("skew_groupby", f"placement.function={text}").groupBy("k").applyInPandas(summed, SUMMED)
    with pytest.raises(
        Exception, match=re.escape(f"{message}; give a text that to_json of saltwise.placement.function_json wrote.")
    ):
        hinted.collect()


def test_sql_takes_a_function_and_constructs_none(spark: SparkSession, rows: DataFrame, with_conf: WithConf) -> None:
    rows.createOrReplaceTempView("placed_rows")
    query = "SELECT /*+ SKEW_GROUPBY(readj) */ k, collect_list(v) FROM placed_rows GROUP BY k"
    with pytest.raises(
        Exception, match="strategy is 'readj', and there is no partition function for keys of type bigint"
    ):
        spark.sql(query).collect()
    with with_conf({"spark.saltwise.placement.function": to_json(ConsistentHash(3))}):
        assert exchanges(spark.sql(query)) == ["placement"]
        # Keys of another type pass it over.
        by_text = rows.groupBy("s").applyInPandas(summed, SUMMED)
        hinted = rows.hint("skew_groupby").groupBy("s").applyInPandas(summed, SUMMED)
        assert exchanges(hinted) == ["placement"]
        assert answers(hinted) == answers(by_text)
