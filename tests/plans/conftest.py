"""The rows of the differential tests as a view, and what Scala files of the tests define."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession
from tests.plans.events import EVENTS

import saltwise
from saltwise._java import find_java


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> Iterator[None]:
    spark.sql(EVENTS).createOrReplaceTempView("events")
    yield
    spark.catalog.dropTempView("events")


@pytest.fixture(scope="module")
def compiled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """Compiles a Scala file of this folder with the compiler that pyspark carries; returns the classes of the JVM."""

    def load(name: str) -> Any:
        classes = f"{Path(pyspark.__file__).parent / 'jars' / '*'}:{saltwise.jar_path(spark.version)}"
        jar = tmp_path_factory.mktemp("compiled") / f"{name}.jar"
        source = Path(__file__).with_name(f"{name}.scala")
        scalac = ["-Xss4m", "-cp", classes, "scala.tools.nsc.Main", "-usejavacp", "-d", str(jar), str(source)]
        subprocess.run([find_java().path, *scalac], check=True, capture_output=True)
        spark.sql(f"ADD JAR '{jar}'")
        return spark._jvm

    return load
