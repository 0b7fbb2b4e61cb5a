"""Random queries and damaged input, a small part of what tests/random_queries.py and tests/fuzz.py do; and what a long
stream may keep, and a small heap hold."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests import fuzz, random_queries
from tests.growth import MAY_GROW, MAY_LEAK_KB, growth
from tests.tight_memory import FINISHED, STUCK, End, is_stuck, judged, peak

import saltwise
from saltwise.placement.consistent_hash import ConsistentHash
from saltwise.placement.function_json import to_json

ROOT = Path(__file__).parent.parent
RUNS_DATA = re.compile(
    r"\b(pickle|cloudpickle|marshal|shelve|dill|joblib)\.(loads?|Unpickler|open)\b"
    r"|from (pickle|pyspark\.cloudpickle|marshal|shelve|dill|joblib) import"
    r"|\bread_pickle\b|\ballow_pickle\b|\bnp\.load\b|\b(eval|exec)\("
)
"""What makes code of data."""


@pytest.mark.slow
@pytest.mark.classic("look at plans in the driver")
@pytest.mark.parametrize("by_turns", [True, pytest.param(False, marks=pytest.mark.full)], ids=["one side", "all sides"])
def test_random_queries_give_the_same_answers(spark: SparkSession, by_turns: bool) -> None:
    session = spark.newSession()
    counts, wrong = random_queries.check(session, 1, range(300), by_turns)
    assert not wrong, "\n\n".join(wrong)
    assert counts["refused"] <= random_queries.MAX_REFUSED * counts["queries"]
    assert all(counts[plan] > 0 for plan in random_queries.PLANS), counts
    assert counts[random_queries.NOTHING] < counts["queries"] / 5, counts


@pytest.mark.parametrize("sql", ["SELECT id, nothing FROM range(3)", "SELECT raise_error('no') FROM range(3)"])
def test_the_answer_of_a_random_query_that_fails_is_the_class_of_its_error(spark: SparkSession, sql: str) -> None:
    answer, plan = random_queries.run(spark, random_queries.Query(sql), {})
    assert isinstance(answer, str)
    assert not plan
    assert not random_queries.difference(answer, answer)
    assert random_queries.difference([], answer) == f"rows against {answer}"


@pytest.mark.parametrize("name", fuzz.FORMATS)
def test_damaged_input_is_read_or_refused_and_nothing_else(name: str) -> None:
    counts, wrong = fuzz.check(name, 1_500, 1)
    assert not wrong, "\n".join(wrong)
    assert counts["refused"] + counts["read"] == counts["mutations"] == 1_500


def test_the_event_logs_that_are_damaged_have_a_finding(tmp_path: Path) -> None:
    logs = fuzz.log(tmp_path)
    assert logs.file is not None
    for example in logs.examples:
        logs.file.write_bytes(example)
        [found] = fuzz.use_log(logs.file).findings
        assert found.keys == ["k"]
        assert found.hot_keys == ["UA (80,000 rows)"]


@pytest.mark.slow
@pytest.mark.classic("call the plugin's readers")
@pytest.mark.parametrize("name", [name for name in fuzz.IN_JAVA if name != "java-event"])  # whose tab needs Spark's UI
def test_damaged_input_is_read_or_refused_by_the_plugin(spark: SparkSession, name: str) -> None:
    counts, wrong = fuzz.check(name, 100, 1)
    assert not wrong, "\n".join(wrong)
    assert counts["refused"] + counts["read"] == 100


@pytest.mark.classic("call the plugin's readers")
def test_a_ring_of_a_million_places_is_made_in_twenty_megabytes_of_java(spark: SparkSession) -> None:
    text = to_json(ConsistentHash(4, replicas=999_999_937))
    parse = fuzz.plugin().placement.PartitionFunction.fromJson
    meter = fuzz.JavaMeter(spark._jvm)
    meter.start()
    function = parse(text).function()
    _, allocated = meter.stop()
    assert 0 <= function.place(7) < 4
    assert 12_000_000 <= allocated <= 20_000_000


def test_only_the_reduce_side_of_aggregators_unpickles() -> None:
    package = Path(saltwise.__file__).parent
    found = [
        path.relative_to(package).as_posix()
        for path in sorted(package.rglob("*.py"))
        for _ in RUNS_DATA.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == ["spark/aggregators/reduce_side.py"]


def readings(**kept: float) -> list[dict[str, float]]:
    """Of a run of 2,000 batches whose threads swing by 16, where each batch keeps something."""
    names = [*MAY_LEAK_KB, *MAY_GROW]
    return [
        {"batch": i} | {name: 100 + 16 * (name == "threads") * (i // 25 % 2) + kept.get(name, 0) * i for name in names}
        for i in range(0, 2_000, 25)
    ]


def test_a_long_stream_that_swings_and_keeps_nothing_has_not_grown() -> None:
    assert growth(readings()) == {}


@pytest.mark.parametrize("name", [*MAY_LEAK_KB, *MAY_GROW])
def test_a_long_stream_has_grown_where_it_keeps_more_than_it_may(name: str) -> None:
    may_keep = MAY_LEAK_KB[name] / 1024 if name in MAY_LEAK_KB else MAY_GROW[name] / 1_000
    assert growth(readings(**{name: 0.9 * may_keep})) == {}
    assert list(growth(readings(**{name: 1.1 * may_keep}))) == [name]


def test_the_recorded_long_stream_has_not_grown() -> None:
    recorded = ROOT / "benchmarks" / "results" / "fire" / "soak.csv"
    with recorded.open(newline="", encoding="utf-8") as file:
        held = [
            {name: float(row[name]) for name in ("batch", *MAY_LEAK_KB, *MAY_GROW)}
            for row in csv.DictReader(file)
            if row["heap_mb"]
        ]
    assert growth(held) == {}


def collected(log: Path, *collections: str) -> Path:
    log.write_text("".join(f"[1.2s][info][gc] GC(7) Pause {each} 3.1ms\n" for each in collections))
    return log


def test_a_heap_is_stuck_once_full_collections_leave_it_full(tmp_path: Path) -> None:
    young, full = "Young (Allocation Failure) 500M->420M(510M)", "Full (Allocation Failure) 510M->509M(510M)"
    log = tmp_path / "executor-1.log"
    assert is_stuck(collected(log, young, *[full] * STUCK))
    assert not is_stuck(collected(log, young, *[full] * (STUCK - 1)))
    assert not is_stuck(collected(log, *[full] * STUCK, young))
    assert not is_stuck(collected(log, *["Full (System.gc()) 60M->40M(85M)"] * STUCK))
    assert not is_stuck(tmp_path / "never written.log")


def test_a_heap_held_most_before_one_of_its_collections(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    assert peak(collected(log, "Young (Allocation Failure) 34M->23M(37M)", "Full (Metadata) 30M->9M(85M)")) == 34
    assert peak(tmp_path / "never written.log") == 0


@pytest.mark.parametrize(
    ("end", "sentence"),
    [
        (End("sets", 9_000, "split", FINISHED, 5.0, 120, 100, ours=True), ""),
        (
            End("sets", 9_000, "split", FINISHED, 5.0, 121, 100, ours=True),
            "sets, 9,000, split: executor_mb is 121, and with stock Spark 100.",
        ),
        (
            End("sets", 9_000, "split", FINISHED, 5.0, 100, 121, ours=True),
            "sets, 9,000, split: driver_mb is 121, and with stock Spark 100.",
        ),
        (
            End("sets", 9_000, "split", "failed: a full heap", 5.0, 100, 100),
            "sets, 9,000, split: failed: a full heap, and stock Spark finished.",
        ),
        (End("sets", 9_000, "split", FINISHED, 5.0, 100, 100), "sets, 9,000, split: the plan was left alone."),
        (End("sets", 70_000, "split", "failed: a full heap", 5.0, 100, 100), ""),
    ],
)
def test_a_query_in_tight_memory_is_judged_by_what_stock_spark_did(end: End, sentence: str) -> None:
    stock = [End("sets", 9_000, "stock", FINISHED, 5.0, 100, 100), End("sets", 70_000, "stock", "failed", 5.0, 1, 1)]
    assert judged(end, [*stock, end]) == sentence
