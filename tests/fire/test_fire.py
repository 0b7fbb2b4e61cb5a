"""Random queries, and damaged input of the plugin: a small part of what random_queries.py and fuzz.py here do."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from tests.fire import fuzz, random_queries
from tests.fire.plan_parts import PLANS
from tests.fire.random_joins import JoinGenerator
from tests.fire.random_windows import WindowGenerator

from saltwise.placement.consistent_hash import ConsistentHash
from saltwise.placement.function_json import to_json


@pytest.mark.slow
@pytest.mark.classic("look at plans in the driver")
@pytest.mark.parametrize(
    ("queries", "by_turns"),
    [
        (16, True),
        pytest.param(300, False, marks=pytest.mark.full),
    ],
)
def test_random_queries_give_the_same_answers(spark: SparkSession, queries: int, by_turns: bool) -> None:
    counts, wrong = random_queries.check(spark.newSession(), 1, range(queries), by_turns)
    assert not wrong, "\n\n".join(wrong)
    assert counts["refused"] <= random_queries.MAX_REFUSED * counts["queries"]
    assert all(counts[plan] > 0 for plan in PLANS), counts
    assert counts[random_queries.NOTHING] < counts["queries"] / 3, counts


@pytest.mark.slow
@pytest.mark.classic("look at plans in the driver")
@pytest.mark.parametrize("queries", [12, pytest.param(300, marks=pytest.mark.full)])
def test_random_aggregates_over_joins_give_the_same_answers(spark: SparkSession, queries: int) -> None:
    counts, wrong = random_queries.check(spark.newSession(), 2, range(queries), by_turns=True, makes=JoinGenerator)
    assert not wrong, "\n\n".join(wrong)
    assert counts["Combine below a join"] > 0, counts


@pytest.mark.slow
@pytest.mark.classic("look at plans in the driver")
@pytest.mark.parametrize("queries", [12, pytest.param(300, marks=pytest.mark.full)])
def test_random_windows_give_the_same_answers(spark: SparkSession, queries: int) -> None:
    counts, wrong = random_queries.check(spark.newSession(), 2, range(queries), makes=WindowGenerator)
    assert not wrong, "\n\n".join(wrong)
    assert counts["SkewWindow"] > 0, counts


@pytest.mark.parametrize("sql", ["SELECT id, nothing FROM range(3)", "SELECT raise_error('no') FROM range(3)"])
def test_a_random_query_that_fails_answers_the_class_of_its_error(spark: SparkSession, sql: str) -> None:
    answer, plan = random_queries.run(spark, random_queries.Query(sql), {})
    assert isinstance(answer, str)
    assert not plan
    assert not random_queries.difference(answer, answer)
    assert random_queries.difference([], answer) == f"rows against {answer}"


@pytest.mark.slow
@pytest.mark.classic("call the plugin's readers")
@pytest.mark.parametrize("name", [name for name in fuzz.IN_JAVA if name != "java-event"])  # whose tab needs Spark's UI
def test_damaged_input_is_read_or_refused_by_the_plugin(spark: SparkSession, name: str) -> None:
    counts, wrong = fuzz.check(name, 100, 1)
    assert not wrong, "\n".join(wrong)
    assert counts["refused"] + counts["read"] == 100


@pytest.mark.classic("call the plugin's readers")
def test_a_ring_of_a_million_places_takes_twenty_megabytes_of_java(spark: SparkSession) -> None:
    text = to_json(ConsistentHash(4, replicas=999_999_937))
    parse = fuzz.plugin().placement.PartitionFunctionJson.read
    meter = fuzz.JavaMeter(spark._jvm)
    meter.start()
    function = parse(text).function()
    _, allocated = meter.stop()
    assert 0 <= function.place(7) < 4
    assert 12_000_000 <= allocated <= 20_000_000
