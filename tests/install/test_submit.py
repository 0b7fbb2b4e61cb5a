"""Existing jobs, started by spark-submit and spark-sql with confs alone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from zipfile import ZipFile

import pyspark
import pytest

import saltwise
from saltwise._java import ensure_java
from saltwise.advise.event_log import event_logs
from saltwise.spark.session import EXTENSION

pytestmark = pytest.mark.slow

QUERY = "SELECT k, size(collect_list(id)) AS n FROM (SELECT id % 7 AS k, id FROM range(1000)) GROUP BY k"
VERSION = "SELECT saltwise_version()"
JOB = f"""
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.builder.getOrCreate()
df = spark.range(1000).select((F.col("id") % 7).alias("k"), "id")
lists = df.groupBy("k").agg(F.collect_list("id").alias("ids"))
for grouped in lists, spark.sql({QUERY!r}):
    grouped.explain()
print("rows", sorted((row.k, len(row.ids)) for row in lists.collect())[0])
print("rows", sorted(map(tuple, spark.sql({QUERY!r}).collect()))[0])
print("version", spark.sql({VERSION!r}).first()[0])
"""


def submit(program: str, *arguments: str, folder: Path) -> str:
    """Run one of Spark's programs with the plugin on, but not its reports; return what it prints."""
    ensure_java()
    home = Path(pyspark.__file__).parent
    (folder / "events").mkdir()
    confs = {
        "spark.sql.extensions": "org.apache.spark.sql.saltwise.SaltwiseExtensions",
        "spark.saltwise.enabled": "true",
        "spark.saltwise.strategy": "split",
        "spark.saltwise.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "3",
        "spark.ui.enabled": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        # The catalog of Hive takes longer to start than Spark does.
        "spark.sql.catalogImplementation": "in-memory",
    }
    settings = [part for key, value in confs.items() for part in ("--conf", f"{key}={value}")]
    command = [str(home / "bin" / program), "--master", "local[2]", "--jars", str(saltwise.jar_path())]
    done = subprocess.run(
        [*command, *settings, *arguments],
        cwd=folder,
        env=os.environ | {"SPARK_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_an_unchanged_job_is_rewritten_under_spark_submit(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    out = submit("spark-submit", str(tmp_path / "job.py"), folder=tmp_path)
    assert out.count("SkewSplit [k#") == 2
    assert out.count("], split, n=3") == 2
    assert out.count("rows (0, 143)") == 2
    assert f"version {saltwise.__version__}" in out
    [log] = event_logs(tmp_path / "events")
    assert not any(b"saltwise.report" in line for line in log.lines())


# The job above runs the same query by confs alone, and spark-sql is started by spark-submit.
@pytest.mark.full
def test_an_unchanged_query_is_rewritten_under_spark_sql(tmp_path: Path) -> None:
    out = submit("spark-sql", "-e", f"EXPLAIN {QUERY}; {QUERY} ORDER BY k; {VERSION}", folder=tmp_path)
    assert "], split, n=3" in out
    assert "0\t143" in out
    assert out.rstrip().endswith(saltwise.__version__)


CONFIGURES = """
import saltwise
from pyspark.sql import SparkSession

spark = saltwise.configure(SparkSession.builder).getOrCreate()
conf = spark.sparkContext.getConf()
print(saltwise.status(spark).loaded, *(jar.rsplit("/", 1)[-1] for jar in conf.get("spark.jars").split(",")))
print(conf.get("spark.sql.extensions"))
"""


# test_session.py asks the same of the confs alone.
@pytest.mark.full
def test_configure_adds_the_extension_to_those_of_a_submitted_job(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(CONFIGURES)
    with ZipFile(tmp_path / "other.jar", "w") as jar:
        jar.writestr("other.txt", "")
    jars, extensions = f"{tmp_path / 'other.jar'},{saltwise.jar_path()}", "spark.sql.extensions=no.Such"
    out = submit("spark-submit", "--jars", jars, "--conf", extensions, str(tmp_path / "job.py"), folder=tmp_path)
    assert out.splitlines()[-2:] == [f"True other.jar {saltwise.jar_path().name}", f"no.Such,{EXTENSION}"]
