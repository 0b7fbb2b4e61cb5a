"""StateBalancer beside Spark: states that move give the answers of a batch query."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import saltwise
from saltwise import SaltwiseError

ROOT = Path(__file__).parents[2]
SHORT = "--batches 6 --queries aggregate --stores rocksdb --kill-every 0 --restart-every 4"
LONG = "--batches 40 --kill-every 20 --restart-every 15"


@pytest.mark.classic("see the driver")
def test_a_query_without_a_reported_batch_has_no_report(spark: SparkSession) -> None:
    class Query:
        runId = "none"

    with pytest.raises(SaltwiseError) as error:
        saltwise.StateBalancer(spark).report(Query())  # type: ignore[arg-type]
    assert str(error.value) == ("No batch with state of query none has ended since the balancer started: wait for one.")


@pytest.mark.slow
@pytest.mark.classic("start a driver")
@pytest.mark.parametrize("arguments", [SHORT, pytest.param(LONG, marks=pytest.mark.full)], ids=["short", "long"])
def test_states_that_move_give_the_answers_of_a_batch_query(arguments: str) -> None:
    """On executors of their own, in a process of its own."""
    script = ROOT / "tests" / "fire" / "moving_states.py"
    done = subprocess.run([sys.executable, script, *arguments.split()], stdout=subprocess.PIPE, text=True)
    results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert results, done.stdout
    assert done.returncode == 0, results
    assert all(result["right"] and result["arrived"] > 0 for result in results), results
