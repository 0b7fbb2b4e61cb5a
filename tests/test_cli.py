"""The command: what it prints, its one-sentence errors with exit status 2, and its help."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from saltwise.cli.commands import WRONG_INPUT, app
from saltwise.strategies import STRATEGIES

pytestmark = pytest.mark.classic("run the command saltwise")

runner = CliRunner()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a file of flights: four of UA, one of B6, one without a carrier."""
    rows = ["UA,2", "UA,5", "B6,", ",1", "UA,9", "UA,3"]
    (tmp_path / "flights.csv").write_text("\n".join(["carrier,delay", *rows]))
    (tmp_path / "delays.sql").write_text("SELECT carrier, collect_list(delay)\nFROM flights GROUP BY carrier;\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def stdout(*arguments: str) -> str:
    """Run a command that works."""
    result = runner.invoke(app, arguments)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return result.stdout


def sentence(*arguments: str) -> str:
    """Run a command that is refused, and return what it says."""
    result = runner.invoke(app, arguments)
    assert (result.exit_code, result.stdout) == (WRONG_INPUT, ""), result.output
    assert result.stderr.count("\n") == 1, result.stderr
    return result.stderr.strip()


def test_report(spark: SparkSession, folder: Path) -> None:
    printed = stdout("report", "flights.csv", "--key", "carrier", "--partitions", "10")
    assert "Skew of carrier: 6 rows, n = 10, theta = 0.02" in printed
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in printed.split("\n") if "│" in line]
    assert rows[0] == ["UA", "4", "4", "66.67%"]
    assert sorted(rows[1:3]) == [["B6", "1", "1", "16.67%"], ["NULL", "1", "1", "16.67%"]]
    assert "strategy='dchoices'" in " ".join(printed.split())


def test_report_of_several_keys_and_formats(spark: SparkSession, folder: Path) -> None:
    spark.read.option("header", True).csv(str(folder / "flights.csv")).write.parquet(str(folder / "flights"))
    printed = stdout("report", "flights", "--key", "carrier", "--key", "delay", "--theta", "0.5")
    assert "Skew of carrier, delay: 6 rows, n = 4, theta = 0.5" in printed
    assert "UA,2" in stdout("report", "flights.csv", "--format", "text", "--key", "value")


def test_explain(spark: SparkSession, folder: Path) -> None:
    printed = stdout("explain", "delays.sql", "--table", "flights=flights.csv", "--strategy", "split")
    assert "SkewSplit [carrier], split, n=4" in printed
    assert "Rewritten: rows are shuffled once by key, and partitions that get too many are split, n=4." in printed
    assert not spark.catalog.tableExists("flights")


def test_explain_of_a_string(spark: SparkSession) -> None:
    query = "SELECT id % 3, count(*) FROM range(9) GROUP BY 1"
    assert "Left alone: the states of count have a fixed size" in stdout("explain", query)
    assert "by pkg, n=7." in stdout("explain", query, "--strategy", "pkg", "--partitions", "7")


def test_status(spark: SparkSession) -> None:
    shown = dict(line.strip().rsplit(maxsplit=1) for line in stdout("status").splitlines())
    assert shown["loaded"] == "True"
    assert shown["spark version"] == spark.version
    assert shown["enabled"] == "False"
    assert shown["strategy"] == "auto"


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


def test_unknown_column(spark: SparkSession, folder: Path) -> None:
    said = "column is 'carier'; it must be one of carrier, delay; did you mean 'carrier'?"
    assert sentence("report", "flights.csv", "--key", "carier") == said
    assert sentence("explain", "SELECT carier FROM flights", "--table", "flights=flights.csv") == said


def test_unreadable_format(spark: SparkSession, folder: Path) -> None:
    assert sentence("report", "flights.csv", "--key", "carrier", "--format", "parquet") == (
        f"'flights.csv' cannot be read as parquet, because file:{folder}/flights.csv is not a Parquet file; "
        "the formats are parquet, csv, json, orc, text."
    )


def test_unknown_table(spark: SparkSession, folder: Path) -> None:
    assert sentence("explain", "delays.sql") == (
        "table is 'flights', and there are no tables: name its file with --table flights=PATH."
    )


@pytest.mark.parametrize(
    ("arguments", "near"),
    [(["reprot"], "report"), (["report", "x", "--kee", "k"], "--key"), (["report", "x"], "--key")],
)
def test_usage_errors_are_one_sentence_too(arguments: list[str], near: str) -> None:
    assert near in sentence(*arguments)


@pytest.mark.parametrize(
    ("command", "taught"),
    [
        ([], ["demo", "report", "explain", "status"]),
        (["demo"], ["saltwise demo --quick", "336,776 flights", "--partitions", "--out"]),
        (["report"], ["saltwise report events.parquet --key user_id", "--theta", "--epsilon", "--format"]),
        (["explain"], ['saltwise explain "SELECT', "--table", "NAME=PATH", "--strategy", "dchoices"]),
        (["status"], ["saltwise status"]),
    ],
)
def test_help_teaches(command: list[str], taught: list[str]) -> None:
    printed = stdout(*command, "--help")
    for words in taught:
        assert words in printed


# One JVM for both: the second command starts Spark again in it.
TWO_COMMANDS = """
import sys
from saltwise.cli.commands import main

for key in "carrier", "delai":
    sys.argv = ["saltwise", "report", "flights.csv", "--key", key]
    try:
        main()
    except SystemExit as end:
        print("status", end.code, flush=True)
"""


@pytest.mark.slow
def test_spark_starts_without_a_word(folder: Path) -> None:
    """In a process of its own: JVM, log4j and pyspark say nothing, and no folder is left behind."""
    env = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = subprocess.run([sys.executable, "-c", TWO_COMMANDS], capture_output=True, text=True, env=env, check=True)
    assert done.stderr == "column is 'delai'; it must be one of carrier, delay; did you mean 'delay'?\n"
    assert done.stdout.startswith("Skew of carrier: 6 rows, n = 200")
    assert done.stdout.endswith("status 0\nstatus 2\n")
    assert sorted(path.name for path in folder.iterdir()) == ["delays.sql", "flights.csv"]
