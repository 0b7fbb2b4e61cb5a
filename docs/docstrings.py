"""Turns the reStructuredText in docstrings of the package into Markdown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import griffe

ROLE = re.compile(r":\w+:`~?([\w.]+)`")
LITERAL_BLOCK = re.compile(r"::\n\n((?: {4}.*\n|\n)+)")
DOCTEST = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)
API = (Path(__file__).parent / "reference" / "api.md").read_text(encoding="utf-8")
DOCUMENTED = set(re.findall(r"^::: ([\w.]+)$", API, re.MULTILINE))


class Markdown(griffe.Extension):
    """Makes links of roles such as :func:`saltwise.skew_report`, and blocks of code of examples."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)


def markdown(docstring: str) -> str:
    """Return a docstring with links, and with its examples in fences."""
    text = ROLE.sub(_link, docstring)
    text = LITERAL_BLOCK.sub(
        lambda found: f":\n\n{found[1]}" if found.start() and text[found.start() - 1] != "\n" else found[1], text
    )
    return DOCTEST.sub(lambda found: f"```pycon\n{found[0].replace('  # doctest: +SKIP', '')}\n```", text)


def _link(found: re.Match[str]) -> str:
    name = found[1]
    for path in (name, f"saltwise.{name}", f"saltwise.simulate.{name}", f"saltwise.streams.{name}"):
        if path in DOCUMENTED:
            return f"[`{name}`][{path}]"
    return f"`{name}`"
