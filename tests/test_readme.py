"""The README's code runs, and its tables say what the code says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def test_the_code_of_the_readme_runs(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    ran = 0
    for language, code in re.findall(r"```(python|sql)\n(.*?)```", README, re.DOTALL):
        if language == "python":
            exec(compile(code, "README.md", "exec"), names)
        else:
            assert spark.sql(code).collect(), code
        ran += 1
    spark.catalog.dropTempView("flights")
    spark.conf.unset("spark.saltwise.placement.enabled")  # which the README switches on
    assert ran == 14
    assert "Leave it alone" in capsys.readouterr().out or names["report"]


def test_the_conf_table_names_every_conf_with_its_default_and_version(spark: SparkSession) -> None:
    rows = spark.sql("SET -v").where("key LIKE 'spark.saltwise.%'").collect()
    documented = dict(re.findall(r"^\| `(spark\.saltwise\.[\w.]+)` \| .*? \| ([\d.]+) \|", README, re.MULTILINE))
    assert documented == {row["key"]: row["Since version"] for row in rows}


def test_the_function_table_names_every_function_as_the_manifest_does() -> None:
    manifest = json.loads((ROOT / "sql" / "functions.json").read_text())
    for function in manifest:
        assert f"| `{function['name']}(" in README
