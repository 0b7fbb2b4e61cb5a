"""Runs the command saltwise in this process."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from saltwise.cli.commands import WRONG_INPUT, app

runner = CliRunner()


def stdout(*arguments: str) -> str:
    """Run a command that works, and return what it prints."""
    result = runner.invoke(app, arguments)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return result.stdout


def sentence(*arguments: str) -> str:
    """Run a command that is refused, and return what it says."""
    result = runner.invoke(app, arguments)
    assert (result.exit_code, result.stdout) == (WRONG_INPUT, ""), result.output
    assert result.stderr.count("\n") == 1, result.stderr
    return result.stderr.strip()


def write_flights(folder: Path) -> None:
    """Write a file of flights, four of UA, one of B6, one without a carrier; and a query of it."""
    rows = ["UA,2", "UA,5", "B6,", ",1", "UA,9", "UA,3"]
    (folder / "flights.csv").write_text("\n".join(["carrier,delay", *rows]))
    (folder / "delays.sql").write_text("SELECT carrier, collect_list(delay)\nFROM flights GROUP BY carrier;\n")
