"""What `make maven` makes is what Maven Central takes."""

from __future__ import annotations

import hashlib
import runpy
import sys
from pathlib import Path
from xml.etree import ElementTree
from zipfile import ZipFile

import pytest

import saltwise

MAVEN = Path(__file__).parents[2] / "plugin" / "maven.py"
POM = "{http://maven.apache.org/POM/4.0.0}"
NEEDED = ("name", "description", "url", "licenses/{0}license/{0}name", "developers/{0}developer/{0}name", "scm/{0}url")
"""What Central wants in a POM beside the coordinates."""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    folder = tmp_path_factory.mktemp("maven")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [str(MAVEN), "--url", "https://example.org/a&b", "--out", str(folder)])
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(MAVEN), run_name="__main__")
    assert end.value.code == 0
    return ZipFile(folder / f"saltwise-{saltwise.__version__}.zip")


@pytest.mark.parametrize("scala", ["2.12", "2.13"])
def test_each_jar_has_a_pom_its_sources_and_checksums(archive: ZipFile, scala: str) -> None:
    folder = f"io/github/saltwise/saltwise_{scala}/{saltwise.__version__}/"
    base = f"{folder}saltwise_{scala}-{saltwise.__version__}"
    files = {f"{base}{end}" for end in (".pom", ".jar", "-sources.jar", "-javadoc.jar")}
    names = {name for name in archive.namelist() if name.startswith(folder)}
    assert names == files | {f"{file}.{kind}" for file in files for kind in ("md5", "sha1", "sha256", "sha512")}
    for file in files:
        assert archive.read(f"{file}.sha1").decode() == hashlib.sha1(archive.read(file)).hexdigest()
    pom = ElementTree.fromstring(archive.read(f"{base}.pom"))
    assert [pom.findtext(f"{POM}{name}") for name in ("groupId", "artifactId", "version")] == [
        "io.github.saltwise",
        f"saltwise_{scala}",
        saltwise.__version__,
    ]
    assert all(pom.findtext(f"{POM}{path.format(POM)}") for path in NEEDED)
    assert pom.findtext(f"{POM}url") == "https://example.org/a&b"


def test_the_sources_are_those_that_the_jar_is_made_from(archive: ZipFile) -> None:
    [name] = [name for name in archive.namelist() if name.endswith("2.13-" + saltwise.__version__ + "-sources.jar")]
    with archive.open(name) as file, ZipFile(file) as sources:
        assert "org/apache/spark/sql/saltwise/SaltwiseExtensions.scala" in sources.namelist()
        assert "org/apache/spark/sql/saltwise/report/package.scala" in sources.namelist()
