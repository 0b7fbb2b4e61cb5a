"""What setup.py compiles and what it puts into a jar; pip runs the whole of it."""

from __future__ import annotations

import io
import sys
import tarfile
from configparser import ConfigParser
from importlib.metadata import PackageNotFoundError
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load setup.py, without running it, over a project of one source on a machine with pyspark 4.3.0."""
    spec = spec_from_file_location("saltwise_setup", ROOT / "setup.py")
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in ("setup.py", "sql/functions.json", "plugin/src/One.scala", "python/saltwise/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "distribution", lambda name: SimpleNamespace(version="4.3.0"))
    return module


@pytest.fixture
def no_java(build: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the build find no Java."""

    def find_java() -> None:
        raise build.java.JavaNotFoundError("There is no Java.")

    monkeypatch.setattr(build.java, "find_java", find_java)


def class_that_calls(owner: str, name: str, kind: str) -> bytes:
    """Return the begin of a class file, with the constants Methodref(Class(owner), NameAndType(name, kind)).

    It extends the class that it calls.
    """
    texts = [b"\x01" + len(text).to_bytes(2, "big") + text.encode() for text in (owner, name, kind)]
    constants = b"".join(texts) + b"\x07\0\x01\x0c\0\x02\0\x03\x0a\0\x04\0\x05"
    return b"\xca\xfe\xba\xbe\0\0\0\x34\0\x07" + constants + b"\0\x21\0\x04\0\x04\0\0"


COMPILED = class_that_calls("org/apache/spark/SparkContext", "stop", "()V")


def write_jar(build: ModuleType, name: str, spark: str) -> Path:
    """Write the jar of the project as if its one class had just been compiled."""
    classes = build.ROOT / "classes"
    (classes / "org").mkdir(parents=True, exist_ok=True)
    (classes / "org" / "One.class").write_bytes(COMPILED)
    jar: Path = build.ROOT / "python" / "saltwise" / "jars" / name
    jar.parent.mkdir(exist_ok=True)
    build.write_jar(jar, classes, build.digest_of(build.scala_sources(jar), spark))
    return jar


def write_both_jars(build: ModuleType) -> Path:
    """Write both jars as the build would, and return their folder."""
    write_jar(build, "saltwise_2.12.jar", build.lines.OLDEST)
    return write_jar(build, "saltwise_2.13.jar", "4.3.0").parent


def test_a_jar_holds_the_classes_the_manifest_of_functions_and_the_version(build: ModuleType) -> None:
    jar = write_jar(build, "saltwise_2.13.jar", "4.3.0")

    with ZipFile(jar) as archive:
        assert archive.namelist() == [
            "META-INF/MANIFEST.MF",
            "META-INF/services/org.apache.spark.status.AppHistoryServerPlugin",
            "saltwise/functions.json",
            "saltwise/version.txt",
            "saltwise/links.txt",
            "saltwise/digest.txt",
            "org/One.class",
        ]
        assert archive.read("saltwise/functions.json") == b"{}"
        assert archive.read("saltwise/version.txt").decode() == build.version
        assert archive.read("saltwise/links.txt") == b"class\torg.apache.spark.SparkContext\tstop()V\nours\torg.One\n"
        assert archive.read("org/One.class") == COMPILED


def test_the_same_classes_make_the_same_jar(build: ModuleType) -> None:
    first = write_jar(build, "saltwise_2.13.jar", "4.3.0").read_bytes()

    assert write_jar(build, "saltwise_2.13.jar", "4.3.0").read_bytes() == first


@pytest.mark.usefixtures("no_java")
def test_jars_of_the_same_sources_are_not_compiled_again(build: ModuleType) -> None:
    jars = write_both_jars(build)

    build.build_jars()

    assert sorted(jar.name for jar in jars.iterdir()) == ["saltwise_2.12.jar", "saltwise_2.13.jar"]


@pytest.mark.usefixtures("no_java")
@pytest.mark.parametrize("name", ["plugin/src/One.scala", "plugin/src/a/Two.scala", "sql/functions.json", "setup.py"])
def test_a_changed_source_is_compiled_and_asks_for_a_java(build: ModuleType, name: str) -> None:
    write_both_jars(build)
    (build.ROOT / name).parent.mkdir(exist_ok=True)
    (build.ROOT / name).write_text("{ }")

    with pytest.raises(build.JarError) as refusal:
        build.build_jars()

    assert str(refusal.value) == "There is no Java."


@pytest.mark.usefixtures("no_java")
def test_a_jar_made_by_other_means_is_compiled_again(build: ModuleType) -> None:
    jar = write_both_jars(build) / "saltwise_2.13.jar"
    with ZipFile(jar, "w") as archive:
        archive.writestr("org/One.class", b"compiled")

    with pytest.raises(build.JarError) as refusal:
        build.build_jars()

    assert str(refusal.value) == "There is no Java."


