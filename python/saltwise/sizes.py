"""Sizes in bytes, as Spark's confs write them."""

from __future__ import annotations

import re

from .errors import SaltwiseValueError


def bytes_of(name: str, size: str | int) -> int:
    """Return how many bytes a size has.

    Args:
        name: of the argument, for the error.
        size: a number of bytes, or a text such as "256m", "1g" or "64KB".

    Raises:
        SaltwiseValueError: `size` is not a size.

    >>> bytes_of("max_migration", "256m")
    268435456
    """
    match = re.fullmatch(r"(\d{1,18})\s*([kmgtp]?)i?b?", str(size).strip().lower())
    if match is None:
        raise SaltwiseValueError(f"{name} is {size!r}; it must be a size, such as 256m.")
    return int(match[1]) << 10 * " kmgtp".index(match[2] or " ")
