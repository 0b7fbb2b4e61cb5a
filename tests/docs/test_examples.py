"""The examples run, and print what they promise."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from saltwise import datasets, streams

EXAMPLES = Path(__file__).parents[2] / "examples"

PROMISED = {
    "flights_delays.py": r"flies most often to",
    "word_counts.py": r"\| the\|",
    "existing_job.py": r"The answers are the same\.",
    "star_join.py": r"The answers are the same\.\n.*below the join",
    "place_and_stay.py": r"The next run continues with this function\.",
    "airplane_totals.py": r"The totals equal those of one aggregate over all months\.",
    "streaming_delays.py": r"batch 3, saltwise: [\d,]+ rows, \d+ hot keys, hottest ATL",
    "python_aggregates.py": r"A tree would first try to split the hours at",
}
"""What examples print, as patterns."""

PROMISED_WITHOUT_SPARK = {
    "reproduce_balance.py": "of 100 workers",
}

PROMISED_WITH_EXECUTORS = {
    "airport_stream.py": "The busiest executor had ",
}

pytestmark = pytest.mark.slow


@pytest.fixture(params=[20, pytest.param(1, marks=pytest.mark.full)], ids=["few rows", "all rows"])
def part(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Which part of the rows the examples have: one of so many."""
    one_of: int = request.param
    flights, words, zipf = datasets.flights(), datasets.words, streams.zipf
    some = flights.take([*range(0, flights.num_rows, one_of)])
    monkeypatch.setattr(datasets, "flights", lambda: some)
    monkeypatch.setattr(datasets, "words", lambda rows, known=20_000: words(rows // one_of, known // one_of))
    monkeypatch.setattr(
        streams, "zipf", lambda messages, *shape, **options: zipf(messages // one_of, *shape, **options)
    )
    return one_of


def test_every_example_is_tested() -> None:
    every = PROMISED | PROMISED_WITHOUT_SPARK | PROMISED_WITH_EXECUTORS
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(every)


@pytest.mark.usefixtures("part")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.classic("read the status store")) if name == "existing_job.py" else name
        for name in PROMISED
    ],
)
def test_an_example_runs(name: str, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / name))["main"](spark.newSession())
    assert re.search(PROMISED[name], capsys.readouterr().out)


@pytest.mark.usefixtures("part")
@pytest.mark.parametrize("name", PROMISED_WITHOUT_SPARK)
def test_an_example_without_spark_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / name))["main"]()
    assert PROMISED_WITHOUT_SPARK[name] in capsys.readouterr().out


# The twin in make test is that of tests/fire/moving_states.py: such a stream, its balancer and its executors.
@pytest.mark.full
@pytest.mark.classic("start a driver")
@pytest.mark.parametrize("name", PROMISED_WITH_EXECUTORS)
def test_an_example_runs_on_executors(name: str, tmp_path: Path) -> None:
    """In a process of its own, because this one has a session already."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / name], cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True
    )
    assert PROMISED_WITH_EXECUTORS[name] in done.stdout
    assert (tmp_path / "executors.png").stat().st_size > 0


def test_notebooks_hold_what_they_printed_and_no_error() -> None:
    for path in EXAMPLES.glob("*.ipynb"):
        notebook = json.loads(path.read_text())
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
        assert "error" not in {output["output_type"] for cell in cells for output in cell["outputs"]}
        assert path.stat().st_size < 200_000


@pytest.mark.usefixtures("part")
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.name)
def test_the_code_of_a_notebook_runs(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for cell in json.loads(path.read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
