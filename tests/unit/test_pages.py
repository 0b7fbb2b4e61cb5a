"""The commands of the README and of the site exist, and the tables say what the code says."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import typer
from tests.docs.pages import PAGES, README, ROOT, blocks, reference

import saltwise
from saltwise import aggregates, datasets, simulate, streams
from saltwise.aggregates import bloom_filter, histogram, naive_bayes
from saltwise.cli.commands import app
from saltwise.placement.consistent_hash import ConsistentHash
from saltwise.placement.hash_pair import HashPair
from saltwise.placement.key_groups import KeyGroups
from saltwise.placement.partition_function import PartitionFunction, UniformHash
from saltwise.sketches.space_saving import SpaceSaving
from saltwise.strategies import ROUTING, STRATEGIES


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


def test_each_sentence_of_the_contracts_names_a_test_that_exists() -> None:
    named = re.findall(r"^\| .* \| (?:`(test_\w+)`|–) \|$", PAGES["docs/concepts/contracts.md"], re.MULTILINE)
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(named) > 12
    assert [name for name in named if name and f"def {name}(" not in tests] == []


def test_the_readme_is_short() -> None:
    assert len(README.read_text().splitlines()) <= 130


def test_the_first_answer_of_the_readme_is_about_sums_and_counts() -> None:
    [rows] = re.findall(r"^## Does it help me\?\n\n\|.*\n\|.*\n(.*)\n", README.read_text(), re.MULTILINE)
    assert rows.startswith("| `sum`, `count`")
    assert "| no |" in rows


def test_the_function_table_has_every_function_as_the_manifest_spells_it() -> None:
    manifest = json.loads((ROOT / "sql" / "functions.json").read_text())
    assert [function["signature"] for function in manifest] == re.findall(
        r"^\| `(\w+\(.*?\))` \|", reference("sql-functions.md"), re.MULTILINE
    )


def test_the_table_of_strategies_says_what_the_package_says() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \| (yes|no) \|$", PAGES["docs/concepts/plans.md"], re.MULTILINE)
    assert {name for name, *_ in rows} == {"auto", "split", "local", *ROUTING}
    for name, hot_key, other_key, order in rows:
        strategy = STRATEGIES[name]
        assert (hot_key, other_key, order == "yes") == (strategy.hot_key, strategy.other_key, strategy.looks_back), name


def test_the_command_line_page_has_every_command_and_option() -> None:
    sections = dict(
        re.findall(r"^## saltwise (\w+)\n(.*?)(?=^## |\Z)", reference("command-line.md"), re.DOTALL | re.MULTILINE)
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
    _, operators, reasons, metrics = re.split(r"^## .*$", reference("explain.md"), flags=re.MULTILINE)
    quoted = re.findall(r"^\| `([^`]+)` \|", reasons, re.MULTILINE)[1:]
    assert len(quoted) > 10
    for said in [piece for reason in quoted for piece in reason.split("…")]:
        assert said.strip(" ") in sources, said
    for name in re.findall(r"^\| `(Skew\w+|RepeatableOrder|\w+Partitions|SplitRead)", operators, re.MULTILINE):
        assert name in sources, name
    for metric in re.findall(r"(?<=[|,] )`([a-z ]+)`", metrics):
        assert f'"{metric}"' in sources, metric


def test_the_api_page_has_every_public_name() -> None:
    documented = set(re.findall(r"^::: ([\w.]+)$", reference("api.md"), re.MULTILINE))
    public = {f"saltwise.{name}" for name in saltwise.__all__ if not name.startswith("__")}
    public |= {f"saltwise.aggregates.{name}" for name in aggregates.__all__}
    for module in datasets, simulate, streams:
        own = {name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
        public |= {f"{module.__name__}.{name}" for name in own if not name.startswith("_")}
    beside_a_class = bloom_filter.might_contain, histogram.split_points, naive_bayes.classify
    functions = PartitionFunction, UniformHash, ConsistentHash, HashPair, KeyGroups
    public |= {f"{value.__module__}.{value.__name__}" for value in (*beside_a_class, *functions, SpaceSaving)}
    assert public <= documented


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    assert set(re.findall(r"[\w/-]+\.md$", navigation, re.MULTILINE)) == {
        page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")
    }
