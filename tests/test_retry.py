"""Answers stay right when an executor is lost in the middle of a query."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


def ends_of(strategies: str, runs: int, aggregates: str = "counts") -> dict[str, list[str]]:
    """How the queries of each strategy ended, so many of each, an executor lost in each."""
    script = Path(__file__).with_name("retry.py")
    done = subprocess.run(
        [sys.executable, str(script), "--runs", str(runs), "--strategies", strategies, "--aggregates", aggregates],
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
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


def right_or_ended_by_spark(end: str) -> bool:
    """Whether a run gave the right answer, or Spark ended it since rows differed when computed again."""
    return end == "right" or (end.startswith("aborted") and "indeterminate output" in end)


@pytest.mark.slow
@pytest.mark.parametrize("runs", [1, pytest.param(4, marks=pytest.mark.full)])
def test_local_over_a_shuffle_is_right_or_ended_by_spark(runs: int) -> None:
    ends = ends_of("local", runs)["local"]
    assert all(map(right_or_ended_by_spark, ends)), ends


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategies", "runs"), [("auto", 1), pytest.param("stock,auto,split", 6, marks=pytest.mark.full)]
)
def test_states_of_objects_are_right_wherever_an_executor_is_lost(strategies: str, runs: int) -> None:
    ends = ends_of(strategies, runs, "objects")
    assert set(ends["auto"]) == {"right"}, ends
    # Sums of doubles may have other last bits when they are computed again. Where its own plan shuffles them, Spark 4.2
    # and later may end the job.
    assert all(right_or_ended_by_spark(end) for each in ends.values() for end in each), ends
