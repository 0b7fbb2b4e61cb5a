"""Answers stay right when an executor is lost in the middle of a query."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def ends_of(strategies: str, runs: int, aggregates: str = "counts") -> list[dict[str, Any]]:
    """How the queries of each strategy ended, so many of each, an executor lost in each."""
    script = Path(__file__).with_name("retry.py")
    done = subprocess.run(
        [sys.executable, str(script), "--runs", str(runs), "--strategies", strategies, "--aggregates", aggregates],
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    ends = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [end["strategy"] for end in ends] == strategies.split(","), done.stdout + done.stderr
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
    assert [end.get("right") for end in ends] == [runs] * len(ends), ends


def right_or_ended_by_spark(end: dict[str, Any]) -> bool:
    """Whether no run gave a wrong answer, and Spark ended the others since rows differed when computed again."""
    return end["wrong"] == 0 and all("indeterminate output" in message for message in end["messages"])


@pytest.mark.slow
@pytest.mark.parametrize("runs", [1, pytest.param(4, marks=pytest.mark.full)])
def test_local_over_a_shuffle_is_right_or_ended_by_spark(runs: int) -> None:
    [end] = ends_of("local", runs)
    assert right_or_ended_by_spark(end), end


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategies", "runs"), [("auto", 1), pytest.param("stock,auto,split", 6, marks=pytest.mark.full)]
)
def test_states_of_objects_are_right_wherever_an_executor_is_lost(strategies: str, runs: int) -> None:
    ends = {end["strategy"]: end for end in ends_of(strategies, runs, "objects")}
    assert ends["auto"].get("right") == runs, ends
    # Sums of doubles may have other last bits when they are computed again. Where they are shuffled, Spark 4.2 and
    # later may end the job: its own plan, and the slices of split.
    assert all(map(right_or_ended_by_spark, ends.values())), ends
