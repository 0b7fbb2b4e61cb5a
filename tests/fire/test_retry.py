"""Answers stay right when an executor is lost in the middle of a query."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
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

INDETERMINATE = (
    "A shuffle map stage with indeterminate output was failed and retried. However, Spark cannot rollback it"
)


def lost(strategies: str, *options: object) -> subprocess.CompletedProcess[str]:
    """Run queries of some strategies, and lose something in each."""
    script = Path(__file__).with_name("retry.py")
    return subprocess.run(
        [sys.executable, str(script), "--strategies", strategies, *map(str, options)],
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )


def ends_of(strategies: str, runs: int, aggregates: str = "counts") -> dict[str, list[str]]:
    """How the queries of each strategy ended, so many of each, an executor lost in each."""
    done = lost(strategies, "--runs", runs, "--aggregates", aggregates)
    ends: dict[str, list[str]] = {strategy: [] for strategy in strategies.split(",")}
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            run = json.loads(line)
            ends[run["strategy"]].append(run["end"])
    assert all(len(each) == runs for each in ends.values()), done.stdout + done.stderr
    return ends


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategies", "runs"),
    [
        # One that looks at partitions, and one that looks at the rows before. The second run of each ends its job where
        # the first one shuffles once more.
        ("split,dchoices", 2),
        pytest.param(
            "split,hot,hot-keys-only,hash,shuffle,pkg,dchoices,wchoices,roundrobin", 4, marks=pytest.mark.full
        ),
    ],
)
def test_a_lost_executor_neither_changes_an_answer_nor_ends_the_job(strategies: str, runs: int) -> None:
    ends = ends_of(strategies, runs)
    assert {end for each in ends.values() for end in each} == {"right"}, ends


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize(
    ("strategy", "losses"), [("split", "map,slices,replan,cache,files,disk,twice,leaves"), ("pkg", "workers")]
)
def test_whatever_is_lost_the_answer_is_right_or_spark_ends_the_job(strategy: str, losses: str) -> None:
    done = lost(strategy, "--runs", 1, "--lose", losses)
    assert done.returncode == 0, done.stdout + done.stderr


def right_or_ended_by_spark(end: str) -> bool:
    """Whether a run gave the right answer, or Spark ended it since rows differed when computed again."""
    return end in ("right", "aborted: indeterminate")


@pytest.mark.slow
@pytest.mark.parametrize("runs", [1, pytest.param(4, marks=pytest.mark.full)])
def test_local_over_a_shuffle_is_right_or_ended_by_spark(runs: int) -> None:
    ends = ends_of("local", runs)["local"]
    assert all(map(right_or_ended_by_spark, ends)), ends


@pytest.mark.slow
@pytest.mark.parametrize(("strategies", "runs"), [("auto", 1), pytest.param("auto,split", 6, marks=pytest.mark.full)])
def test_states_of_objects_are_right_wherever_an_executor_is_lost(strategies: str, runs: int) -> None:
    ends = ends_of(strategies, runs, "objects")
    assert set(ends["auto"]) == {"right"}, ends
    # Sums of doubles may have other last bits when they are computed again. Without AQE nothing tells Spark that they
    # are worth the same.
    assert all(right_or_ended_by_spark(end) for each in ends.values() for end in each), ends


def test_the_plan_kills_a_hundred_executors_and_loses_everything_of_every_strategy() -> None:
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
def test_a_run_that_ended_as_it_must_not_is_told(changed: dict[str, Any], said: str | None) -> None:
    complaints = complaints_about([line("ours", **changed), line("stock")])
    assert [text.split(":")[0] for text in complaints] == ([said] if said else [])


def test_five_pairs_that_were_aborted_in_ours_alone_are_too_many_and_four_are_not() -> None:
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
def test_an_abort_is_told_apart_by_sparks_message(text: str, end: str) -> None:
    error = RuntimeError(
        f"An error\n: org.apache.spark.SparkException: Job aborted due to stage failure: {text}\n\tat x"
    )
    assert how_aborted(message(error)) == f"aborted: {end}"


def test_the_event_log_of_a_query_tells_what_was_lost_in_it() -> None:
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
