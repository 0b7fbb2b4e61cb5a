"""Answers stay right when an executor is lost in the middle of a query."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_a_lost_executor_neither_changes_an_answer_nor_ends_the_job() -> None:
    script = Path(__file__).with_name("retry.py")
    done = subprocess.run(
        [sys.executable, str(script), "--runs", "2", "--strategies", "split,hot,hot-keys-only,shuffle,dchoices"],
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    ends = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.returncode == 0, done.stdout + done.stderr
    assert [end["strategy"] for end in ends] == ["split", "hot", "hot-keys-only", "shuffle", "dchoices"]
    assert [end["right"] for end in ends] == [2, 2, 2, 2, 2]
