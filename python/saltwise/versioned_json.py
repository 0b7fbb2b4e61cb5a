"""JSON with a format, a version and a checksum, and files of it that change as a whole or not at all."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any
from uuid import uuid4

from .errors import SaltwiseError


class VersionedJsonError(SaltwiseError):
    """A text cannot be read. The message is a reason that the caller puts into a sentence."""


def dump_versioned(format: str, version: int, content: dict[str, Any]) -> str:
    """Return plain values as JSON, with their format, its version and a checksum.

    >>> dump_versioned("saltwise example", 1, {"workers": 4})
    '{"format": "saltwise example", "version": 1, "workers": 4, "crc32": 834008666}'
    """
    with_format = {"format": format, "version": version} | content
    return json.dumps(with_format | {"crc32": _checksum(with_format)})


def load_versioned(text: str, format: str, version: int) -> dict[str, Any]:
    """Return the content of what :func:`dump_versioned` wrote.

    Raises:
        VersionedJsonError: the text is not JSON, or of another format, or of another version, or damaged.

    >>> load_versioned(dump_versioned("saltwise example", 1, {"workers": 4}), "saltwise example", 1)
    {'workers': 4}
    """
    name = format.removeprefix("saltwise ")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise VersionedJsonError(f"the text is not JSON: {error}") from error
    if _is_deep(content):
        raise VersionedJsonError(f"the text is JSON of more than {MAX_DEPTH} levels")
    if not isinstance(content, dict) or content.get("format") != format:
        raise VersionedJsonError(f"the text is JSON, but not a {name}")
    if content.get("version") != version:
        raise VersionedJsonError(
            f"the {name} has version {content.get('version')}, but this Saltwise reads version {version}"
        )
    checksum = content.pop("crc32", None)
    if checksum != _checksum(content):
        raise VersionedJsonError(f"the {name} is damaged: its checksum does not match")
    return {field: value for field, value in content.items() if field not in ("format", "version")}


def replace_file(path: Path, content: str | bytes) -> None:
    """Write a file so that a reader sees either the old content or the new one, even when the machine stops.

    Several writers may write at the same time. The content of the last one stays.

    Args:
        path: in a folder that exists.
        content: of the whole file. A text is written in UTF-8.
    """
    new = path.with_name(f"{path.name}.{uuid4().hex}{PART}")  # each writer has a file of its own
    try:
        with new.open("xb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def is_part(name: str, of: str) -> bool:
    """Return whether a file is what a stopped writer of another file has left.

    >>> is_part("commit.json.0a1b.part", of="commit.json"), is_part("commit.json", of="commit.json")
    (True, False)
    """
    return name.startswith(of) and name.endswith(PART)


MAX_DEPTH = 200
"""Levels of lists and objects. Deeper values could exceed the depth of Python's recursion."""

PART = ".part"
"""Ends the name of a file that is being written."""


def _is_deep(content: Any) -> bool:
    """Whether values are nested deeper than :data:`MAX_DEPTH`."""
    level = [content]
    for _ in range(MAX_DEPTH):
        nested = (value for value in level if isinstance(value, (dict, list)))
        level = [inner for value in nested for inner in (value.values() if isinstance(value, dict) else value)]
    return bool(level)


def _checksum(content: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())
