"""The split plan: what it decides when the rows have been shuffled, and that it reads each of them once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from saltwise import skew_groupby
from saltwise.strategies import StrategyName

if TYPE_CHECKING:
    from tests.agree import Agree, WithConf

Decided = Callable[[DataFrame], tuple[list[str], str]]

ROWS, HOT = 60_000, 7
READS = {"WholePartitions", "SlicedPartitions"}


def rows(spark: SparkSession, mappers: int = 6, share: float = 0.5) -> DataFrame:
    """Rows of which one key owns a share, from so many map tasks."""
    hot = F.col("id") % 1000 < int(share * 1000)
    return spark.range(0, ROWS, 1, mappers).select(
        F.when(hot, HOT).otherwise(F.col("id") % 499).alias("k"), (F.col("id") * 7919 % 10_007).alias("v")
    )


def grouped(df: DataFrame, **options: Any) -> DataFrame:
    return skew_groupby(df, "k", strategy="split", **options).agg(
        F.count("*").alias("n"), F.sum("v").alias("s"), F.sort_array(F.collect_set("v")).alias("c")
    )


def from_one_task(spark: SparkSession) -> DataFrame:
    """Rows that one of two map tasks has nearly all of. Over a single one, Spark needs no shuffle."""
    first, hot = F.col("id") < ROWS, F.col("id") % 2 < 1
    return (
        spark.range(0, 2 * ROWS, 1, 2)
        .where(first | (F.col("id") % 10_000 == 1))
        .select(F.when(hot, HOT).otherwise(F.col("id") % 499).alias("k"), (F.col("id") * 7919 % 10_007).alias("v"))
    )


def plain(df: DataFrame) -> DataFrame:
    return df.groupBy("k").agg(
        F.count("*").alias("n"), F.sum("v").alias("s"), F.sort_array(F.collect_set("v")).alias("c")
    )


@pytest.fixture
def decided(plan_that_ran: Callable[[], str]) -> Decided:
    """Returns the rows of a DataFrame, sorted, and the final plan."""
    return lambda df: (sorted(map(str, df.collect())), plan_that_ran())


@pytest.fixture(scope="module")
def views(spark: SparkSession) -> Iterator[None]:
    rows(spark).createOrReplaceTempView("skewed")
    spark.range(499).select(F.col("id").alias("k"), (F.col("id") % 3).alias("x")).createOrReplaceTempView("names")
    yield
    spark.catalog.dropTempView("skewed")
    spark.catalog.dropTempView("names")


@pytest.mark.smoke
def test_an_oversize_partition_is_read_in_slices_and_the_others_whole(spark: SparkSession, decided: Decided) -> None:
    found, plan = decided(grouped(rows(spark), partitions=8))
    assert found == sorted(map(str, plain(rows(spark)).collect()))
    assert re.search(r"WholePartitions 7 in [45] tasks, the largest with 1\d\.\d% of all", plan), plan
    assert re.search(r"SlicedPartitions 1 in [456] slices", plan), plan
    assert len(shuffles := re.findall(r"hashpartitioning\(.*, 8\), REPARTITION_BY_NUM, \[plan_id=\d+\]", plan)) == 2
    assert len(set(shuffles)) == 1


def test_spark_coalesces_no_partitions_that_were_sliced(
    spark: SparkSession, with_conf: WithConf, decided: Decided
) -> None:
    # Without partitions= the exchange is one of those that Spark may coalesce.
    conf = {
        "spark.sql.shuffle.partitions": 8,
        "spark.sql.adaptive.coalescePartitions.minPartitionSize": "1b",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "10k",
    }
    with with_conf(conf):
        found, plan = decided(grouped(rows(spark)))
    assert found == sorted(map(str, plain(rows(spark)).collect()))
    assert re.search(r"SlicedPartitions 1 in [456] slices", plan), plan


@pytest.mark.smoke
def test_nothing_is_split_and_nothing_merged_where_no_partition_is_oversize(
    spark: SparkSession, decided: Decided
) -> None:
    found, plan = decided(grouped(rows(spark, share=0.01), partitions=8))
    assert found == sorted(map(str, plain(rows(spark, share=0.01)).collect()))
    assert "WholePartitions" not in plan
    assert "Union" not in plan
    assert plan.count("ObjectHashAggregate") == 1


def test_small_partitions_that_share_a_task_are_read_once_each(spark: SparkSession, decided: Decided) -> None:
    df = rows(spark, share=0.95)
    found, plan = decided(grouped(df, partitions=64))
    assert found == sorted(map(str, plain(df).collect()))
    assert re.search(r"WholePartitions 63 in \d tasks", plan), plan


@pytest.mark.classic("serialize operators of a plan")
def test_what_a_task_is_sent_does_not_grow_with_the_number_of_tasks(spark: SparkSession) -> None:
    """Spark's operators send their plan to each task. Very many tasks would read very much."""
    few, many = (sent_reads(grouped(rows(spark), partitions=partitions)) for partitions in (8, 100))
    assert few.keys() == many.keys() == READS
    for name, size in few.items():
        assert many[name] <= size + 100


