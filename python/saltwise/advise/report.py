"""The advice for some event logs: prints as a table, in a notebook as HTML, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import SaltwiseValueError
from ..tables import Printable, Table, counted
from ..versioned_json import replace_file
from .application import executions
from .event_log import EventLog, EventLogError, event_logs
from .findings import Finding, TaskFigures, by_gain, findings
from .page import heading, notes, page
from .schedule import Range

__all__ = ["Advice", "advise", "event_logs", "write_page"]

MAX_PRINTED = 20
"""The most findings that are printed, the largest gain first."""


@dataclass(frozen=True)
class Advice(Printable):
    """What was skewed in some applications, the largest gain first."""

    _text_width = 80

    applications: int
    """How many logs were read."""
    findings: list[Finding]
    unreadable: dict[str, str] = field(default_factory=dict)
    """The logs of a folder that could not be read, and why."""

    @property
    def gain(self) -> Range:
        """Seconds that the advice saves, in all findings together."""
        gains = [finding.gain for finding in self.findings]
        return Range(sum(gain.low for gain in gains), sum(gain.high for gain in gains))

    @property
    def summary(self) -> str:
        """What skew cost, and what the advice saves, as one sentence."""
        lost = sum(finding.lost for finding in self.findings)
        return f"Skew cost {lost:.0f} s; the advice saves {self.gain:.0f} s of it."

    def to_json(self) -> str:
        """Return everything as JSON."""
        return json.dumps(
            {
                "applications": self.applications,
                "unreadable": self.unreadable,
                "findings": [finding.to_dict() for finding in self.findings],
            },
            indent=2,
        )

    def _parts(self) -> Iterator[str | Table]:
        logs = counted(self.applications, "application")
        yield from self.unreadable.values()
        if not self.findings:
            yield f"{logs} read: no stage was uneven because of its keys."
            return
        yield f"{logs} read. {self.summary}"
        for number, finding in enumerate(self.findings[:MAX_PRINTED], 1):
            yield f"\n{heading(number, finding)}"
            yield Table(_facts(finding), wrapped=True)


def _facts(finding: Finding) -> list[tuple[str, str]]:
    figures = finding.figures
    facts = [
        ("query", f"{finding.application} query {finding.execution}, stage {finding.stage}"),
        ("", finding.description),
        ("tasks", _tasks(figures)),
        *(("", note) for note in notes(finding)),
        ("advice", f"{finding.advice}."),
        ("next", finding.command),
    ]
    return [(name, value) for name, value in facts if value]


def _tasks(figures: TaskFigures) -> str:
    if figures.tasks == 1:
        return f"one task had all rows, and took {figures.slowest:.1f} s"
    return (
        f"the slowest of {figures.tasks} took {figures.slowest:.1f} s, the median {figures.median:.1f} s, with "
        f"{figures.rows:.1f} times the rows of the others"
    )


def advise(
    logs: Sequence[EventLog], with_keys: bool = False, read: Callable[[int], object] = lambda size: None
) -> Advice:
    """Read event logs, one after the other. The result names each log that cannot be read.

    Args:
        logs: from :func:`event_logs`.
        with_keys: whether to name hot keys, where the plugin's own events have them.
        read: is called with the number of bytes read since its last call.

    Raises:
        EventLogError: none of the logs can be read.

    >>> advise([]).findings
    []
    """
    found: list[Finding] = []
    unreadable: dict[str, str] = {}
    for log in logs:
        try:
            found += findings(executions(log.lines(read), with_keys))
        except (EventLogError, OSError) as error:
            told = EventLogError.from_error(log.path, error)
            unreadable[str(log.path)] = str(told)
            if len(unreadable) == len(logs):
                raise told from error
    return Advice(len(logs) - len(unreadable), by_gain(found), unreadable)


def write_page(advice: Advice, path: Path) -> None:
    """Write a page of HTML that needs no other file. If that fails, no part of the page is left.

    Raises:
        SaltwiseValueError: the file cannot be written.
    """
    text = page(advice.findings, advice.summary, counted(advice.applications, "Spark application"))
    try:
        replace_file(path, text)
    except (OSError, ValueError) as error:
        raise SaltwiseValueError(f"html is {str(path)!r}; it must be a file that can be written ({error}).") from error
