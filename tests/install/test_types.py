"""Types as users meet them: mypy accepts the code of the docs, and the public API is typed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

PREFACE = """\
from typing import Any
from pyspark.sql import DataFrame, SparkSession, functions as F
import saltwise
spark: SparkSession
flights: DataFrame
"""
"""What a page may take for given: the session, the table of flights."""

WRONG = """\
flights.skew_groupby("carrier", strategy="dchoise")
flights.skew_groupby("carrier", engine="arrow", strategy="auto")
flights.skew_groupby("carrier", engine="arrow", hot=["UA"])
"""


def checked(folder: Path, *sources: Path) -> str:
    """Return what mypy says of programs of users, who switch on the plugin, and annotate what they like."""
    config = folder / "mypy.ini"
    config.write_text(
        "[mypy]\nplugins = saltwise.mypy_plugin\nignore_missing_imports = true\ncheck_untyped_defs = true\n"
    )
    cache = ROOT / ".mypy_cache" / "users"
    arguments = ["--config-file", str(config), "--cache-dir", str(cache), "--scripts-are-modules"]
    said, trouble, _ = api.run([*arguments, "--disable-error-code=no-redef", *map(str, sources)])
    assert not trouble
    return said


def test_mypy_accepts_the_code_of_the_docs(tmp_path: Path) -> None:
    sources = []
    for page in PAGES:
        blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
        if blocks:
            source = tmp_path / f"{'_'.join(page.relative_to(ROOT).with_suffix('').parts).replace('-', '_')}.py"
            source.write_text("\n".join([PREFACE, *blocks]))
            sources.append(source)
    assert len(sources) > 5
    assert checked(tmp_path, *sources).startswith("Success")


def test_mypy_refuses_a_wrong_strategy_and_an_option_without_use(tmp_path: Path) -> None:
    source = tmp_path / "wrong.py"
    source.write_text(PREFACE + WRONG)
    said = checked(tmp_path, source)
    assert len(re.findall(r"error: No overload variant of \"skew_groupby\"", said)) == 3, said


@pytest.mark.full
def test_pyright_finds_types_for_the_public_api() -> None:
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", "--ignoreexternal"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "python")}
    run = subprocess.run([*command, "--verifytypes", "saltwise"], capture_output=True, text=True, env=environment)
    score = json.loads(run.stdout)["typeCompleteness"]["completenessScore"]
    assert score >= 0.95


def test_benchmarks_ask_only_for_what_there_is(tmp_path: Path) -> None:
    said = checked(tmp_path, *sorted((ROOT / "benchmarks").glob("*.py")))
    assert [line for line in said.splitlines() if line.endswith("[attr-defined]")] == []
