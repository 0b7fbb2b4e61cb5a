"""The examples run, and print what they promise."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parent.parent / "examples"

PROMISED = {
    "flights_delays.py": "flies most often to",
    "word_counts.py": "| the|",
    "existing_job.py": "The answers are the same.",
}


def test_all_are_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(PROMISED)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROMISED)
def test_runs(name: str, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / name))["main"](spark.newSession())
    assert PROMISED[name] in capsys.readouterr().out
