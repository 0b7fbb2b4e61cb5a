"""Types as users meet them: mypy accepts the code of the docs, and the public API is typed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BENCHMARKS = sorted((ROOT / "benchmarks").glob("*.py"))

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

AS_USERS_HAVE_IT = {
    "allow_any_generics": "true",
    "allow_incomplete_defs": "true",
    "allow_subclassing_any": "true",
    "allow_untyped_calls": "true",
    "allow_untyped_decorators": "true",
    "allow_untyped_defs": "true",
    "check_untyped_defs": "true",
    "disable_error_code": "no-redef",
    "ignore_missing_imports": "true",
}
"""Options of mypy that users' code is checked with: they annotate what they like."""


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What mypy says of the code of the docs, of a wrong program, and of the benchmarks.

    All else is checked as `make lint` does, so mypy knows from there what pyspark and saltwise have.
    """
    folder = tmp_path_factory.mktemp("users")
    programs = {"wrong": PREFACE + WRONG}
    for page in PAGES:
        blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
        if blocks:
            name = "_".join(page.relative_to(ROOT).with_suffix("").parts).replace("-", "_")
            programs[name] = "\n".join([PREFACE, *blocks])
    assert len(programs) > 6
    (folder / "users").mkdir()
    for name, program in programs.items():
        (folder / "users" / f"{name}.py").write_text(program)
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    for section in [section for section in config.sections() if not section.startswith("mypy")]:
        config.remove_section(section)
    config["mypy"]["mypy_path"] = f"python, {folder}, benchmarks"
    config["mypy-users.*"] = AS_USERS_HAVE_IT
    with (folder / "mypy.ini").open("w") as file:
        config.write(file)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        arguments = ["--config-file", str(folder / "mypy.ini"), "--no-error-summary", "--no-pretty"]
        printed, trouble, _ = api.run([*arguments, str(folder / "users"), *map(str, BENCHMARKS)])
    assert not trouble
    return printed.splitlines()


def test_mypy_accepts_the_code_of_the_docs_and_refuses_wrong_options(complaints: list[str]) -> None:
    of_users = [line for line in complaints if "/users/" in line and ": error: " in line]
    assert [line for line in of_users if "/wrong.py:" not in line] == []
    assert len([line for line in of_users if 'No overload variant of "skew_groupby"' in line]) == 3, of_users


def test_benchmarks_use_only_names_that_exist(complaints: list[str]) -> None:
    assert [line for line in complaints if line.endswith("[attr-defined]")] == []


@pytest.mark.full
def test_pyright_finds_types_for_the_public_api() -> None:
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", "--ignoreexternal"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "python")}
    run = subprocess.run([*command, "--verifytypes", "saltwise"], capture_output=True, text=True, env=environment)
    score = json.loads(run.stdout)["typeCompleteness"]["completenessScore"]
    assert score >= 0.95
