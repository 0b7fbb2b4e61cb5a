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
from .compat import builder_options, class_is_missing, confs_of_jvm, is_submitted, spark_is_running
from .launch import SubmitArguments, default_confs, set_jars

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

_JAR_FOLDER = Path(__file__).parent.parent / "jars"
_JARS = "spark.jars"
_EXTENSIONS = "spark.sql.extensions"


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
    jar = _JAR_FOLDER / f"saltwise_{SPARK_LINES[line][1]}.jar"
    if not jar.is_file():
        raise SaltwiseError(f"{jar.name} is missing from the installed package: install saltwise again.")
    return jar


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Add the plugin to a session builder, beside the jars and extensions that the session has from anywhere else.

    They may be in the builder, in ``PYSPARK_SUBMIT_ARGS``, in a file of properties such as spark-defaults.conf, or come
    by spark-submit. Where ``PYSPARK_SUBMIT_ARGS`` names jars, or Spark loads packages, the plugin's jar goes into
    ``PYSPARK_SUBMIT_ARGS``, because jars of the builder would not be loaded, or replace those of the packages.

    This works for a classic session and for ``builder.remote("local[*]")``. Call it before the first session of the
    process starts, because Spark reads ``spark.jars`` only then. The driver of ``spark-submit`` runs before the job
    does. So such a job needs the plugin's jar in ``--jars``, and this adds the extension. For a server that runs
    elsewhere (``sc://host``) the builder is returned unchanged. That server was started with or without the plugin,
    and :func:`status` says which.

    Args:
        builder: such as ``SparkSession.builder``. It is changed and returned.

    Raises:
        SaltwiseError: Spark is running already without the plugin, or there is no plugin for this Spark. Nothing has
            been changed.
        JavaNotFoundError: there is no Java 17 or later.

    >>> import saltwise
    >>> from pyspark.sql import SparkSession
    >>> spark = saltwise.configure(SparkSession.builder.master("local[2]")).getOrCreate()
    >>> saltwise.status(spark).loaded
    True
    """
    chosen = builder_options(builder)
    remote = str(chosen.get("spark.remote", os.environ.get("SPARK_REMOTE", "")))
    if remote.startswith("sc://"):
        return builder
    running = confs_of_jvm()
    if running is not None:
        extensions = _with_extension((running | chosen).get(_EXTENSIONS))
        _check_loaded(running, extensions)
        jars = _with_jar(chosen[_JARS]) if _JARS in chosen else None
    else:
        ensure_java()
        given = SubmitArguments.given().confs()
        defaults = default_confs(given | chosen)
        extensions = _with_extension((defaults | given | chosen).get(_EXTENSIONS))
        jars = _with_jar((defaults | chosen).get(_JARS))
        has_packages = "spark.jars.packages" in defaults | given | chosen
        # The driver loads the jars of the arguments, and not those of the builder. Spark-submit adds the jars of
        # packages to the list that it finds, and spark.jars of the builder would replace that list for executors.
        if _JARS in given or (has_packages and _JARS not in chosen):
            set_jars(_with_jar((defaults | chosen | given).get(_JARS)))
            jars = jars if _JARS in chosen else None
    if jars is not None:
        builder = builder.config(_JARS, jars)
    return builder.config(_EXTENSIONS, extensions)


def _with_jar(jars: str | None) -> str:
    """Return a list of jars with the plugin's jar, unless a jar of its name is there."""
    entries = _entries(jars)
    jar = jar_path()
    return ",".join(entries if any(Path(entry).name == jar.name for entry in entries) else [*entries, str(jar)])


def _with_extension(extensions: str | None) -> str:
    """Return a list of extensions with the plugin's."""
    entries = _entries(extensions)
    return ",".join(entries if EXTENSION in entries else [*entries, EXTENSION])


def _entries(listed: str | None) -> list[str]:
    return [entry.strip() for entry in (listed or "").split(",") if entry.strip()]


def _check_loaded(running: dict[str, str], extensions: str) -> None:
    """Raise unless the next session of a JVM that runs can have the plugin.

    Args:
        running: the confs of the JVM.
        extensions: what the next session should have.
    """
    no_jar = class_is_missing(EXTENSION)
    if no_jar and is_submitted():
        raise SaltwiseError(
            f"This job was submitted without the Saltwise jar, and a driver that runs loads no more jars: add "
            f"{jar_path()} to the --jars of spark-submit, and set --conf {_EXTENSIONS}={extensions}."
        )
    if no_jar or (spark_is_running() and EXTENSION not in _entries(running.get(_EXTENSIONS))):
        raise SaltwiseError(
            f"This process has started Spark already, which reads {_JARS} and {_EXTENSIONS} only when it starts: call "
            "saltwise.configure before the first session of this process (in a notebook: restart the kernel), or "
            f"start Spark with --jars {jar_path()} --conf {_EXTENSIONS}={extensions}."
        )


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
        fitting = jar_path(spark.version)
        for jar in _entries(spark.conf.get(_JARS, None)):
            found = re.fullmatch(r"saltwise_(\d+\.\d+)\.jar", Path(jar).name)
            if found and Path(jar).name != fitting.name:
                raise PluginMissingError(
                    f"{found[0]} is for Scala {found[1]}, and Spark {spark.version} has another: use {fitting}."
                )
        raise PluginMissingError(
            "This session runs without the Saltwise extension: start it with "
            "saltwise.configure(SparkSession.builder).getOrCreate(), or with --jars "
            f"{fitting} --conf {_EXTENSIONS}={_with_extension(spark.conf.get(_EXTENSIONS, None))}."
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