def sent_reads(df: DataFrame) -> dict[str, int]:
    """Return the bytes of the serialized reads of the final plan, by name."""
    df.collect()
    jvm = df.sparkSession._jvm
    assert jvm is not None
    serialize = jvm.org.apache.commons.lang3.SerializationUtils.serialize

    def of(plan: Any) -> dict[str, int]:
        found = {name: size for child in operators_below(plan) for name, size in of(child).items()}
        return found | ({plan.nodeName(): len(serialize(plan))} if plan.nodeName() in READS else {})

    return of(df._jdf.queryExecution().executedPlan())


def operators_below(plan: Any) -> list[Any]:
    """Return the operators below one, through adaptive execution's stages and exchanges that are used again."""
    name = plan.nodeName()
    if name == "AdaptiveSparkPlan":
        return [plan.executedPlan()]
    if name.endswith("QueryStage"):
        return [plan.plan()]
    if name == "ReusedExchange":
        return [plan.child()]
    return [plan.children().apply(i) for i in range(plan.children().size())]


def test_few_rows_make_one_task_as_they_do_in_spark(spark: SparkSession, decided: Decided) -> None:
    _, plan = decided(grouped(rows(spark)))
    assert "AQEShuffleRead coalesced" in plan
    assert "WholePartitions" not in plan


def test_no_rows_give_no_groups(spark: SparkSession, decided: Decided) -> None:
    for empty in (rows(spark).where("k < 0"), spark.createDataFrame([], "k long, v long")):
        found, _ = decided(grouped(empty, partitions=8))
        assert found == []


@pytest.mark.parametrize("strategy", [pytest.param("auto", marks=pytest.mark.smoke), "split"])
def test_what_depends_on_an_aggregate_without_rows_does_not_run_as_in_spark(
    spark: SparkSession, with_conf: WithConf, decided: Decided, strategy: StrategyName
) -> None:
    empty = rows(spark).where("v < 0").skew_groupby("k", strategy=strategy).agg(F.collect_list("v").alias("c"))
    names = spark.range(499).withColumnRenamed("id", "k")
    with with_conf({"spark.sql.autoBroadcastJoinThreshold": -1, "spark.saltwise.auto.smallInput": 0}):
        for columns in ["k", "c"], ["k"]:  # without the list, the aggregate is left alone
            found, plan = decided(names.join(empty.select(*columns), "k"))
            assert found == []
            assert "SortMergeJoin" not in plan, plan


