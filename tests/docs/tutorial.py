"""Makes the outputs on the tutorial's page anew.

    python -m tests.docs.tutorial [--check]

Runs the code of the page in one session of its own, and puts what each block prints into the block of text behind it.
Plans are shortened: numbers of columns, stages and codegen say nothing to a reader. With --check the page stays as it
is, and the exit code is 1 if an output is out of date.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import os
import re
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from saltwise._java import ensure_java

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorial" / "flights.md"
STEP = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<text>.*?)^```\n)?", re.DOTALL | re.MULTILINE)
WIDTH = 145

_INNER = (
    "AdaptiveSparkPlan",
    "ResultQueryStage",
    "ShuffleQueryStage",
    "== Final Plan ==",
    "ColumnarToRow",
    "KeepPartitions",
)
"""Operators that a reader of a plan can do without."""
_NOISE = (
    (r"#\d+L?", ""),
    (r"\*\(\d+\) ?", ""),
    (r", ENSURE_REQUIREMENTS|, REPARTITION_BY_NUM|, \[plan_id=\d+\]|, output=\[.*\]", ""),
    (r", 1, 0, 0, false\)", ")"),
    (r"(FileScan parquet \[.*?\]).*", r"\1"),
    (r"knownfloatingpointnormalized\(normalizenanandzero\((\w+)\)\)", r"\1"),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["COLUMNS"] = "100"
    ensure_java()
    before = PAGE.read_text()
    after = made_anew(before)
    if before == after:
        return 0
    if given.check:
        Console(stderr=True).print("".join(difflib.unified_diff(before.splitlines(True), after.splitlines(True))))
        return 1
    PAGE.write_text(after)
    return 0


def made_anew(page: str) -> str:
    """Return a page with the outputs of its code."""
    names: dict[str, Any] = {}

    def step(match: re.Match[str]) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(match["code"], str(PAGE), "exec"), names)
        if "getOrCreate" in match["code"]:
            names["spark"].sparkContext.setLogLevel("OFF")
        shown = f"\n```text\n{tidy(out.getvalue())}```\n" if match["text"] else ""
        return f"```python\n{match['code']}```\n{shown}"

    return STEP.sub(step, page)


def tidy(output: str) -> str:
    """Return what was printed, with plans in short."""
    lines = [line.rstrip() for line in output.rstrip().splitlines()]
    if "== Physical Plan ==" in lines:
        lines = short_plan(lines[lines.index("== Physical Plan ==") + 1 :])
    return "".join(f"{line}\n" for line in lines)


def short_plan(lines: list[str]) -> list[str]:
    """Return a plan without what says nothing to a reader.

    >>> short_plan(["AdaptiveSparkPlan isFinalPlan=false", "+- Sort [k#1L ASC NULLS FIRST], false, 0", "   +- Scan"])
    ['Sort [k ASC NULLS FIRST], false, 0', '+- Scan']
    """
    initial = next((i for i, line in enumerate(lines) if "== Initial Plan ==" in line), len(lines))
    root: Node = ("", [])
    open_nodes = [root]
    for line in filter(None, lines[:initial]):
        tree, text = re.fullmatch(r"([ :+\-]*)(.*)", line).groups()  # type: ignore[union-attr]
        for pattern, replacement in _NOISE:
            text = re.sub(pattern, replacement, text)
        node: Node = (text, [])
        del open_nodes[len(tree) // 3 + 1 :]
        open_nodes[-1][1].append(node)
        open_nodes.append(node)
    return [line for node in kept(root[1]) for line in drawn(node)]


Node = tuple[str, list["Node"]]
"""An operator and its children."""


def kept(nodes: list[Node]) -> list[Node]:
    """Return the operators that a reader needs; the children of the others stand in their place."""
    found: list[Node] = []
    for text, children in nodes:
        found += kept(children) if text.startswith(_INNER) else [(text, kept(children))]
    return found


def drawn(node: Node) -> list[str]:
    """Return an operator and those below it, as Spark draws them."""
    text, children = node
    lines = [text if len(text) <= WIDTH else text[: WIDTH - 4].rsplit(" ", 1)[0] + " ..."]
    for i, child in enumerate(children):
        first, rest = ("+- ", "   ") if i == len(children) - 1 else (":- ", ":  ")
        below = drawn(child)
        lines += [first + below[0], *(rest + line for line in below[1:])]
    return lines


if __name__ == "__main__":
    sys.exit(main())
