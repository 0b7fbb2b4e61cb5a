"""Addresses of remote stores, and paths of this machine."""

from __future__ import annotations

import re
from pathlib import Path

_SCHEME = re.compile(r"[A-Za-z][\w+.-]+:/")
"""One letter is a drive."""


def is_address(path: str | Path) -> bool:
    """Return whether a path is the address of a remote store.

    >>> is_address("s3a://bucket/events"), is_address("dbfs:/events"), is_address("C:/events")
    (True, True, False)
    """
    return _SCHEME.match(str(path)) is not None
