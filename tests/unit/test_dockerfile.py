"""The Dockerfile of the examples, read as Docker reads it. It is not built here."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import typer

from saltwise.cli.commands import app

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "examples" / "docker" / "Dockerfile"
KNOWN = {
    "ADD",
    "ARG",
    "CMD",
    "COPY",
    "ENTRYPOINT",
    "ENV",
    "EXPOSE",
    "FROM",
    "HEALTHCHECK",
    "LABEL",
    "ONBUILD",
    "RUN",
    "SHELL",
    "STOPSIGNAL",
    "USER",
    "VOLUME",
    "WORKDIR",
}
"""The instructions of https://docs.docker.com/reference/dockerfile/ that are not deprecated."""


def instructions(text: str) -> list[tuple[str, str]]:
    """Return the instructions with their arguments. A backslash at its end continues a line.

    Docker drops comments and empty lines, also between the lines of one instruction.
    """
    lines = [line.strip() for line in text.splitlines()]
    kept = "\n".join(line for line in lines if line and not line.startswith("#"))
    joined = re.sub(r"\s*\\\n", " ", kept)
    return [(word, arguments) for word, _, arguments in (line.partition(" ") for line in joined.splitlines())]


FOUND = instructions(DOCKERFILE.read_text())


def test_an_instruction_goes_on_over_comments_and_empty_lines() -> None:
    text = "# first\nFROM a AS b\n\nRUN c \\\n  # why\n\n  && d\nUSER e\n"
    assert instructions(text) == [("FROM", "a AS b"), ("RUN", "c && d"), ("USER", "e")]


def test_docker_knows_each_instruction_and_each_has_arguments() -> None:
    assert {word for word, _ in FOUND} <= KNOWN
    assert [word for word, arguments in FOUND if not arguments or arguments.endswith("\\")] == []


def test_the_dockerfile_begins_with_an_official_python_image() -> None:
    word, arguments = FOUND[0]
    assert word == "FROM"
    assert re.match(r"python:3\.\d+-slim", arguments)


def test_what_the_dockerfile_copies_exists_in_the_checkout_or_in_a_stage_before() -> None:
    stages: set[str] = set()
    copied: list[str] = []
    for word, arguments in FOUND:
        if word == "FROM":
            image, *name = shlex.split(arguments)
            assert ":" in image or image in stages, image
            stages |= set(name[1:])
        elif word in ("ADD", "COPY"):
            options = [part for part in shlex.split(arguments) if part.startswith("--")]
            *sources, _ = [part for part in shlex.split(arguments) if not part.startswith("--")]
            stage = [option.removeprefix("--from=") for option in options if option.startswith("--from=")]
            assert set(stage) <= stages, arguments
            copied += [] if stage else sources
    assert copied
    assert [source for source in copied if not list(ROOT.glob(source))] == []


def test_the_image_runs_a_command_of_saltwise() -> None:
    last = dict(FOUND)
    program, command = json.loads(last["ENTRYPOINT"]) + json.loads(last["CMD"])
    assert program == "saltwise"
    assert command in typer.main.get_command(app).commands  # type: ignore[attr-defined]
