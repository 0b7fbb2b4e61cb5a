"""The README's code runs, and its tables say what the code says."""

from __future__ import annotations

import doctest
import importlib
import json
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
MODULES = (
    *("choices", "errors", "explain", "groupby", "hashing", "loads", "options", "predict", "report", "session"),
    *("lossycounting", "reproduce", "reproduce.experiment", "simulate", "sketchformat", "slidingcounts"),
    *("adaptation", "albic", "clb", "cola", "elb", "flux", "keygroups", "milp", "reproduce.milp", "traffic", "uhlb"),
    *("spacesaving", "streams", "arrow", "calls", "functions", "mergeable", "routing", "udfs"),
    *("keyhash", "partition", "consistenthash", "hashpair", "partitionformat", "resources", "partitioncosts"),
    *("construction", "largestfirst", "keyweights", "placementhistory", "placementstore", "placing", "constructed"),
    *("analyze", "predictplacement", "sealed", "statefulaggregate", "keycolumns", "skewbatches", "aggregated"),
    *(
        "aggregator",
        "associativity",
        "bound",
        "combining",
        "merging",
        "sqlaggregate",
        "aggregates.columns",
        "aggregates.quantiles",
    ),
    *("aggregates.distinct", "aggregates.reservoir", "aggregates.topk", "aggregates.moments", "aggregates.regression"),
    *("aggregates.bloomfilter", "aggregates.naivebayes", "aggregates.histogram", "aggregates.heavyhitters"),
)


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


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_docstrings_run(spark: SparkSession, module: str) -> None:
    found = importlib.import_module(f"saltwise.{module}")
    df = spark.createDataFrame([("a",), ("a",), ("b",)], "k string")
    result = doctest.testmod(found, extraglobs={"spark": spark, "df": df, "F": F}, report=True)
    assert result.failed == 0
