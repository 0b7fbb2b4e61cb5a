"""Existing jobs, started by spark-submit and spark-sql with confs alone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pyspark
import pytest

import saltwise
from saltwise._java import ensure_java

JOB = """
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.builder.getOrCreate()
df = spark.range(1000).select((F.col("id") % 7).alias("k"), "id")
lists = df.groupBy("k").agg(F.collect_list("id").alias("ids"))
lists.explain()
print("rows", sorted((row.k, len(row.ids)) for row in lists.collect())[0])
"""


def submit(program: str, *arguments: str, folder: Path) -> str:
    """Run one of Spark's programs with the plugin on; return what it prints."""
    ensure_java()
    home = Path(pyspark.__file__).parent
    confs = {
        "spark.sql.extensions": "org.apache.spark.sql.saltwise.SaltwiseExtensions",
        "spark.saltwise.enabled": "true",
        "spark.saltwise.strategy": "split",
        "spark.sql.shuffle.partitions": "3",
        "spark.ui.enabled": "false",
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


@pytest.mark.slow
def test_an_unchanged_job_is_rewritten_under_spark_submit(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(JOB)
    out = submit("spark-submit", str(job), folder=tmp_path)
    assert "SkewSplit [k#" in out
    assert "], split, n=3" in out
    assert "rows (0, 143)" in out


@pytest.mark.slow
def test_an_unchanged_query_is_rewritten_under_spark_sql(tmp_path: Path) -> None:
    query = "SELECT k, size(collect_list(id)) AS n FROM (SELECT id % 7 AS k, id FROM range(1000)) GROUP BY k"
    out = submit("spark-sql", "-e", f"EXPLAIN {query}; {query} ORDER BY k; SELECT saltwise_version()", folder=tmp_path)
    assert "], split, n=3" in out
    assert "0\t143" in out
    assert out.rstrip().endswith(saltwise.__version__)
