"""No call has more than four positional arguments: a reader cannot tell what the fifth one means."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "python" / "saltwise"

MAX_POSITIONAL = 4

MODULES = sorted(PACKAGE.rglob("*.py"))


def name_of(function: ast.expr) -> str | None:
    if isinstance(function, ast.Name):
        return function.id
    return function.attr if isinstance(function, ast.Attribute) else None


def own_names() -> set[str]:
    """Return the names of all functions and classes of the package."""
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    nodes = (node for module in MODULES for node in ast.walk(ast.parse(module.read_text())))
    return {node.name for node in nodes if isinstance(node, definitions)} | {"cls"}


def long_calls(source: str, names: set[str]) -> Iterator[str]:
    """Yield the calls of functions and classes with these names that have too many positional arguments."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        function, arguments = node.func, node.args
        if name_of(function) == "partial" and arguments:
            function, arguments = arguments[0], arguments[1:]
        if name_of(function) in names and len(arguments) > MAX_POSITIONAL:
            yield f"line {node.lineno}: {name_of(function)} has {len(arguments)} positional arguments"


def test_a_long_call_is_found() -> None:
    calls = "f(1, 2, 3, 4)\nf(1, 2, 3, 4, 5)\nx.f(1, 2, 3, 4, e=5)\npartial(x.f, 1, 2, 3, 4, 5)\ng(1, 2, 3, 4, 5)\n"
    assert [found.split(":")[0] for found in long_calls(calls, {"f"})] == ["line 2", "line 4"]


def test_no_call_has_more_than_four_positional_arguments() -> None:
    names = own_names()
    modules = {module.relative_to(PACKAGE): module.read_text() for module in MODULES}
    assert len(modules) > 100
    assert [f"{path}, {call}" for path, text in modules.items() for call in long_calls(text, names)] == []
