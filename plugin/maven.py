"""Makes what Maven Central takes: for each jar a POM, the sources, and checksums, in one archive to upload.

    python plugin/maven.py --url https://host/repository [--out dist/maven]

The archive has the layout of a Maven repository, and everything but the signatures: RELEASE.md says how to add them.
`spark.jars.packages=io.github.saltwise:saltwise_2.13:VERSION` finds the jar once the archive is uploaded.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import sys
from pathlib import Path
from xml.sax.saxutils import escape
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import saltwise
from saltwise._spark_lines import SCALA_VERSIONS

ROOT = Path(__file__).resolve().parents[1]
GROUP = "io.github.saltwise"
CHECKSUMS = ("md5", "sha1", "sha256", "sha512")

POM = """<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>{group}</groupId>
  <artifactId>{artifact}</artifactId>
  <version>{version}</version>
  <packaging>jar</packaging>
  <name>Saltwise</name>
  <description>The Spark session extension of Saltwise, for Scala {scala}</description>
  <url>{url}</url>
  <licenses>
    <license>
      <name>Apache-2.0</name>
      <url>https://www.apache.org/licenses/LICENSE-2.0.txt</url>
    </license>
  </licenses>
  <developers>
    <developer>
      <name>The founders of Saltwise</name>
      <url>{url}</url>
    </developer>
  </developers>
  <scm>
    <connection>scm:git:{url}.git</connection>
    <url>{url}</url>
  </scm>
</project>
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--url", required=True, help="the address of the repository, which the POMs name")
    parser.add_argument("--out", type=Path, default=ROOT / "dist" / "maven")
    given = parser.parse_args()
    version = saltwise.__version__
    given.out.mkdir(parents=True, exist_ok=True)
    archive = given.out / f"saltwise-{version}.zip"
    part = archive.with_suffix(".part")
    with ZipFile(part, "w") as out:
        for scala in SCALA_VERSIONS:
            artifact = f"saltwise_{scala}"
            folder = f"{GROUP.replace('.', '/')}/{artifact}/{version}"
            for name, content in files_of(artifact, scala, version, given.url).items():
                add(out, f"{folder}/{name}", content)
    part.replace(archive)
    sys.stdout.write(f"{archive}\n")
    return 0


def files_of(artifact: str, scala: str, version: str, url: str) -> dict[str, bytes]:
    """Return the files of one artifact by name. The documentation is the README: Scala users read the site."""
    base = f"{artifact}-{version}"
    pom = POM.format(group=GROUP, artifact=artifact, scala=scala, version=version, url=escape(url))
    return {
        f"{base}.pom": pom.encode(),
        f"{base}.jar": Path(saltwise.__file__).with_name("jars").joinpath(f"{artifact}.jar").read_bytes(),
        f"{base}-sources.jar": zipped(sources(scala)),
        f"{base}-javadoc.jar": zipped({"README.md": (ROOT / "README.md").read_bytes()}),
    }


def sources(scala: str) -> dict[str, bytes]:
    """Return the Scala sources of a jar by their paths below the source folder."""
    folders = [ROOT / "plugin" / "src", ROOT / "plugin" / f"scala-{scala}"]
    found = [(folder, path) for folder in folders for path in sorted(folder.rglob("*.scala"))]
    return {str(path.relative_to(folder)): path.read_bytes() for folder, path in found}


def zipped(files: dict[str, bytes]) -> bytes:
    """Return a jar of these files. The same files give the same bytes."""
    buffer = io.BytesIO()
    with ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(ZipInfo(name), content, ZIP_DEFLATED)
    return buffer.getvalue()


def add(archive: ZipFile, name: str, content: bytes) -> None:
    """Put a file into the archive, and its checksums beside it."""
    archive.writestr(ZipInfo(name), content, ZIP_DEFLATED)
    for checksum in CHECKSUMS:
        archive.writestr(ZipInfo(f"{name}.{checksum}"), hashlib.new(checksum, content).hexdigest())


if __name__ == "__main__":
    sys.exit(main())
