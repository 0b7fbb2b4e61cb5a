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
from .findings import Finding, TaskFigures, findings
from .page import notes, page
from .schedule import Range

__all__ = ["Advice", "advise", "event_logs", "write_page"]

MAX_PRINTED = 20
"""The most findings that are printed, the largest gain first."""


@dataclass(frozen=True)
class Advice(Printable):
    """What was skewed in some applications, the largest gain first."""

    _text_width = 160

    applications: int
    """How many logs were read."""
    findings: list[Finding]
    unreadable: dict[str, str] = field(default_factory=dict)
    """The logs of a folder that could not be read, and why."""

    @property
    def gain(self) -> Range:
        """Seconds to gain, in all findings together."""
        gains = [finding.gain for finding in self.findings]
        return Range(sum(gain.low for gain in gains), sum(gain.high for gain in gains))

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
        yield f"{logs} read. Even tasks would save {self.gain:.0f} s in total."
        yield Table(
            [
                (
                    f"{finding.application} query {finding.execution}\n{finding.description}".strip(),
                    f"{finding.kind.value} by {', '.join(finding.keys) or '?'}",
                    f"{finding.took:.1f}",
                    f"{finding.gain:.1f}",
                    _slowest_by_median(finding.figures),
                    f"{finding.figures.rows:.1f}",
                )
                for finding in self.findings[:MAX_PRINTED]
            ],
            ("query", "operator", "stage s", "to gain s", "slowest / median task s", "rows: slowest / others"),
        )
        for finding in self.findings[:MAX_PRINTED]:
            place = f"{finding.application} query {finding.execution}, stage {finding.stage}"
            yield " ".join([f"{place}: {finding.advice}.", *notes(finding)])


def _slowest_by_median(figures: TaskFigures) -> str:
    return f"{'over ' * figures.unfinished}{figures.slowest:.1f} / {figures.median:.1f}"


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
            unreadable[str(log.path)] = str(error)
            if len(unreadable) == len(logs):
                raise EventLogError.from_error(log.path, error) from error
    found.sort(key=lambda finding: (not finding.failed, -finding.gain.high))
    return Advice(len(logs) - len(unreadable), found, unreadable)


def write_page(advice: Advice, path: Path) -> None:
    """Write a page of HTML that needs no other file. If that fails, no part of the page is left.

    Raises:
        SaltwiseValueError: the file cannot be written.
    """
    text = page(advice.findings, advice.gain, counted(advice.applications, "Spark application"))
    try:
        replace_file(path, text)
    except OSError as error:
        raise SaltwiseValueError(f"html is {str(path)!r}; it must be a file that can be written ({error}).") from error
