"""Combine: which rows a map task combines, and that the answers are stock Spark's whichever it does."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from saltwise import skew_groupby
from saltwise.spark.columns import quoted
from saltwise.spark.reports.explain import explain

if TYPE_CHECKING:
    from tests.agree import Agree, WithConf
    from tests.conftest import SaltwiseLines

ROWS, HOT = 60_000, 7


def rows(spark: SparkSession, mappers: int = 6) -> DataFrame:
    """Rows of which one key owns half, from so many map tasks."""
    return spark.range(0, ROWS, 1, mappers).select(
        F.when(F.col("id") % 2 == 0, HOT).otherwise(100 + F.col("id") * 7919 % 20_011).cast("long").alias("k"),
        (F.col("id") % 101).alias("v"),
        "id",
    )


def keyed(spark: SparkSession, key: str, count: int = 200_000) -> DataFrame:
    """Rows of two map tasks, since Spark needs no shuffle after one."""
    return spark.range(0, 2 * count, 1, 2).selectExpr(f"CAST({key} AS BIGINT) AS k", "id % 101 AS v", "id")


def both(df: DataFrame, *aggregates: Any, **options: Any) -> tuple[DataFrame, DataFrame]:
    return df.groupBy("k").agg(*aggregates), skew_groupby(df, "k", strategy="local", **options).agg(*aggregates)


def answers(df: DataFrame) -> list[str]:
    return sorted(map(str, df.collect()))


def hashed(df: DataFrame) -> Any:
    """What tells answers of very many groups apart, and need not leave the executors."""
    row = F.xxhash64(*map(quoted, df.columns))
    return df.select(F.count("*"), F.sum(row.cast("decimal(38, 0)"))).first()


def mixed() -> list[Column]:
    """Aggregates that Spark keeps in fields and in objects, and both in one query."""
    return [F.count("*"), F.sum("v"), F.sort_array(F.collect_set("v")), F.max("v"), F.expr("percentile(v, 0.5)")]


def small() -> list[Column]:
    """Aggregates whose states have a fixed size."""
    return [F.approx_count_distinct("v"), F.max("v"), F.max_by(F.col("v").cast("string"), "id")]


WAYS = {
    "rows": "rows",
    "combined": "rows combined",
    "all": "rows taken as all",
    "head": "rows taken as head",
    "raw": "rows taken as raw",
    "states": "states sent",
}


@pytest.fixture
def combined(metric_that_ran: Callable[[str], int]) -> Callable[[DataFrame], dict[str, int]]:
    """Runs a query, and returns what its Combine counted."""

    def ran(df: DataFrame) -> dict[str, int]:
        df.write.format("noop").mode("overwrite").save()
        return {way: metric_that_ran(name) for way, name in WAYS.items()}

    return ran


Combined = Callable[[DataFrame], dict[str, int]]

DISTINCT = "id * 7919"
FEW = "pmod(xxhash64(id), 1000)"

# What a task does


@pytest.mark.smoke
def test_each_of_few_keys_gets_one_state_a_task(
    spark: SparkSession, combined: Combined, saltwise_lines: SaltwiseLines
) -> None:
    stock, ours = both(rows(spark).withColumn("k", F.col("id") % 500), *small(), partitions=8)
    assert saltwise_lines(ours) == ["Combine [k], local, n=8"]
    found = combined(ours)
    assert (found["rows"], found["combined"], found["all"], found["states"]) == (ROWS, ROWS, ROWS, 6 * 500)
    assert answers(ours) == answers(stock)


def test_rows_of_distinct_keys_leave_raw_and_most_of_them_unseen(spark: SparkSession, combined: Combined) -> None:
    stock, ours = both(keyed(spark, DISTINCT, 600_000), F.collect_set("v"))
    found = combined(ours)
    assert found["states"] == 0
    assert found["raw"] > 0.5 * found["rows"]
    assert hashed(ours) == hashed(stock)


@pytest.mark.smoke
def test_among_rare_keys_only_hot_ones_get_states(spark: SparkSession, combined: Combined) -> None:
    stock, ours = both(keyed(spark, f"if(id % 2 = 0, {HOT}, {DISTINCT})", 800_000), F.collect_set("v"))
    found = combined(ours)
    assert found["head"] > 0.3 * found["rows"]
    assert found["combined"] == pytest.approx(found["rows"] / 2, rel=0.1)
    assert found["states"] < 0.1 * found["rows"]
    assert hashed(ours) == hashed(stock)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        pytest.param(FEW, DISTINCT, id="few first"),
        pytest.param(DISTINCT, FEW, id="distinct first", marks=pytest.mark.full),
    ],
)
def test_a_task_looks_again_when_its_keys_change(
    spark: SparkSession, combined: Combined, first: str, then: str
) -> None:
    count = 800_000
    changing = f"if(id % {count} < {count // 2}, {first}, {then})"
    stock, ours = both(keyed(spark, changing, count), F.approx_count_distinct("v"))
    found = {way: counted // 2 for way, counted in combined(ours).items()}
    # Of the rows of few keys, most are combined; of the others, few.
    assert 0.6 * count / 2 < found["combined"] < 1.2 * count / 2
    # A task has seen that the keys of a batch do not come back when the batch has ended.
    assert found["raw"] > 0.3 * count / 2
    assert hashed(ours) == hashed(stock)


def test_where_a_state_takes_as_many_bytes_as_its_rows_these_leave_raw(spark: SparkSession, combined: Combined) -> None:
    df = keyed(spark, "id % 20", 600_000).withColumn("x", F.col("id") / 7)
    stock, ours = both(df, F.median("x"), F.expr("percentile(x, 0.9)"))
    found = combined(ours)
    assert found["raw"] > 0.5 * found["rows"]
    assert answers(ours) == answers(stock)


@pytest.mark.parametrize(("key", "share"), [(f"if(id % 10 < 6, {HOT}, {DISTINCT})", 0.6), ("id % 10", 1.0), (FEW, 0.0)])
def test_lists_of_hot_keys_are_made_in_the_map_task_and_those_of_others_are_not(
    spark: SparkSession, combined: Combined, key: str, share: float
) -> None:
    wide = keyed(spark, key, 50_000).withColumn("text", F.expr("repeat(md5(CAST(id AS STRING)), 12)"))
    stock, ours = both(wide, F.sort_array(F.collect_list("text")))
    found = combined(ours)
    assert found["combined"] == pytest.approx(share * found["rows"], rel=0.05)
    assert answers(ours) == answers(stock)


def test_lists_that_outgrow_their_memory_leave_and_begin_again(
    spark: SparkSession, combined: Combined, with_conf: WithConf
) -> None:
    stock, ours = both(keyed(spark, f"if(id % 10 < 6, {HOT}, {DISTINCT})"), F.sort_array(F.collect_list("id")))
    with with_conf({"spark.saltwise.local.memory": "1m"}):
        found = combined(ours)
        assert 2 < found["states"] < 200
        assert answers(ours) == answers(stock)


def test_digests_of_few_keys_stop_to_grow_so_each_key_gets_one_state(spark: SparkSession, combined: Combined) -> None:
    digests = [F.expr(f"percentile_approx(id / {divisor}, 0.5, 20)") for divisor in (7, 11, 13)]
    stock, ours = both(keyed(spark, "id % 20"), *digests)
    assert combined(ours)["states"] == 2 * 20
    assert stock.count() == ours.count()


def test_a_state_that_is_large_when_it_is_empty_has_to_earn_its_place(spark: SparkSession, combined: Combined) -> None:
    sketch = F.expr("hex(count_min_sketch(v, 0.001D, 0.99D, 7))")
    stock, ours = both(keyed(spark, "id % 100", 20_000), sketch)
    assert combined(ours)["states"] == 0
    assert answers(ours) == answers(stock)
    stock, ours = both(keyed(spark, f"if(id % 3 > 0, {HOT}, id % 100)", 60_000), sketch)
    found = combined(ours)
    assert found["states"] == 2
    assert found["combined"] > 0.5 * found["rows"]
    assert answers(ours) == answers(stock)


def test_wide_rows_are_combined_as_narrow_ones_are(spark: SparkSession, combined: Combined) -> None:
    wide = F.expr("repeat(string(id % 10), 20000)")
    stock, ours = both(keyed(spark, "pmod(xxhash64(id), 50)", 1000).withColumn("s", wide), F.expr("max_by(s, id)"))
    found = combined(ours)
    assert (found["combined"], found["states"]) == (found["rows"], 2 * 50)
    assert answers(ours) == answers(stock)


def test_a_task_with_more_wide_rows_than_spark_has_pages_ends(agree: Agree) -> None:
    """Each has pages of its own, and a task of Spark has 8192 at most: so many have to be parts of one."""
    wide = "SELECT pmod(xxhash64(id), 500) AS k, repeat(string(id + 10000), 2048) AS w, id FROM range(0, 40000, 1, 2)"
    assert "Combine [k" in agree.auto(f"SELECT k, max_by(w, id) AS w FROM ({wide}) GROUP BY k")


def test_states_that_hold_one_wide_value_each_stay_until_the_end(spark: SparkSession, combined: Combined) -> None:
    """Together they are larger than what states may grow by, but more rows do not make them larger."""
    wide = F.expr("repeat(string(id % 10), 4000)")
    stock, ours = both(keyed(spark, "id % 500", 10_000).withColumn("s", wide), F.expr("max_by(s, id)"), F.max("s"))
    found = combined(ours)
    assert (found["combined"], found["states"]) == (found["rows"], 2 * 500)
    assert answers(ours) == answers(stock)


def test_a_wide_value_that_a_state_keeps_is_no_growth(spark: SparkSession, combined: Combined) -> None:
    """The rows are narrow, and the aggregate makes its value wide: a state pays, though it is larger than many rows."""
    call = F.expr("max_by(repeat(string(id % 10), 4000), id)")
    stock, ours = both(keyed(spark, "id % 50", 40_000), call)
    found = combined(ours)
    assert (found["combined"], found["states"]) == (found["rows"], 2 * 50)
    assert answers(ours) == answers(stock)


def test_rows_of_any_width_wait_where_others_waited_before(spark: SparkSession, combined: Combined) -> None:
    """Keys change with each batch, and so does which rows are wide."""
    key = "id div 5000 * 100 + pmod(xxhash64(id), 100)"
    text = F.expr("repeat(string(id % 10), CASE pmod(hash(id), 12) WHEN 0 THEN 9000 WHEN 1 THEN 30000 ELSE 5 END)")
    stock, ours = both(keyed(spark, key, 15_000).withColumn("s", text), F.expr("max_by(s, id)"), F.count("s"))
    found = combined(ours)
    assert found["combined"] > 0.9 * found["rows"]
    assert answers(ours) == answers(stock)


@pytest.mark.parametrize(
    "key",
    [
        "CASE WHEN id % 10 < 4 THEN 7 WHEN id % 10 < 7 THEN id % 50 ELSE id * 7919 % 30011 END",
        "if(id % 40000 < 20000, id div 60, pmod(xxhash64(id), 300))",
        pytest.param(FEW, marks=pytest.mark.full),
        pytest.param("id % 10", marks=pytest.mark.full),
        pytest.param(f"if(id % 40000 < 20000, {FEW}, {DISTINCT})", marks=pytest.mark.full),
    ],
)
def test_a_list_has_the_rows_of_a_task_in_their_order(spark: SparkSession, with_conf: WithConf, key: str) -> None:
    wide = "if(pmod(hash(id), 50) = 0, repeat('wide', 1000), 'narrow')"
    df = keyed(spark, key, 60_000).withColumn("wide", F.expr(wide))
    # With more keys than that, Spark's reduce side sorts the rows of a partition, and not always stably.
    hashed_keys = {"spark.sql.objectHashAggregate.sortBased.fallbackThreshold": 1 << 20}
    for memory in ("64m", "100k"):
        with with_conf(hashed_keys | {"spark.saltwise.local.memory": memory}):
            _, ours = both(df, F.collect_list("id").alias("ids"), F.max("wide"))
            lists = [row.ids for row in ours.collect()]
    # The second of the two tasks may be read first.
    breaks = [sum(later < sooner for sooner, later in pairwise(ids)) for ids in lists]
    assert max(breaks) <= 1
    assert sum(map(len, lists)) == 120_000


@pytest.mark.parametrize("key", ["id div 20", "id div 1000 * 100 + id % 50", "id * 7919 % 1000 + id div 1000 * 1000"])
def test_of_equal_texts_the_first_one_that_a_task_saw_stands_for_the_group(
    spark: SparkSession, version: tuple[int, ...], key: str
) -> None:
    if version < (4, 0):
        pytest.skip("collations came with Spark 4.0")
    text = f"concat(if(pmod(xxhash64(id), 2) = 0, 'k', 'K'), {key}) COLLATE UTF8_LCASE"
    df = spark.range(0, 2000, 1, 2).select(F.expr(text).alias("k"))
    stock, ours = both(df, F.count("*"), F.collect_list("k"))
    assert answers(ours) == answers(stock)


def test_rows_that_are_too_wide_to_wait_leave_raw_and_the_others_are_combined(
    spark: SparkSession, with_conf: WithConf, combined: Combined
) -> None:
    wide = F.expr("if(id % 10 = 0, repeat('wide', 15000), 'narrow')")
    stock, ours = both(keyed(spark, "pmod(xxhash64(id), 2000)", 8_000).withColumn("s", wide), F.expr("max_by(s, id)"))
    expected = answers(stock)
    with with_conf({"spark.saltwise.local.memory": "4m"}):
        found = combined(ours)
        assert 0.6 * found["rows"] < found["combined"] <= 0.95 * found["rows"]
        assert answers(ours) == expected


def test_states_leave_when_they_take_too_much_memory(
    spark: SparkSession, with_conf: WithConf, combined: Combined
) -> None:
    stock, ours = both(keyed(spark, "pmod(xxhash64(id), 40)", 30_000), F.sort_array(F.collect_list("id")))
    expected = answers(stock)
    with with_conf({"spark.saltwise.local.memory": "300k"}):
        assert combined(ours)["states"] > 2 * 40
        assert answers(ours) == expected


def test_sets_that_stop_to_grow_wait_in_large_batches(spark: SparkSession, combined: Combined) -> None:
    df = keyed(spark, "pmod(xxhash64(id), 1000)", 600_000).withColumn("v", F.expr("pmod(hash(id), 1000)"))
    stock, ours = both(df, F.sort_array(F.collect_set("v")))
    found = combined(ours)
    assert found["combined"] == found["rows"]
    assert found["states"] <= 3 * 2 * 1000
    assert answers(ours) == answers(stock)


def test_few_keys_whose_sets_stop_to_grow_are_all_in_the_table(spark: SparkSession, combined: Combined) -> None:
    stock, ours = both(keyed(spark, "id % 10", 20_000), F.sort_array(F.collect_set("v")))
    assert combined(ours)["states"] == 2 * 10
    assert answers(ours) == answers(stock)


def test_a_batch_that_was_full_has_room_for_other_keys(
    spark: SparkSession, with_conf: WithConf, combined: Combined
) -> None:
    """The first half of a task fills some of the buckets, and the second half needs the others."""
    key = "pmod(xxhash64(id), 300) + if(id % 400000 < 200000, 0, 1000)"
    wide = F.max(F.concat(F.repeat(F.lit("v"), 100), "v"))
    stock, ours = both(keyed(spark, key, 400_000), F.sort_array(F.collect_list("v")), wide)
    expected = answers(stock)
    with with_conf({"spark.saltwise.local.memory": "8m"}):
        found = combined(ours)
        assert found["combined"] > 0.9 * found["rows"]
        assert answers(ours) == expected


def test_the_same_rows_in_the_same_order_give_the_same_output(spark: SparkSession, combined: Combined) -> None:
    df = keyed(spark, f"if(id % 3 = 0, {HOT}, if(id % 3 = 1, {FEW}, {DISTINCT}))")
    # Each query is planned by itself, because adaptive execution keeps the stages that have run.
    first, second = (combined(both(df, *mixed())[1]) for _ in range(2))
    assert first == second


def test_only_arguments_travel(spark: SparkSession, plan_that_ran: Callable[[], str]) -> None:
    df = keyed(spark, "id % 9", 5000).withColumn("body", F.expr("repeat('ab', CAST(v AS INT))"))
    middle = F.expr("percentile_approx(length(body), 0.5) FILTER (WHERE length(body) > 3)")
    stock, ours = both(df, middle)
    expected = answers(stock)
    assert answers(ours) == expected
    [project] = [line for line in plan_that_ran().splitlines() if "AS state" in line]
    assert "length(body" in project
    assert project.count("body") == project.count("length(body")
    assert "repeat" not in project


def test_what_is_not_evaluated_for_a_row_does_not_fail_for_it(agree: Agree) -> None:
    agree(
        "SELECT k, percentile_approx(10 / v, 0.5) FILTER (WHERE v > 0) AS p, max_by(v, 10 / (v + 1)) AS m"
        " FROM (SELECT id % 5 AS k, id % 3 AS v FROM range(0, 500, 1, 2)) GROUP BY k",
        strategies=["local"],
        conf={"spark.sql.ansi.enabled": True},
        routes=1,
    )


# That the answers are the same


@pytest.mark.parametrize("mappers", [1, 2, 7, 150])
def test_summaries_of_any_number_of_map_tasks_merge_within_their_error(spark: SparkSession, mappers: int) -> None:
    # Of the hot key's values each is there once, so a value is its own rank; each map task has some of all.
    df = rows(spark, mappers).withColumn("id", F.col("id") * 7919 % ROWS)
    [ranks] = (
        skew_groupby(df, "k", strategy="local")
        .agg(F.percentile_approx("id", [0.0, 0.1, 0.5, 0.99, 1.0], 200).alias("ranks"))
        .where(f"k = {HOT}")
        .collect()
    )

    error = ROWS / 200
    for found, share in zip(ranks["ranks"], [0.0, 0.1, 0.5, 0.99, 1.0], strict=True):
        assert abs(found - share * ROWS) <= error + 2


@pytest.mark.smoke
def test_the_one_exchange_is_by_key_so_that_a_join_needs_no_other(
    spark: SparkSession, plan_that_ran: Callable[[], str]
) -> None:
    names = spark.range(200).selectExpr("id AS k", "id AS name").repartition(4, "k")
    stock, ours = both(rows(spark), F.max("v"))
    joined = ours.hint("merge").join(names, "k")
    expected = answers(stock.join(names, "k"))
    assert answers(joined) == expected
    assert plan_that_ran().count("Exchange hashpartitioning") == 2


def test_rows_that_lie_by_key_already_are_not_shuffled(spark: SparkSession, plan_that_ran: Callable[[], str]) -> None:
    stock, ours = both(rows(spark).repartition(4, "k"), *mixed())
    expected = answers(stock)
    assert answers(ours) == expected
    assert plan_that_ran().count("Exchange hashpartitioning") == 1


def test_runs_of_rows_with_one_key_are_combined_as_they_come(spark: SparkSession, combined: Combined) -> None:
    stock, ours = both(keyed(spark, "id div 20"), *small())
    found = combined(ours)
    assert found["all"] == found["rows"]
    # A run leaves as a state for each task, and for each change of the way that it meets.
    assert found["states"] == pytest.approx(found["rows"] / 20, rel=0.02)
    assert answers(ours) == answers(stock)


def test_a_long_run_leaves_as_one_state(spark: SparkSession, combined: Combined) -> None:
    stock, ours = both(keyed(spark, "id div 50000"), *mixed())
    assert combined(ours)["states"] == 8
    assert answers(ours) == answers(stock)


def unmixed(hashed: int) -> int:
    """The bigint key with this hash of 64 bits: the way back through GroupOfRow."""

    def unshifted(word: int, bits: int) -> int:
        found = word
        for _ in range(64 // bits):
            found = word ^ (found >> bits)
        return found

    word = unshifted(hashed, 31) * pow(0x94D049BB133111EB, -1, 1 << 64) % (1 << 64)
    word = unshifted(word, 27) * pow(0xBF58476D1CE4E5B9, -1, 1 << 64) % (1 << 64)
    key = unshifted(word, 30) ^ 42
    return key - (1 << 64) if key >> 63 else key


def test_keys_whose_rows_wait_as_one_run_have_states_of_their_own(spark: SparkSession) -> None:
    """Their hashes differ only in bits by which neither buckets nor runs nor tables tell keys apart."""
    keys = [unmixed(0x123456789ABCDEF0 ^ (i << 40)) for i in range(4)]
    df = keyed(spark, f"element_at(array({', '.join(f'{key}L' for key in keys)}), CAST(id % 4 + 1 AS INT))", 10_000)
    stock, ours = both(df, F.count("*"), F.approx_count_distinct("v"), F.max_by(F.col("v").cast("string"), "id"))
    assert len(keys) == len(set(keys)) == stock.count()
    assert answers(ours) == answers(stock)


def test_a_value_that_becomes_null_is_null_in_the_state(spark: SparkSession) -> None:
    df = keyed(spark, "id % 20", 10_000).withColumn("s", F.expr("if(id div 20 % 2 = 0, string(id), NULL)"))
    stock, ours = both(df, F.max_by("s", "id"), F.max_by("s", "v"), F.approx_count_distinct("v"))
    assert answers(ours) == answers(stock)


def test_runs_of_keys_that_come_back_are_not_followed(spark: SparkSession, combined: Combined) -> None:
    stock, ours = both(keyed(spark, "id div 20 % 500"), *small())
    assert combined(ours)["states"] == 2 * 500
    assert answers(ours) == answers(stock)


def test_runs_that_end_in_the_middle_of_a_task_give_way_to_a_batch(spark: SparkSession, combined: Combined) -> None:
    count = 200_000
    stock, ours = both(keyed(spark, f"if(id % {count} < {count // 2}, id div 20, {DISTINCT})"), *small())
    found = combined(ours)
    assert found["combined"] == pytest.approx(found["rows"] / 2, rel=0.05)
    assert answers(ours) == answers(stock)


def test_a_key_that_comes_back_after_one_other_row_keeps_its_rows_apart(spark: SparkSession) -> None:
    count = 100_000
    df = keyed(spark, f"if(id % {count} < {count // 2}, id div 20, if(id % 21 = 20, -id, id div 420))", count)
    stock, ours = both(df, F.count("*"), F.approx_count_distinct("v"))
    assert hashed(ours) == hashed(stock)


@settings(max_examples=settings().max_examples // 10)
@given(lengths=st.lists(st.sampled_from([1, 2, 3, 10, 40]), min_size=1, max_size=8), width=st.sampled_from([1, 3000]))
def test_runs_of_any_lengths_give_stock_answers(spark: SparkSession, lengths: list[int], width: int) -> None:
    each = sum(lengths)
    ends = [sum(lengths[: i + 1]) for i in range(len(lengths))]
    run = " + ".join(f"int(id % {each} >= {end})" for end in ends)
    df = keyed(spark, f"(id div {each}) * {len(lengths)} + {run}", 20_000).withColumn(
        "s", F.expr(f"repeat(string(id % 5), {width})")
    )
    stock, ours = both(df, F.max_by("s", "id"), F.sort_array(F.collect_set("v")), F.count("s"))
    assert answers(ours) == answers(stock)


@settings(max_examples=settings().max_examples // 10)
@given(
    memory=st.sampled_from(["1", "12k", "100k"]),
    bursts=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 120)), min_size=1, max_size=25),
)
def test_keys_that_come_and_go_leave_their_states_behind(
    spark: SparkSession, with_conf: WithConf, memory: str, bursts: list[tuple[int, int]]
) -> None:
    keys = [key for key, length in bursts for _ in range(length)]
    df = spark.createDataFrame([(key, i % 13) for i, key in enumerate(keys)], "k long, v long").coalesce(1)
    stock, ours = both(df, *mixed())
    with with_conf({"spark.saltwise.local.memory": memory}):
        assert answers(ours) == answers(stock)


@pytest.mark.parametrize("mappers", [2, 5])
@pytest.mark.parametrize("name", ["k", "-k", "CAST(k AS STRING)"])
def test_aggregates_read_a_key_as_it_was_before_it_was_normalised(
    spark: SparkSession, agree: Agree, mappers: int, name: str
) -> None:
    def query(spark: SparkSession) -> DataFrame:
        zeros = spark.range(0, 2000, 1, mappers).selectExpr(
            "CASE WHEN id % 3 = 0 THEN -0.0D WHEN id % 3 = 1 THEN 0.0D ELSE double('NaN') END AS k"
        )
        return zeros.groupBy("k").agg(F.expr(f"sort_array(collect_set({name}))").alias("c"), F.expr(f"max({name})"))

    agree(query, strategies=["local"], routes=1)


def test_functions_that_take_no_row_after_a_merge_are_merged_last(spark: SparkSession) -> None:
    if not hasattr(F, "theta_sketch_agg"):
        pytest.skip("this Spark has no Theta sketches")
    stock, ours = both(rows(spark), F.theta_sketch_estimate(F.theta_sketch_agg("v")))
    assert answers(ours) == answers(stock)


def test_filters_count_once(agree: Agree) -> None:
    agree(
        "SELECT k, count(*) FILTER (WHERE v > 3) AS a, sort_array(collect_list(v) FILTER (WHERE v < 2)) AS b,"
        " sum(v) FILTER (WHERE 10 / (v + 1) > 2) AS c"
        " FROM (SELECT if(id % 2 = 0, 0, id % 500) AS k, id % 7 AS v FROM range(0, 5000, 1, 4)) GROUP BY k",
        strategies=["local"],
        conf={"spark.sql.ansi.enabled": True},
        routes=1,
    )


def test_subqueries_in_an_aggregate_are_run(agree: Agree) -> None:
    agree(
        "SELECT k, sum(v + (SELECT max(id) FROM range(5))) AS s, collect_set((SELECT min(id) FROM range(3)) + v % 2) AS c"
        " FROM (SELECT if(id % 2 = 0, 0, id % 500) AS k, id % 7 AS v FROM range(0, 5000, 1, 4)) GROUP BY k",
        strategies=["local"],
        close=["c"],
    )


def test_explain_says_what_local_does(spark: SparkSession) -> None:
    query = "SELECT id % 3 AS k, count(*) FROM range(9) GROUP BY 1"
    assert explain(spark, query, strategy="local", partitions=4).reason == (
        "Rewritten: map tasks combine rows where that pays, and send the others as they are, n=4."
    )


@pytest.mark.parametrize("adaptive", [True, False])
def test_a_join_gets_the_groups_in_as_many_partitions_as_its_other_side_has(
    spark: SparkSession, with_conf: WithConf, saltwise_lines: SaltwiseLines, adaptive: bool
) -> None:
    confs = {
        "spark.sql.adaptive.enabled": adaptive,
        "spark.sql.adaptive.coalescePartitions.enabled": False,
        "spark.sql.autoBroadcastJoinThreshold": -1,
        "spark.sql.shuffle.partitions": 7,
    }
    df = keyed(spark, "id % 50", count=500)
    with with_conf(confs):
        right = answers(df.join(df.groupBy("k").agg(F.max("v").alias("m")), "k"))

        counted = skew_groupby(df, "k", strategy="local", partitions=2).agg(F.max("v").alias("m"))

        joined = df.join(counted, "k")
        assert saltwise_lines(joined) == ["Combine [k], local, n=7"]
        assert answers(joined) == right
