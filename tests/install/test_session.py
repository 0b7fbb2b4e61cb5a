"""Starting Spark with the plugin, and what a session says it has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.agree import WithConf, lines_of_saltwise, plan_text

import saltwise
from saltwise import SaltwiseError
from saltwise.spark.session import EXTENSION, jar_path


def test_configure_appends_to_the_jars_and_extensions_of_the_builder(spark: SparkSession) -> None:
    builder = SparkSession.builder.config("spark.jars", "a.jar, b.jar").config("spark.sql.extensions", "x.Y")
    options = saltwise.configure(builder)._options
    assert options["spark.jars"] == f"a.jar,b.jar,{jar_path()}"
    assert options["spark.sql.extensions"] == f"x.Y,{EXTENSION}"


def test_configure_twice_adds_the_plugin_once(spark: SparkSession) -> None:
    options = saltwise.configure(saltwise.configure(SparkSession.builder))._options
    assert options["spark.jars"] == str(jar_path())
    assert options["spark.sql.extensions"] == EXTENSION


def test_configure_keeps_the_extensions_of_spark_defaults(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spark-defaults.conf").write_text("# ours\nspark.sql.extensions   io.delta.Ext\nspark.jars=d.jar\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    options = saltwise.configure(SparkSession.builder)._options
    assert options["spark.sql.extensions"] == f"io.delta.Ext,{EXTENSION}"
    assert options["spark.jars"] == f"d.jar,{jar_path()}"


@pytest.mark.smoke
def test_status_tells_what_the_session_has(spark: SparkSession) -> None:
    status = saltwise.status(spark)
    assert (status.loaded, status.plugin_version) == (True, saltwise.__version__)
    assert (status.enabled, status.strategy) == (False, "auto")
    assert str(status).splitlines()[:2] == ["loaded           True", f"plugin_version   {saltwise.__version__}"]
    assert "<th>spark_version</th>" in status._repr_html_()


@pytest.mark.parametrize(
    ("confs", "enabled"),
    [
        ({"enabled": "True"}, True),
        ({"enabled": " true "}, True),
        ({"mode": "on"}, True),
        ({"mode": "ON"}, True),
        ({"mode": "off", "enabled": "true"}, False),
        ({"mode": "Observe", "enabled": "true"}, False),
    ],
)
def test_status_reads_the_switches_as_spark_does(
    spark: SparkSession, with_conf: WithConf, confs: dict[str, str], enabled: bool
) -> None:
    with with_conf({f"spark.saltwise.{name}": value for name, value in confs.items()}):
        assert saltwise.status(spark).enabled is enabled
        group = spark.sql("SELECT id % 3 AS k, percentile(id, 0.5) FROM range(9) GROUP BY 1")
        assert bool(lines_of_saltwise(plan_text(group))) is enabled


def test_status_spells_the_strategy_as_the_docs_do(spark: SparkSession, with_conf: WithConf) -> None:
    with with_conf({"spark.saltwise.strategy": "PKG"}):
        assert saltwise.status(spark).strategy == "pkg"


def test_a_spark_without_a_plugin_is_named_with_those_that_have_one() -> None:
    with pytest.raises(SaltwiseError) as error:
        jar_path("3.4.1")
    assert str(error.value) == (
        "Spark is 3.4.1, and Saltwise has plugins for 3.5, 4.0, 4.1, 4.2, 4.3: install one of these."
    )


TOO_LATE = """
import saltwise
from pyspark.sql import SparkSession

plain = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
assert not saltwise.status(plain).loaded
try:
    saltwise.configure(SparkSession.builder)
except saltwise.SaltwiseError as error:
    print(error)
"""


# tests/plans/test_off_means_off.py asks for the same in a session that it needs anyway.
@pytest.mark.full
def test_configure_after_spark_has_started_says_what_to_do() -> None:
    saltwise._java.ensure_java()
    done = subprocess.run(
        [sys.executable, "-c", TOO_LATE], env=dict(os.environ), capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == (
        "Spark is running already and reads spark.jars only when it starts: call saltwise.configure before the "
        "first session of this process (in a notebook: restart the kernel)."
    )
