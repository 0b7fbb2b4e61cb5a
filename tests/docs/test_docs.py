"""The code of the README and of the site runs, its commands exist, and its tables say what the code says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from pyspark.sql import DataFrame, SparkSession

import saltwise
from saltwise import aggregates, datasets
from saltwise.cli.commands import app
from saltwise.strategies import ROUTING, STRATEGIES

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
README = ROOT / "README.md"
PAGES = {str(path.relative_to(ROOT)): path.read_text() for path in [README, *sorted(DOCS.rglob("*.md"))]}

CLASSIC = {
    "docs/tutorial/flights.md": "read the status store",
    "docs/how-to/moving-state.md": "steer a stream from the client",
}
"""Pages that a Connect session cannot run, and what it cannot do."""

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)

ROWS = [
    (carrier, f"N{i % 9}", origin, ("SFO", "ATL", None)[i % 3], 1 + i % 4, i % 24, None if i % 7 == 0 else i % 50 - 5)
    for i in range(300)
    for carrier, origin in [(("UA", "UA", "B6", "AA", "UA", "DL")[i % 6], ("EWR", "JFK")[i % 2])]
]
COLUMNS = "carrier string, tailnum string, origin string, dest string, month int, hour int, dep_delay int"


def blocks(*languages: str) -> dict[str, list[tuple[str, str]]]:
    """Return the blocks of code in these languages by page, of the pages that have any."""
    found = {page: [block for block in FENCE.findall(text) if block[0] in languages] for page, text in PAGES.items()}
    return {page: code for page, code in found.items() if code}


RUNNING = blocks("python", "sql")


@pytest.fixture
def flights(spark: SparkSession) -> Iterator[DataFrame]:
    """The table of the pages, few rows of it, and a session as it was before."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    df = spark.createDataFrame(ROWS, COLUMNS).selectExpr("*", "dep_delay + 1 AS arr_delay", "100 AS distance")
    df.createOrReplaceTempView("flights")
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
    page: str, spark: SparkSession, flights: DataFrame, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    some = datasets.flights().slice(0, 3000)
    monkeypatch.setattr(datasets, "flights", lambda: some)
    names: dict[str, object] = {"spark": spark, "flights": flights}
    for language, code in RUNNING[page]:
        if language == "python":
            exec(compile(code, page, "exec"), names)
        else:
            assert spark.sql(code).collect() or code.startswith("RESET"), code


def text(page: str) -> str:
    """Return a page of the reference."""
    return (REFERENCE / page).read_text()


def plain(value: str) -> float | str:
    """Return a default in a form that can be compared: seconds and bytes as numbers.

    >>> plain("2s"), plain("2000ms"), plain("1m"), plain("1e-4")
    (2.0, 2.0, 1048576.0, 0.0001)
    """
    units = {"": 1.0, "ms": 1e-3, "s": 1.0, "b": 1.0, "m": 1024.0**2}
    number = re.fullmatch(r"([\d.]+(?:[eE]-?\d+)?)(ms|s|b|m|)", value)
    return float(number[1]) * units[number[2]] if number else value


def lines(code: str) -> list[list[str]]:
    """Return the words of each command, without comments."""
    return [line.split("#")[0].split() for line in code.replace("\\\n", " ").splitlines() if line.strip()]


COMMANDS = {page: [line for _, code in found for line in lines(code)] for page, found in blocks("sh", "bash").items()}


@pytest.mark.parametrize("page", COMMANDS)
def test_the_commands_of_a_page_exist(page: str) -> None:
    for words in COMMANDS[page]:
        if words[0] == "saltwise":
            command = typer.main.get_command(app).commands[words[1]]  # type: ignore[attr-defined]
            options = {option for parameter in command.params for option in parameter.opts}
            assert {word for word in words if word.startswith("--")} <= options, words


def test_the_targets_and_the_scripts_that_pages_name_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page, text in PAGES.items():
        named = {words[1] for words in COMMANDS.get(page, []) if words[0] == "make"}
        assert named | set(re.findall(r"`make ([a-z-]+)", text)) <= targets, page
        for script in re.findall(r"(?:benchmarks|examples)/\w+\.(?:py|md|ipynb)\b", text):
            assert (ROOT / script).is_file(), f"{page}: {script}"


