"""Spark as it is installed: none, or one for which the jar is not made."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from saltwise import PluginMissingError, jar_path
from saltwise.spark.session import require_plugin


@pytest.mark.parametrize("missing", ["pyspark", "py4j"])
def test_without_pyspark_one_sentence_says_where_to_get_it(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; import saltwise"
    ended = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    assert ended.stderr.splitlines()[-1] == (
        f"saltwise._optional.OptionalPackageError: Saltwise needs {missing}: run pip install 'saltwise[spark]', or add "
        "the folder python of your Spark, and the py4j archive in its folder lib, to PYTHONPATH."
    )


def without_plugin(version: str, jars: str) -> Any:
    return SimpleNamespace(
        version=version,
        catalog=SimpleNamespace(functionExists=lambda name: False),
        conf=SimpleNamespace(get=lambda name, default: jars if name == "spark.jars" else default),
    )


@pytest.mark.parametrize(
    ("version", "jar", "scala"), [("3.5.9", "saltwise_2.13.jar", "2.13"), ("4.3.0", "saltwise_2.12.jar", "2.12")]
)
def test_a_jar_for_another_scala_is_named_with_the_one_to_use(version: str, jar: str, scala: str) -> None:
    with pytest.raises(PluginMissingError) as error:
        require_plugin(without_plugin(version, f"/jars/other.jar,/jars/{jar}"))
    assert str(error.value) == (
        f"{jar} is for Scala {scala}, and Spark {version} has another: use {jar_path(version)}."
    )


def test_a_session_with_the_right_jar_and_no_extension_is_told_how_to_start() -> None:
    with pytest.raises(PluginMissingError, match=r"^This session runs without the Saltwise extension: start it with "):
        require_plugin(without_plugin("4.3.0", "/jars/saltwise_2.13.jar"))
