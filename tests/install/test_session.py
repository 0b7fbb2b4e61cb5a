"""Starting Spark with the plugin, and what a session says it has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from pyspark.sql import SparkSession
from tests.agree import WithConf, lines_of_saltwise, plan_text

import saltwise
from saltwise import SaltwiseError
from saltwise.spark import session
from saltwise.spark.session import EXTENSION, jar_path


@pytest.fixture
def no_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make this process one where no Spark runs, and nothing but the builder has confs; return its SPARK_CONF_DIR."""
    monkeypatch.setattr(session, "confs_of_jvm", lambda: None)
    monkeypatch.setattr(session, "ensure_java", lambda: None)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    # Set and taken away, so that what configure sets is taken away after the test.
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "")
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS")
    return tmp_path


def confs_of(builder: Any) -> tuple[str | None, str]:
    """Return the jars and the extensions of a builder, with the plugin's by short names."""
    options = {key: value.replace(str(jar_path()), "ours") for key, value in builder._options.items()}
    return options.get("spark.jars"), options["spark.sql.extensions"].replace(EXTENSION, "Ours")


def submitted() -> str:
    """Return the arguments that the next Spark starts with, with the plugin's jar by a short name."""
    return os.environ["PYSPARK_SUBMIT_ARGS"].replace(str(jar_path()), "ours")


@pytest.mark.usefixtures("no_spark")
def test_configure_appends_to_the_jars_and_extensions_of_the_builder() -> None:
    builder = SparkSession.builder.config("spark.jars", "a.jar, b.jar").config("spark.sql.extensions", "x.Y")
    assert confs_of(saltwise.configure(builder)) == ("a.jar,b.jar,ours", "x.Y,Ours")
    assert "PYSPARK_SUBMIT_ARGS" not in os.environ


@pytest.mark.parametrize("arguments", ["pyspark-shell", "--jars a.jar pyspark-shell"])
def test_configure_twice_adds_the_plugin_once(no_spark: Path, arguments: str) -> None:
    os.environ["PYSPARK_SUBMIT_ARGS"] = arguments
    once = saltwise.configure(SparkSession.builder)
    confs, args = confs_of(once), submitted()
    assert confs_of(saltwise.configure(once)) == confs
    assert submitted() == args
    assert (confs[0], args) in ((None, "--jars a.jar,ours pyspark-shell"), ("ours", "pyspark-shell"))


def test_configure_keeps_the_extensions_of_spark_defaults(no_spark: Path) -> None:
    (no_spark / "spark-defaults.conf").write_text(
        "# ours\n! theirs\nspark.sql.extensions   io.delta.Ext,\\\n  x.Y\nspark.jars : d.jar\nspark.ui.port=1\n"
    )
    assert confs_of(saltwise.configure(SparkSession.builder)) == ("d.jar,ours", "io.delta.Ext,x.Y,Ours")


@pytest.mark.parametrize(
    ("arguments", "extensions"),
    [
        ("--properties-file {file} pyspark-shell", "of.File,Ours"),
        ("--properties-file={file} --load-spark-defaults pyspark-shell", "of.File,Ours"),
        ("--load-spark-defaults pyspark-shell", "of.Defaults,Ours"),
        ("--properties-file {file} -c spark.sql.extensions=a.B,c.D pyspark-shell", "a.B,c.D,Ours"),
        ("--conf 'spark.sql.extensions=a.B, c.D' --conf=spark.sql.extensions=e.F pyspark-shell", "e.F,Ours"),
        ("--conf spark.x=1 -v --driver-java-options '-Dx=1 -Dspark.sql.extensions=of.Java' shell", "of.Defaults,Ours"),
        ("pyspark-shell --conf spark.sql.extensions=of.Program", "of.Defaults,Ours"),
    ],
)
def test_configure_appends_to_the_extensions_that_spark_would_take(
    no_spark: Path, arguments: str, extensions: str
) -> None:
    (no_spark / "spark-defaults.conf").write_text("spark.sql.extensions of.Defaults")
    (no_spark / "mine.conf").write_text("spark.sql.extensions=of.File")
    os.environ["PYSPARK_SUBMIT_ARGS"] = arguments.format(file=no_spark / "mine.conf")
    assert confs_of(saltwise.configure(SparkSession.builder))[1] == extensions
    builder = SparkSession.builder.config("spark.sql.extensions", "of.Builder")
    assert confs_of(saltwise.configure(builder))[1] == "of.Builder,Ours"


