"""A call of an aggregate function, and a parser that reads one from SQL text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True)
class Call:
    """One call of an aggregate function."""

    name: str
    """The name as it was written, in lower case."""
    arguments: list[Column]
    """Empty for ``count(*)``."""
    distinct: bool = False
    condition: Column | None = None
    """The condition of FILTER (WHERE ...)."""


def parse_call(text: str) -> Call | None:
    """Read ``name([DISTINCT] argument, ...) [FILTER (WHERE condition)] [[AS] alias]``; None for other text."""
    start = re.match(r"\s*(\w+)\s*(?=\()", text)
    if start is None:
        return None
    inner, rest = _bracketed(text[start.end() :])
    distinct = re.match(r"\s*distinct\b", inner, re.I)
    inner = inner[distinct.end() :] if distinct else inner
    condition = None
    if re.match(r"\s*filter\s*\(", rest, re.I):
        where, rest = _bracketed(rest[rest.index("(") :])
        condition = F.expr(re.sub(r"^\s*where\b", "", where, flags=re.I))
    if not re.fullmatch(r"\s*((as\s+)?(`(?:[^`]|``)+`|\w+)\s*)?", rest, re.I):
        return None
    arguments = [] if inner.strip() == "*" else [F.expr(argument) for argument in _separated(inner)]
    return Call(start[1].lower(), arguments, distinct is not None, condition)


def _bracketed(text: str) -> tuple[str, str]:
    """Split a text that begins with a bracket into the text inside the brackets and the text after them."""
    end = next((at for at, sign, depth in _signs(text) if sign == ")" and depth == 0), len(text))
    return text[1:end], text[end + 1 :]


def _separated(text: str) -> list[str]:
    """Split a text at its commas outside of brackets."""
    commas = [at for at, sign, depth in _signs(text) if sign == "," and depth == 0]
    return [text[a + 1 : b] for a, b in zip([-1, *commas], [*commas, len(text)], strict=True)]


def _signs(text: str) -> Iterator[tuple[int, str, int]]:
    """Yield position, sign and depth of brackets and commas outside of quotes."""
    depth = 0
    for match in re.finditer(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|([(),])", text, re.S):
        sign = match[1]
        if sign is not None:
            depth -= sign == ")"
            yield match.start(), sign, depth
            depth += sign == "("
