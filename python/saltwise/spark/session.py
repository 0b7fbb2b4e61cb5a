"""Starts Spark with the Saltwise extension, checks whether a session has it, and reads and sets confs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from .._java import ensure_java
from .._spark_lines import SPARK_LINES
from .._version import __version__
from ..conf_words import mode_of, word
from ..errors import PluginMissingError, SaltwiseError
from ..options import SPELLED
from ..tables import Printable
from .compat import builder_options, class_is_missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXTENSION = "org.apache.spark.sql.saltwise.SaltwiseExtensions"

CONF_OF_OPTION = {
    name: f"spark.saltwise.{SPELLED.get(name, name)}"
    for name in ("strategy", "partitions", "theta", "epsilon", "choices", "sketch_capacity", "cost")
}
"""The conf of each option of skew_groupby that Python reads. The plugin reads all confs."""

MEASURED = {"spark.saltwise.measured": "true"}
"""The confs of what Saltwise itself runs to measure a query. Such runs are no savings."""

_JARS = Path(__file__).parent.parent / "jars"


def jar_path(spark_version: str = pyspark.__version__) -> Path:
    """Return the plugin's jar for a Spark version, for `spark-submit --jars`.

    Args:
        spark_version: such as ``pyspark.__version__``.

    Raises:
        SaltwiseError: there is no jar for this version.

    >>> jar_path("4.3.0").name
    'saltwise_2.13.jar'
    """
    line = ".".join(spark_version.split(".")[:2])
    if line not in SPARK_LINES:
        raise SaltwiseError(
            f"Spark is {spark_version}, and Saltwise has plugins for {', '.join(SPARK_LINES)}: install one of these."
        )
    jar = _JARS / f"saltwise_{SPARK_LINES[line][1]}.jar"
    if not jar.is_file():
        raise SaltwiseError(f"{jar.name} is missing from the installed package: install saltwise again.")
    return jar


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Add the plugin to a session builder. The builder keeps the jars and extensions that it has already.

    This works for a classic session and for ``builder.remote("local[*]")``. Call it before the first session of the
    process starts, because Spark reads ``spark.jars`` only then. For a server that runs elsewhere (``sc://host``) the
    builder is returned unchanged. That server was started with or without the plugin, and :func:`status` says which.

    Args:
        builder: such as ``SparkSession.builder``. It is changed and returned.

    Raises:
        SaltwiseError: Spark is running already without the plugin, or there is no plugin for this Spark.
        JavaNotFoundError: there is no Java 17 or later.

    >>> import saltwise
    >>> from pyspark.sql import SparkSession
    >>> spark = saltwise.configure(SparkSession.builder.master("local[2]")).getOrCreate()
    >>> saltwise.status(spark).loaded
    True
    """
    remote = str(builder_options(builder).get("spark.remote", os.environ.get("SPARK_REMOTE", "")))
    if remote.startswith("sc://"):
        return builder
    ensure_java()
    jar = str(jar_path())
    if class_is_missing(EXTENSION):
        raise SaltwiseError(
            "Spark is running already and reads spark.jars only when it starts: call saltwise.configure before "
            "the first session of this process (in a notebook: restart the kernel)."
        )
    set_before = builder_options(builder)
    defaults = _spark_defaults()
    for key, value in (("spark.jars", jar), ("spark.sql.extensions", EXTENSION)):
        present = str(set_before.get(key, defaults.get(key, "")))
        entries = [entry.strip() for entry in present.split(",") if entry.strip()]
        if value not in entries:
            entries.append(value)
        builder = builder.config(key, ",".join(entries))
    return builder


@dataclass(frozen=True)
class Status(Printable):
    """Whether a session has Saltwise, and its settings. Prints as a small table, in a notebook as HTML."""

    loaded: bool
    """Whether the session has the extension."""
    plugin_version: str | None
    """Version of the extension; None if it is not loaded."""
    package_version: str
    """Version of the Python package."""
    spark_version: str
    enabled: bool
    """Whether GROUP BYs without a hint are rewritten, by spark.saltwise.mode or spark.saltwise.enabled."""
    strategy: str | None
    """The strategy of spark.saltwise.strategy; None if the extension is not loaded."""


def status(spark: SparkSession) -> Status:
    """Return whether a session has really loaded the plugin, its version, and whether it is on.

    >>> print(status(spark).plugin_version)  # doctest: +SKIP
    0.1.0
    """
    version = None
    if plugin_loaded(spark):
        [(version,)] = spark.sql("SELECT saltwise_version()").collect()
    return Status(
        loaded=version is not None,
        plugin_version=version,
        package_version=__version__,
        spark_version=spark.version,
        enabled=version is not None and mode_of(lambda name: spark.conf.get(name, None)) == "on",
        strategy=None if version is None else word(spark.conf.get("spark.saltwise.strategy", "auto")),
    )


def plugin_loaded(spark: SparkSession) -> bool:
    """Return whether the session has the extension's functions. If the extension is missing, Spark only warns."""
    return spark.catalog.functionExists("saltwise_version")


def session_options(spark: SparkSession) -> dict[str, str]:
    """Return the options of skew_groupby that a session sets, by their Python names. "partitions" is always there."""
    values = {option: spark.conf.get(conf, None) for option, conf in CONF_OF_OPTION.items()}
    partitions = str(spark.conf.get("spark.sql.shuffle.partitions"))
    return {"partitions": partitions} | {option: value for option, value in values.items() if value}


def require_plugin(spark: SparkSession) -> None:
    """Raise PluginMissingError if the session has no plugin. The message says how to get it."""
    if not plugin_loaded(spark):
        raise PluginMissingError(
            "This session runs without the Saltwise extension: start it with "
            "saltwise.configure(SparkSession.builder).getOrCreate(), or with --jars "
            f"{jar_path(spark.version)} --conf spark.sql.extensions={EXTENSION}."
        )


@contextmanager
def confs(spark: SparkSession, values: dict[str, str]) -> Iterator[None]:
    """Set confs inside of a `with` block, and restore them after it."""
    before = {name: spark.conf.get(name, None) for name in values}
    try:
        for name, value in values.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def _spark_defaults() -> dict[str, str]:
    """Return the values of spark-defaults.conf. A builder does not know them, so it would replace them."""
    home = os.environ.get("SPARK_HOME", str(Path(pyspark.__file__).parent))
    path = Path(os.environ.get("SPARK_CONF_DIR", Path(home, "conf")), "spark-defaults.conf")
    if not path.is_file():
        return {}
    lines = (line.strip() for line in path.read_text().splitlines())
    pairs = (re.split(r"[\s=]+", line, maxsplit=1) for line in lines if line and not line.startswith("#"))
    return {pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2}