def test_a_properties_file_hides_what_spark_defaults_say_unless_both_are_loaded(no_spark: Path) -> None:
    (no_spark / "spark-defaults.conf").write_text("spark.jars d.jar")
    (no_spark / "mine.conf").write_text("spark.sql.extensions=x.Y")
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--properties-file {no_spark / 'mine.conf'} pyspark-shell"
    assert confs_of(saltwise.configure(SparkSession.builder)) == ("ours", "x.Y,Ours")
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--load-spark-defaults {os.environ['PYSPARK_SUBMIT_ARGS']}"
    assert confs_of(saltwise.configure(SparkSession.builder)) == ("d.jar,ours", "x.Y,Ours")


@pytest.mark.parametrize("java", ["SPARK_SUBMIT_OPTS", "--driver-java-options", "spark.driver.extraJavaOptions"])
def test_configure_appends_to_properties_of_java(no_spark: Path, monkeypatch: pytest.MonkeyPatch, java: str) -> None:
    builder = SparkSession.builder
    if java == "SPARK_SUBMIT_OPTS":
        monkeypatch.setenv(java, "-Xss4m -Dspark.sql.extensions=x.Y -Dspark.jars=d.jar")
    elif java.startswith("--"):
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"{java} '-Dspark.jars=d.jar -Dspark.sql.extensions=x.Y' pyspark-shell"
    else:
        builder = builder.config(java, "-Dspark.sql.extensions=x.Y -Dspark.jars=d.jar")
    assert confs_of(saltwise.configure(builder)) == ("d.jar,ours", "x.Y,Ours")


@pytest.mark.parametrize(
    ("arguments", "of_builder", "jars", "expected"),
    [
        # Of two lists of jars, the driver takes the one of the arguments, and the executors that of the builder.
        ("--jars a.jar pyspark-shell", None, None, "--jars a.jar,ours pyspark-shell"),
        ("--jars a.jar -v --jars=b.jar pyspark-shell", None, None, "-v --jars b.jar,ours pyspark-shell"),
        (
            "--conf spark.jars=a.jar pyspark-shell",
            None,
            None,
            "--conf spark.jars=a.jar --jars a.jar,ours pyspark-shell",
        ),
        ("--jars a.jar pyspark-shell", "b.jar", "b.jar,ours", "--jars a.jar,ours pyspark-shell"),
        ("--jars 'a b.jar' --name '' my-job 1", None, None, "--name '' --jars 'a b.jar,ours' my-job 1"),
        # A jar of this name is the plugin, wherever it lies.
        ("--jars s3://j/{jar} my-job", None, None, "--jars s3://j/{jar} my-job"),
        # Spark-submit adds the jars of packages to those that it is given.
        ("--packages org:p:1 pyspark-shell", None, None, "--packages org:p:1 --jars ours pyspark-shell"),
        ("--packages org:p:1 pyspark-shell", "b.jar", "b.jar,ours", "--packages org:p:1 pyspark-shell"),
        ("--name x pyspark-shell", None, "ours", "--name x pyspark-shell"),
    ],
)
def test_the_jar_goes_where_driver_and_executors_look(
    no_spark: Path, arguments: str, of_builder: str | None, jars: str | None, expected: str
) -> None:
    os.environ["PYSPARK_SUBMIT_ARGS"] = arguments.format(jar=jar_path().name)
    builder = SparkSession.builder if of_builder is None else SparkSession.builder.config("spark.jars", of_builder)
    assert confs_of(saltwise.configure(builder)) == (jars, "Ours")
    assert submitted() == expected.format(jar=jar_path().name)


def test_packages_of_the_builder_or_of_a_file_keep_their_jars_and_those_of_the_file(no_spark: Path) -> None:
    (no_spark / "spark-defaults.conf").write_text("spark.jars d.jar")
    builder = saltwise.configure(SparkSession.builder.config("spark.jars.packages", "org:p:1"))
    assert "spark.jars" not in builder._options
    assert submitted() == "--jars d.jar,ours pyspark-shell"
    del os.environ["PYSPARK_SUBMIT_ARGS"]
    (no_spark / "spark-defaults.conf").write_text("spark.jars.packages org:p:1")
    assert "spark.jars" not in saltwise.configure(SparkSession.builder)._options
    assert submitted() == "--jars ours pyspark-shell"


