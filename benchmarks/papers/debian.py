"""The dependencies of Debian's packages as a stream of keys."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np

from saltwise import SaltwiseError, SaltwiseValueError
from saltwise.streams import Stream

DPKG_STATUS = Path("/var/lib/dpkg/status")


def debian(direction: str = "in", index: Path | None = None) -> Stream:
    """Return the edges of Debian's dependency graph. A message is a package, and one that it depends on.

    They come from the machine's package index, as ``apt-cache dumpavail`` prints it; without apt, from the installed
    packages that dpkg lists. Each alternative of ``a | b`` is an edge. A package that is named twice is one edge.

    Args:
        direction: "in" is the PKG paper's (section 6.2, Q3): a message reaches its source by the package that depends,
            and its worker by the package that it depends on, so workers get the in-degrees. "out" is the other way
            round.
        index: a file in the format of the package index; the machine's own if not given.

    Raises:
        SaltwiseError: the machine has no package index.
        SaltwiseValueError: there is no such direction.
    """
    if direction not in ("in", "out"):
        raise SaltwiseValueError.unknown("direction", direction, ["in", "out"])
    edges = _dependencies(_package_index(index))
    if not edges:
        raise SaltwiseError(
            "This machine has no Debian package index: run apt-get update, or name a file with index=."
            if index is None
            else f"{str(index)!r} names no dependency of any package: it must be in the format of apt-cache dumpavail."
        )
    packages, needed = (np.array(names, dtype=np.str_) for names in zip(*edges, strict=True))
    if direction == "in":
        return Stream("Debian dependencies, in-degrees", needed, packages)
    return Stream("Debian dependencies, out-degrees", packages, needed)


def _package_index(index: Path | None) -> str:
    if index is not None:
        if not index.is_file():
            raise SaltwiseValueError(f"index is {str(index)!r}; it must be a file that exists.")
        return index.read_text("utf-8", errors="replace")
    try:
        command = ["apt-cache", "dumpavail"]
        printed = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=True).stdout
        if printed:
            return printed
    except (OSError, subprocess.CalledProcessError):
        pass  # not a Debian with apt
    return DPKG_STATUS.read_text("utf-8", errors="replace") if DPKG_STATUS.is_file() else ""


def _dependencies(index: str) -> list[tuple[str, str]]:
    edges: dict[tuple[str, str], None] = {}
    package = ""
    for field, value in re.findall(r"^(Package|Depends|Pre-Depends): (.*)$", index, re.MULTILINE):
        if field == "Package":
            package = value
        else:
            edges |= dict.fromkeys((package, needed) for needed in re.findall(r"(?:^|[,|])\s*([a-z0-9+.-]+)", value))
    return list(edges)
