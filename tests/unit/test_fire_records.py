"""How runs under fire are judged: retries, long streams, and tight memory."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from tests.fire.growth import MAY_GROW, MAY_LEAK_KB, growth
from tests.fire.retry import (
    KILLS,
    LOSSES,
    STRATEGIES,
    can_lose,
    complaints_about,
    how_aborted,
    message,
    more_often,
    planned,
    rewrites,
    seen_in,
)
from tests.fire.tight_memory import FINISHED, STUCK, End, is_stuck, judged, peak

ROOT = Path(__file__).resolve().parents[2]
INDETERMINATE = (
    "A shuffle map stage with indeterminate output was failed and retried. However, Spark cannot rollback it"
)


def test_the_plan_kills_a_hundred_executors_and_loses_everything() -> None:
    plan = planned()
    assert sum(trial.lost in KILLS for trial in plan) >= 100
    assert len(set(plan)) == len(plan)
    for strategy in STRATEGIES.split(","):
        runs = [trial for trial in plan if trial.strategy == strategy]
        assert {trial.lost for trial in runs} == {each for each in LOSSES if can_lose(strategy, each)}
        kinds = {trial.aggregates for trial in plan if rewrites(strategy, trial.aggregates, "reduce")}
        assert {trial.aggregates for trial in runs} == kinds


def line(side: str, **changed: Any) -> dict[str, Any]:
    """What a run prints that ended well."""
    trial = {"side": side, "strategy": "pkg", "aggregates": "count", "lost": "map", "run": 0}
    return {**trial, "end": "right", "plan": "SkewRoute", **changed}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, None),
        ({"end": "wrong"}, "1 wrong"),
        ({"end": "aborted: otherwise"}, "1 aborted, and not as Spark aborts its own"),
        ({"end": "aborted: indeterminate"}, None),
        ({"plan": ""}, "1 not rewritten"),
        ({"lost": "slices"}, "1 not rewritten"),
        ({"end": "nothing was lost"}, "1 without a loss"),
    ],
)
def test_a_run_that_ended_as_it_must_not_is_reported(changed: dict[str, Any], said: str | None) -> None:
    complaints = complaints_about([line("ours", **changed), line("stock")])
    assert [text.split(":")[0] for text in complaints] == ([said] if said else [])


def test_five_aborts_in_ours_alone_are_too_many() -> None:
    assert more_often(5, 0)
    assert not more_often(4, 0)
    assert not more_often(5, 1)
    assert not more_often(0, 0)
    pairs = [line(side, run=run) for run in range(5) for side in ("ours", "stock")]
    aborted = [each | {"end": "aborted: indeterminate"} if each["side"] == "ours" else each for each in pairs]
    assert [text.split(":")[0] for text in complaints_about(aborted)] == ["all", "pkg", "count"]
    assert not complaints_about([each | {"end": "aborted: indeterminate"} for each in pairs])


@pytest.mark.parametrize(
    ("text", "end"),
    [
        (INDETERMINATE, "indeterminate"),
        (
            "ShuffleMapStage 7 (collect at a.py:1) has failed the maximum allowable number of times: 20.",
            "lost too often",
        ),
        (
            "Task 1 in stage 2.0 failed 200 times, most recent failure: Lost task 1.9 in stage 2.0 (TID 3) (10.0.0.1 "
            "executor 4): ExecutorLostFailure (executor 4 exited)",
            "lost too often",
        ),
        (
            "Task 1 in stage 2.0 failed 200 times, most recent failure: Lost task 1.9 in stage 2.0 (TID 3) (10.0.0.1 "
            "executor 4): java.lang.ClassCastException: a is no b",
            "otherwise",
        ),
    ],
)
def test_the_message_of_spark_says_why_it_aborted(text: str, end: str) -> None:
    error = RuntimeError(
        f"An error\n: org.apache.spark.SparkException: Job aborted due to stage failure: {text}\n\tat x"
    )
    assert how_aborted(message(error)) == f"aborted: {end}"


def test_the_event_log_of_a_query_shows_what_was_lost() -> None:
    events: list[dict[str, Any]] = [
        {"Event": "SparkListenerExecutorRemoved"},
        {"Event": "SparkListenerJobStart"},
        {"Event": "SparkListenerTaskStart", "Task Info": {"Speculative": True}},
        {"Event": "SparkListenerTaskEnd", "Task End Reason": {"Reason": "Success"}},
        {"Event": "SparkListenerTaskEnd", "Task End Reason": {"Reason": "FetchFailed"}},
        {"Event": "SparkListenerExecutorRemoved"},
        {"Event": "SparkListenerJobEnd"},
        {"Event": "SparkListenerExecutorRemoved"},
    ]
    lines = [json.dumps(event, separators=(",", ":")) for event in events]
    assert seen_in(lines) == {"Speculative": 1, "FetchFailed": 1, "ExecutorRemoved": 1}


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


def test_a_heap_is_fullest_before_a_collection(tmp_path: Path) -> None:
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