@pytest.mark.parametrize("strategy", [pytest.param("auto", marks=pytest.mark.smoke), "split"])
def test_few_groups_are_sorted_without_an_exchange_where_there_is_a_limit(
    spark: SparkSession, with_conf: WithConf, decided: Decided, strategy: StrategyName
) -> None:
    df = rows(spark).where("k < 5").groupBy("k").agg(F.collect_set("v").alias("c"))
    ours = rows(spark).where("k < 5").skew_groupby("k", strategy=strategy).agg(F.collect_set("v").alias("c"))
    sizes = [query.select("k", F.size("c").alias("n")).orderBy("n", "k") for query in (df, ours)]
    with with_conf({"spark.saltwise.auto.smallInput": 0}):
        for limit in (1000, 3):
            found, plan = decided(sizes[1].limit(limit))
            assert found == sorted(map(str, sizes[0].limit(limit).collect()))
            assert "rangepartitioning" not in plan, plan
            assert [row.k for row in sizes[1].limit(limit).collect()] == [
                row.k for row in sizes[0].limit(limit).collect()
            ]


def test_rows_count_where_bytes_hide_a_hot_key(spark: SparkSession, decided: Decided) -> None:
    hot = F.col("id") % 10 < 4
    # Four rows in ten are one row, of few bytes when compressed; the others are long and random.
    df = spark.range(0, ROWS, 1, 6).select(
        F.when(hot, HOT).otherwise(F.col("id") % 499).alias("k"),
        F.when(hot, "").otherwise(F.sha2(F.col("id").cast("string"), 512)).alias("v"),
    )
    query = skew_groupby(df, "k", strategy="split", partitions=8).agg(F.sort_array(F.collect_list("v")).alias("c"))
    found, plan = decided(query)
    assert found == sorted(map(str, df.groupBy("k").agg(F.sort_array(F.collect_list("v")).alias("c")).collect()))
    assert "SlicedPartitions 1 in" in plan


def test_every_partition_may_be_oversize_where_bytes_and_rows_disagree(spark: SparkSession, decided: Decided) -> None:
    placed = spark.range(100).select("id", F.expr("pmod(hash(id), 2)").alias("w")).collect()
    many, long = (next(row.id for row in placed if row.w == worker) for worker in (0, 1))
    # One key has most of the rows, and the other most of the bytes.
    most, noise = F.col("id") % 5 < 4, [F.sha2((F.col("id") * i).cast("string"), 512) for i in (1, 2, 3)]
    df = spark.range(0, ROWS, 1, 6).select(
        F.when(most, many).otherwise(long).cast("long").alias("k"),
        F.when(most, "").otherwise(F.concat(*noise)).alias("v"),
    )
    query = skew_groupby(df, "k", strategy="split", partitions=2).agg(F.sort_array(F.collect_list("v")).alias("c"))
    found, plan = decided(query)
    assert found == sorted(map(str, df.groupBy("k").agg(F.sort_array(F.collect_list("v")).alias("c")).collect()))
    assert "SlicedPartitions 2 in" in plan, plan
    assert "WholePartitions" not in plan


@pytest.mark.smoke
def test_one_map_task_is_cut_by_the_content_of_its_rows(spark: SparkSession, decided: Decided) -> None:
    df = from_one_task(spark)
    found, plan = decided(grouped(df, partitions=8))
    assert found == sorted(map(str, plain(df).collect()))
    assert re.search(r"SlicedPartitions 1 in [45] slices", plan), plan


def test_rows_that_a_second_run_may_compute_otherwise_are_not_cut_by_content(
    spark: SparkSession, decided: Decided
) -> None:
    df = from_one_task(spark).select("k", F.rand(1).alias("v"))
    query = skew_groupby(df.withColumn("k", F.col("k") + F.floor(F.rand(2))), "k", strategy="split", partitions=8)
    _, plan = decided(query.agg(F.sort_array(F.collect_set("v"))))
    assert "SlicedPartitions" not in plan


@pytest.mark.smoke
def test_each_row_is_read_once_where_spark_reuses_no_exchange(spark: SparkSession, with_conf: WithConf) -> None:
    with with_conf({"spark.sql.exchange.reuse": False}):
        # Two runs of rand() without a seed of its own would differ.
        df = rows(spark).select((F.col("k") + F.floor(F.rand() * 2)).alias("k"), "v")
        query = skew_groupby(df, "k", strategy="split", partitions=8).agg(F.count("*").alias("n"))
        assert sum(row.n for row in query.collect()) == ROWS