def test_a_source_of_one_scala_version_goes_into_that_jar_only(build: ModuleType) -> None:
    shim = build.ROOT / "plugin" / "scala-2.12" / "Shim.scala"
    shim.parent.mkdir()
    shim.touch()

    assert build.scala_sources(Path("saltwise_2.12.jar")) == [
        shim,
        build.ROOT / "plugin" / "src" / "One.scala",
    ]
    assert build.scala_sources(Path("saltwise_2.13.jar")) == [build.ROOT / "plugin" / "src" / "One.scala"]


def test_a_checkout_without_the_plugin_is_refused(build: ModuleType) -> None:
    (build.ROOT / "plugin" / "src" / "One.scala").unlink()

    with pytest.raises(build.JarError) as refusal:
        build.build_jars()

    assert str(refusal.value) == (f"{build.ROOT}/plugin/src holds no Scala sources: build from a whole checkout.")


def test_a_third_jar_is_refused(build: ModuleType) -> None:
    jars = write_both_jars(build)
    (jars / "other.jar").touch()

    with pytest.raises(build.JarError) as refusal:
        build.build_jars()

    assert str(refusal.value) == (
        f"{jars} holds other.jar, saltwise_2.12.jar, saltwise_2.13.jar, but only saltwise_2.12.jar and "
        f"saltwise_2.13.jar belong there: remove the others and build again."
    )


def test_a_pyspark_of_another_scala_version_is_refused(build: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "distribution", lambda name: SimpleNamespace(version="3.5.9"))

    with pytest.raises(build.JarError) as refusal:
        build.installed_spark()

    assert str(refusal.value) == (
        "saltwise_2.13.jar is compiled by pyspark 4.x, but 3.5.9 is installed: "
        "run pip install pyspark==4.3.0, or build without --no-build-isolation."
    )


def test_a_missing_pyspark_is_refused(build: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def distribution(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(build, "distribution", distribution)

    with pytest.raises(build.JarError) as refusal:
        build.installed_spark()

    assert str(refusal.value) == (
        "saltwise_2.13.jar is compiled by pyspark 4.x, but no pyspark is installed: "
        "run pip install pyspark==4.3.0, or build without --no-build-isolation."
    )


def test_a_scala_error_ends_in_one_sentence_and_leaves_no_jar(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build.java, "find_java", lambda: SimpleNamespace(path="false"))
    monkeypatch.setattr(build, "installed_jars", lambda: build.ROOT)
    jar = build.ROOT / "saltwise_2.13.jar"

    with pytest.raises(build.JarError) as refusal:
        build.build_jar(jar, "4.3.0")

    assert (
        str(refusal.value)
        == "saltwise_2.13.jar does not compile against Spark 4.3.0: the messages of scalac are above."
    )
    assert not jar.exists()


def test_a_download_that_fails_ends_in_one_sentence_and_leaves_nothing(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "false")

    with pytest.raises(build.JarError) as refusal:
        build.downloaded_jars("3.5.9")

    assert str(refusal.value) == (
        "saltwise_2.12.jar needs pyspark 3.5.9, which pip cannot download: its message is above."
    )
    assert list((build.ROOT / "build").iterdir()) == []


def test_only_the_jars_of_a_pyspark_are_unpacked(build: ModuleType) -> None:
    sdist = build.ROOT / "pyspark-3.5.9.tar.gz"
    with tarfile.open(sdist, "w:gz") as archive:
        for name in ("setup.py", "deps/jars/a.jar", "deps/jars/b.txt", "deps/examples/c.jar"):
            member = tarfile.TarInfo(f"pyspark-3.5.9/{name}")
            member.size = 3
            archive.addfile(member, io.BytesIO(b"abc"))

    build.unpack_jars(sdist, build.ROOT / "jars")

    assert [jar.name for jar in (build.ROOT / "jars").iterdir()] == ["a.jar"]
    assert (build.ROOT / "jars" / "a.jar").read_bytes() == b"abc"


@pytest.mark.usefixtures("no_java")
def test_a_build_without_java_takes_the_one_of_the_java_extra(build: ModuleType) -> None:
    setup_cfg = ConfigParser()
    setup_cfg.read(ROOT / "setup.cfg")

    assert build.java_requirements() == [setup_cfg["options.extras_require"]["java"].strip()]


def test_pip_builds_with_the_newest_supported_pyspark(build: ModuleType) -> None:
    assert f'"pyspark=={build.lines.NEWEST}"' in (ROOT / "pyproject.toml").read_text()
