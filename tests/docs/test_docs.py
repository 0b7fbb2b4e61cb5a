"""The code of the README and of the site runs, and the table of confs says what the session says."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.docs.pages import ROOT, blocks, reference

from saltwise import datasets

CLASSIC = {
    "docs/tutorial/flights.md": "read the status store",
    "docs/how-to/set-up.md": "start a session of its own",
    "docs/how-to/moving-state.md": "steer a stream from the client",
}
"""Pages that a Connect session cannot run, and what it cannot do."""

PRINTED = {"docs/how-to/see-the-skew.md": ("Rewritten: ", "Nothing was rewritten")}
"""What pages print, and what they must not print."""

ROWS = [
    (carrier, f"N{i % 9}", origin, ("SFO", "ATL", None)[i % 3], 1 + i % 4, i % 24, None if i % 7 == 0 else i % 50 - 5)
    for i in range(300)
    for carrier, origin in [(("UA", "UA", "B6", "AA", "UA", "DL")[i % 6], ("EWR", "JFK")[i % 2])]
]
COLUMNS = "carrier string, tailnum string, origin string, dest string, month int, hour int, dep_delay int"

RUNNING = blocks("python", "sql")


@pytest.fixture
def flights(spark: SparkSession) -> Iterator[DataFrame]:
    """The table of the pages, few rows of it, and a session as it was before."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    df = spark.createDataFrame(ROWS, COLUMNS).selectExpr("*", "dep_delay + 1 AS arr_delay", "100 AS distance")
    df.createOrReplaceTempView("flights")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    yield df
    for query in spark.streams.active:
        query.stop()
    spark.catalog.dropTempView("flights")
    spark.conf.set("spark.sql.shuffle.partitions", str(before))
    for row in spark.sql("SET").where("key LIKE 'spark.saltwise.%'").collect():
        spark.conf.unset(row["key"])


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.classic(CLASSIC[page])) if page in CLASSIC else page for page in RUNNING],
)
def test_the_code_of_a_page_runs(
    page: str,
    spark: SparkSession,
    flights: DataFrame,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    some = datasets.flights().slice(0, 3000)
    monkeypatch.setattr(datasets, "flights", lambda: some)
    names: dict[str, Any] = {"spark": spark, "flights": flights}
    for language, code in RUNNING[page]:
        if language == "python":
            # A million messages show the reader more than fewer do, and the test nothing more.
            exec(compile(code.replace("1_000_000", "50_000"), page, "exec"), names)
        else:
            assert spark.sql(code).collect() or code.startswith("RESET"), code
    wanted, unwanted = PRINTED.get(page, ("", "Traceback"))
    printed = capsys.readouterr().out
    assert wanted in printed
    assert unwanted not in printed


@pytest.mark.slow
@pytest.mark.classic("start a session of its own")
def test_the_tutorial_shows_what_its_code_prints() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.docs.tutorial", "--check"], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    assert done.returncode == 0, done.stderr


def plain(value: str) -> float | str:
    """Return a default in a form that can be compared: seconds and bytes as numbers.

    >>> plain("2s"), plain("2000ms"), plain("1m"), plain("1e-4")
    (2.0, 2.0, 1048576.0, 0.0001)
    """
    units = {"": 1.0, "ms": 1e-3, "s": 1.0, "b": 1.0, "m": 1024.0**2}
    number = re.fullmatch(r"([\d.]+(?:[eE]-?\d+)?)(ms|s|b|m|)", value)
    return float(number[1]) * units[number[2]] if number else value


def test_the_conf_table_names_every_conf_with_its_default_and_version(spark: SparkSession) -> None:
    confs = spark.sql("SET -v").where("key LIKE 'spark.saltwise.%'").collect()
    table = re.findall(r"^\| `(spark\.saltwise\.[\w.]+)` \| (.*?) \| ([\d.]+) \|", reference("confs.md"), re.MULTILINE)
    documented = {key: (default.strip("`"), since) for key, default, since in table}
    assert {key: since for key, (_, since) in documented.items()} == {row["key"]: row["Since version"] for row in confs}
    for row in confs:
        if row["value"] != "<undefined>":
            assert plain(documented[row["key"]][0]) == plain(row["value"]), row["key"]