def test_without_adaptive_execution_split_is_dchoices(
    spark: SparkSession, with_conf: WithConf, decided: Decided
) -> None:
    with with_conf({"spark.sql.adaptive.enabled": False}):
        found, plan = decided(grouped(rows(spark), partitions=8))
        assert found == sorted(map(str, plain(rows(spark)).collect()))
        assert "SkewRoute [k" in plan
        assert "], dchoices, n=8" in plan


def below(name: str) -> Callable[[SparkSession], DataFrame]:
    return {
        "repartitioned": lambda spark: rows(spark).repartition(5),
        "repartitioned by another column": lambda spark: rows(spark).repartition(5, "v"),
        "cached": lambda spark: rows(spark).cache(),
        "joined": lambda spark: (
            rows(spark).join(spark.table("names"), "k").select("k", (F.col("v") + F.col("x")).alias("v"))
        ),
        "unioned": lambda spark: rows(spark).union(rows(spark, mappers=2)),
        "grouped": lambda spark: rows(spark).groupBy("k", "v").count().select("k", F.col("count").alias("v")),
        "split below": lambda spark: (
            skew_groupby(rows(spark), "k", "v", strategy="split", partitions=5)
            .agg(F.count("*").alias("v2"))
            .select("k", F.col("v2").alias("v"))
        ),
        "sorted": lambda spark: rows(spark).sort("v"),
    }[name]


@pytest.mark.parametrize(
    "name",
    [
        "repartitioned",
        "repartitioned by another column",
        "cached",
        "joined",
        "unioned",
        "grouped",
        "split below",
        "sorted",
    ],
)
def test_split_works_over_any_child(spark: SparkSession, views: None, name: str, decided: Decided) -> None:
    df = below(name)(spark)
    found, plan = decided(grouped(df, partitions=8))
    assert found == sorted(map(str, plain(df).collect()))
    assert "SlicedPartitions 1 in" in plan
    df.unpersist()


def test_split_works_over_buckets(spark: SparkSession, decided: Decided) -> None:
    rows(spark).write.bucketBy(4, "v").mode("overwrite").saveAsTable("bucketed")
    try:
        found, plan = decided(grouped(spark.table("bucketed"), partitions=8))
        assert found == sorted(map(str, plain(spark.table("bucketed")).collect()))
        assert "SlicedPartitions 1 in" in plan
    finally:
        spark.sql("DROP TABLE bucketed")


def test_several_aggregates_of_one_query_are_split(agree: Agree, views: None) -> None:
    query = """
        SELECT a.k, a.n, b.c, (SELECT max(n) FROM (SELECT k, count(*) AS n FROM skewed GROUP BY k)) AS most
        FROM (SELECT k, count(*) AS n FROM skewed GROUP BY k) a
        JOIN (SELECT k, sort_array(collect_set(v)) AS c FROM skewed WHERE v > 100 GROUP BY k) b ON a.k = b.k
    """
    agree(query, strategies=["split"], options={"partitions": 8})


def test_aggregates_of_aggregates_of_aggregates_are_split(agree: Agree, views: None) -> None:
    query = """
        SELECT m, count(*), sum(s) FROM (
          SELECT n % 7 AS m, x, sum(s) AS s FROM (
            SELECT k, v % 3 AS x, count(*) AS n, sum(v) AS s FROM skewed GROUP BY k, v % 3) GROUP BY n % 7, x) GROUP BY m
    """
    agree(query, strategies=["split"], options={"partitions": 4})


def test_a_split_answer_can_be_cached_written_and_asked_again(spark: SparkSession, tmp_path: Any) -> None:
    query = grouped(rows(spark), partitions=8)
    query.write.parquet(str(tmp_path / "answer"))
    cached = query.cache()
    expected = sorted(map(str, plain(rows(spark)).collect()))
    try:
        assert sorted(map(str, cached.collect())) == expected
        assert sorted(map(str, spark.read.parquet(str(tmp_path / "answer")).collect())) == expected
        assert cached.where("n > 1000").count() == 1
    finally:
        cached.unpersist()