def test_the_readme_is_short() -> None:
    assert len(README.read_text().splitlines()) <= 130


def test_the_first_answer_of_the_readme_is_about_sums_and_counts() -> None:
    [rows] = re.findall(r"^## Does it help me\?\n\n\|.*\n\|.*\n(.*)\n", README.read_text(), re.MULTILINE)
    assert rows.startswith("| `sum`, `count`")
    assert "| no |" in rows


def test_the_conf_table_names_every_conf_with_its_default_and_version(spark: SparkSession) -> None:
    confs = spark.sql("SET -v").where("key LIKE 'spark.saltwise.%'").collect()
    table = re.findall(r"^\| `(spark\.saltwise\.[\w.]+)` \| (.*?) \| ([\d.]+) \|", text("confs.md"), re.MULTILINE)
    documented = {key: (default.strip("`"), since) for key, default, since in table}
    assert {key: since for key, (_, since) in documented.items()} == {row["key"]: row["Since version"] for row in confs}
    for row in confs:
        if row["value"] != "<undefined>":
            assert plain(documented[row["key"]][0]) == plain(row["value"]), row["key"]


def test_the_function_table_has_every_function_as_the_manifest_spells_it() -> None:
    manifest = json.loads((ROOT / "sql" / "functions.json").read_text())
    assert [function["signature"] for function in manifest] == re.findall(
        r"^\| `(\w+\(.*?\))` \|", text("sql-functions.md"), re.MULTILINE
    )


def test_the_table_of_strategies_says_what_the_package_says() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \| (yes|no) \|$", PAGES["docs/concepts/plans.md"], re.MULTILINE)
    assert {name for name, *_ in rows} == {"auto", "split", "local", *ROUTING}
    for name, hot_key, other_key, order in rows:
        strategy = STRATEGIES[name]
        assert (hot_key, other_key, order == "yes") == (strategy.hot_key, strategy.other_key, strategy.looks_back), name


def test_the_command_line_page_has_every_command_and_option() -> None:
    sections = dict(
        re.findall(r"^## saltwise (\w+)\n(.*?)(?=^## |\Z)", text("command-line.md"), re.DOTALL | re.MULTILINE)
    )
    commands: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert sections.keys() == commands.keys()
    for name, command in commands.items():
        options = {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
        assert set(re.findall(r"^\| `(--\w+)", sections[name], re.MULTILINE)) == options - {"--help"}, name


def test_the_reasons_and_the_metrics_are_those_of_the_plugin() -> None:
    sources = "\n".join(path.read_text() for path in (ROOT / "plugin").rglob("*.scala"))
    sources = re.sub(r'" \+\s+s?"', "", sources)
    # A constant that a text names is read as its value.
    for name, value in re.findall(r'\bval (\w+) = "([^"]+)"', sources):
        sources = sources.replace(f"${name} ", f"{value} ")
    _, operators, reasons, metrics = re.split(r"^## .*$", text("explain.md"), flags=re.MULTILINE)
    quoted = re.findall(r"^\| `([^`]+)` \|", reasons, re.MULTILINE)[1:]
    assert len(quoted) > 10
    for said in [piece for reason in quoted for piece in reason.split("…")]:
        assert said.strip(" ") in sources, said
    for name in re.findall(r"^\| `(Skew\w+|RepeatableOrder|\w+Partitions|SplitRead)", operators, re.MULTILINE):
        assert name in sources, name
    for metric in re.findall(r"(?<=[|,] )`([a-z ]+)`", metrics):
        assert f'"{metric}"' in sources, metric


def test_the_api_page_has_every_public_name() -> None:
    documented = set(re.findall(r"^::: ([\w.]+)$", text("api.md"), re.MULTILINE))
    public = {f"saltwise.{name}" for name in saltwise.__all__ if not name.startswith("__")}
    assert public | {f"saltwise.aggregates.{name}" for name in aggregates.__all__} <= documented


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    assert set(re.findall(r"[\w/-]+\.md$", navigation, re.MULTILINE)) == {
        page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")
    }
