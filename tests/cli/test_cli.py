"""The command with Spark: what it prints, and what it refuses in one sentence, with exit status 2."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.cli.command import sentence, stdout, write_flights

pytestmark = pytest.mark.classic("run the command saltwise")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a file of flights and a query of it."""
    write_flights(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_report_prints_hot_keys_and_advice(spark: SparkSession, folder: Path) -> None:
    printed = stdout("report", "flights.csv", "--key", "carrier", "--partitions", "10")
    assert "Skew of carrier: 6 rows on 10 tasks; a key is hot if it has 0.02 of them or more (theta)" in printed
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in printed.split("\n") if "│" in line]
    assert rows[0] == ["UA", "4", "4", "66.67%"]
    assert sorted(rows[1:3]) == [["B6", "1", "1", "16.67%"], ["NULL", "1", "1", "16.67%"]]
    assert "strategy='dchoices'" in " ".join(printed.split())


def test_report_takes_several_keys_and_another_format(spark: SparkSession, folder: Path) -> None:
    (folder / "flights.csv").rename(folder / "flights")
    printed = stdout("report", "flights", "--format", "csv", "--key", "carrier", "--key", "delay", "--theta", "0.5")
    assert "Skew of carrier, delay: 6 rows on 4 tasks; a key is hot if it has 0.5 of them" in printed


def test_explain_prints_both_plans_of_a_file_or_a_text(spark: SparkSession, folder: Path) -> None:
    printed = stdout("explain", "delays.sql", "--table", "flights=flights.csv", "--strategy", "split")
    assert "SkewSplit [carrier], split, n=4" in printed
    assert "Rewritten: rows are shuffled once by key, and partitions that get too many are split, n=4." in printed
    assert not spark.catalog.tableExists("flights")
    query = "SELECT id % 3, count(*) FROM range(9) GROUP BY 1"
    assert "Left alone: the states of count have a fixed size" in stdout("explain", query)
    assert "by pkg, n=7." in stdout("explain", query, "--strategy", "pkg", "--partitions", "7")


def test_status_prints_what_the_session_has(spark: SparkSession) -> None:
    shown = dict(line.strip().rsplit(maxsplit=1) for line in stdout("status").splitlines())
    assert shown["loaded"] == "True"
    assert shown["spark version"] == spark.version
    assert (shown["enabled"], shown["strategy"]) == ("False", "auto")


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (
            ["report", "flights.csv", "--key", "carier"],
            "column is 'carier'; it must be one of carrier, delay; did you mean 'carrier'?",
        ),
        (
            ["explain", "SELECT carier FROM flights", "--table", "flights=flights.csv"],
            "column is 'carier'; it must be one of carrier, delay; did you mean 'carrier'?",
        ),
        (
            ["report", "flights.csv", "--key", "carrier", "--format", "parquet"],
            "'flights.csv' cannot be read as parquet, because file:{folder}/flights.csv is not a Parquet file; "
            "the formats are parquet, csv, json, orc, text.",
        ),
        (
            ["explain", "delays.sql"],
            "table is 'flights', and there are no tables: name its file with --table flights=PATH.",
        ),
    ],
)
def test_what_spark_does_not_find_or_read_is_refused(
    spark: SparkSession, folder: Path, arguments: list[str], refusal: str
) -> None:
    assert sentence(*arguments) == refusal.format(folder=folder)


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
    assert done.stdout.startswith("Skew of carrier: 6 rows on 200 tasks;")
    assert done.stdout.endswith("status 0\nstatus 2\n")
    assert sorted(path.name for path in folder.iterdir()) == ["delays.sql", "flights.csv"]
