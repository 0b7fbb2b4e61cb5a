"""What a Spark that this process starts is given beside the confs of its builder: arguments, files, environment.

pyspark starts each Spark by spark-submit. It hands the confs of the builder over as ``--conf``, and the arguments in
``PYSPARK_SUBMIT_ARGS`` behind them. Where a conf has several values, two programs choose:

* spark-submit decides what the driver loads. Its own options such as ``--jars`` come first, then the last ``--conf``,
  then the file of ``--properties-file``, or else spark-defaults.conf, then properties of Java. It adds the jars of
  packages to ``spark.jars``.
* The SparkContext decides everything else, such as which jars executors load and which extensions there are. It takes
  the confs of the builder over all that spark-submit has found.
"""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from .compat import spark_home

_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_CONFS = {
    "--driver-java-options": "spark.driver.extraJavaOptions",
    "--jars": "spark.jars",
    "--packages": "spark.jars.packages",
}
"""The conf that an option of spark-submit stands for, of those that matter here."""
_FLAGS = {"-h", "--help", "--load-spark-defaults", "--supervise", "--usage-error", "-v", "--verbose", "--version"}
"""The options of spark-submit that take no value."""


@dataclass(frozen=True)
class SubmitArguments:
    """The arguments in ``PYSPARK_SUBMIT_ARGS``.

    >>> arguments = SubmitArguments.parse("--jars a.jar --conf spark.x=1 -v pyspark-shell")
    >>> arguments.confs()
    {'spark.x': '1', 'spark.jars': 'a.jar'}
    >>> arguments.with_jars("a.jar,b.jar")
    '--conf spark.x=1 -v --jars a.jar,b.jar pyspark-shell'
    """

    options: list[tuple[str, str | None]]
    """Each option and its value; None for a flag."""
    program: list[str]
    """What stands behind the options."""

    @classmethod
    def parse(cls, text: str) -> SubmitArguments:
        """Read arguments as spark-submit does."""
        rest = shlex.split(text)
        options: list[tuple[str, str | None]] = []
        while rest and rest[0].startswith("-"):
            option, equals, value = rest.pop(0).partition("=")
            if equals:
                options.append((option, value))
            else:
                options.append((option, None if option in _FLAGS or not rest else rest.pop(0)))
        return cls(options, rest)

    @classmethod
    def given(cls) -> SubmitArguments:
        """Return the arguments of this process."""
        return cls.parse(os.environ.get(_ARGUMENTS, "pyspark-shell"))

    def confs(self) -> dict[str, str]:
        """Return the confs that the arguments set."""
        pairs = [(value or "").partition("=") for option, value in self.options if option in ("-c", "--conf")]
        by_conf = {name: value for name, _, value in pairs}
        return by_conf | {_CONFS[option]: value or "" for option, value in self.options if option in _CONFS}

    def properties_file(self) -> Path | None:
        """Return the file of ``--properties-file``."""
        files = [Path(value or "") for option, value in self.options if option == "--properties-file"]
        return files[-1] if files else None

    def with_jars(self, jars: str) -> str:
        """Return the arguments as text, with other jars."""
        options = [*(each for each in self.options if each[0] != "--jars"), ("--jars", jars)]
        return shlex.join([part for each in options for part in each if part is not None] + self.program)


def set_jars(jars: str) -> None:
    """Make the next Spark of this process load these jars, and none that its arguments name."""
    os.environ[_ARGUMENTS] = SubmitArguments.given().with_jars(jars)


def default_confs(given: dict[str, str]) -> dict[str, str]:
    """Return the confs of files and of Java, which hold where neither arguments nor builder set one.

    Args:
        given: the confs of the arguments and of the builder.
    """
    arguments = SubmitArguments.given()
    of_spark = Path(os.environ.get("SPARK_CONF_DIR", Path(spark_home(), "conf")), "spark-defaults.conf")
    chosen = arguments.properties_file()
    files = [of_spark] if chosen is None or ("--load-spark-defaults", None) in arguments.options else []
    files += [chosen] if chosen is not None else []
    in_files = {name: value for path in files if path.is_file() for name, value in _properties(path).items()}
    java = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {(in_files | given).get('spark.driver.extraJavaOptions', '')}"
    return dict(re.findall(r"-D(spark\.[\w.]+)=(\S*)", java)) | in_files


def _properties(path: Path) -> dict[str, str]:
    """Read a file of properties as Java does, but for its escapes of letters."""
    joined = re.sub(r"\\\r?\n\s*", "", path.read_text(encoding="utf-8"))
    lines = (line.strip() for line in joined.splitlines())
    pairs = (re.split(r"\s*[\s=:]\s*", line, maxsplit=1) for line in lines if line and line[0] not in "#!")
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}