def running(monkeypatch: pytest.MonkeyPatch, confs: dict[str, str], *, has_class: bool, submitted: bool) -> None:
    """Make this process one whose JVM runs with these confs, and has no session."""
    monkeypatch.setattr(session, "confs_of_jvm", lambda: confs)
    monkeypatch.setattr(session, "class_is_missing", lambda name: not has_class)
    monkeypatch.setattr(session, "is_submitted", lambda: submitted)
    monkeypatch.setattr(session, "spark_is_running", lambda: False)


SUBMITTED = {"spark.jars": "file:///a.jar,file:///p.jar", "spark.sql.extensions": "x.Y"}


def test_a_submitted_job_that_has_the_jar_keeps_its_jars_and_extensions(monkeypatch: pytest.MonkeyPatch) -> None:
    running(monkeypatch, SUBMITTED, has_class=True, submitted=True)
    assert confs_of(saltwise.configure(SparkSession.builder)) == (None, "x.Y,Ours")
    # Jars of the builder replace those for the executors, so the plugin's has to be among them.
    builder = SparkSession.builder.config("spark.jars", "b.jar")
    assert confs_of(saltwise.configure(builder)) == ("b.jar,ours", "x.Y,Ours")


def test_a_submitted_job_without_the_jar_is_told_what_to_add_and_nothing_is_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    running(monkeypatch, SUBMITTED, has_class=False, submitted=True)
    builder = SparkSession.builder.config("spark.x", "1")
    with pytest.raises(SaltwiseError) as error:
        saltwise.configure(builder)
    assert str(error.value) == (
        "This job was submitted without the Saltwise jar, and a driver that runs loads no more jars: "
        f"add {jar_path()} to the --jars of spark-submit, and set --conf spark.sql.extensions=x.Y,{EXTENSION}."
    )
    assert builder._options == {"spark.x": "1"}


def test_a_spark_that_runs_with_the_jar_but_without_the_extension_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    running(monkeypatch, SUBMITTED, has_class=True, submitted=False)
    monkeypatch.setattr(session, "spark_is_running", lambda: True)
    builder = SparkSession.builder
    with pytest.raises(SaltwiseError) as error:
        saltwise.configure(builder)
    assert str(error.value).startswith(
        "This process has started Spark already, which reads spark.jars and spark.sql.extensions only "
    )
    assert str(error.value).endswith(f" --jars {jar_path()} --conf spark.sql.extensions=x.Y,{EXTENSION}.")
    assert builder._options == {}


@pytest.mark.classic("read the JVM")
def test_configure_reads_the_confs_of_a_session_that_runs(spark: SparkSession) -> None:
    assert confs_of(saltwise.configure(SparkSession.builder)) == (None, "Ours")


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
        "This process has started Spark already, which reads spark.jars and spark.sql.extensions only when it starts: call "
        "saltwise.configure before the first session of this process (in a notebook: restart the kernel), or "
        f"start Spark with --jars {jar_path()} --conf spark.sql.extensions={EXTENSION}."
    )


BESIDE_OTHERS = """
import saltwise
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = saltwise.configure(builder).getOrCreate()
context = spark.sparkContext
jars = sorted(jar.rsplit("/", 1)[-1] for jar in context._jsc.sc().listJars().mkString(",").split(","))
loader = context._jvm.java.lang.Thread.currentThread().getContextClassLoader()
print(saltwise.status(spark).loaded, jars, loader.getResource("other.txt") is not None)
print(context.getConf().get("spark.sql.extensions"))
"""


def test_the_jars_and_extensions_of_submit_args_are_loaded_beside_the_plugin(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "other.jar", "w") as jar:
        jar.writestr("other.txt", "")
    arguments = f"--jars {tmp_path / 'other.jar'} --conf spark.sql.extensions=no.Such pyspark-shell"
    done = subprocess.run(
        [sys.executable, "-c", BESIDE_OTHERS],
        env=os.environ | {"PYSPARK_SUBMIT_ARGS": arguments},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == [f"True ['other.jar', '{jar_path().name}'] True", f"no.Such,{EXTENSION}"]
