"""The advice for some event logs: prints as a table, in a notebook as HTML, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ..errors import SaltwiseValueError
from ..tables import Printable, Table, counted
from .application import executions
from .event_log import EventLog, EventLogError, event_logs
from .findings import Finding, findings
from .page import notes, page
from .schedule import Range

__all__ = ["Advice", "advise", "event_logs", "write_page"]

SHOWN = 20
"""Findings that are printed, the largest gain first."""


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
        """Seconds to gain, all together."""
        return Range(sum(each.gain.least for each in self.findings), sum(each.gain.most for each in self.findings))

    def to_json(self) -> str:
        """Return everything as JSON."""
        return json.dumps(
            {
                "applications": self.applications,
                "unreadable": self.unreadable,
                "findings": [asdict(each) | {"kind": each.kind.value} for each in self.findings],
            },
            indent=2,
        )

    def _parts(self) -> Iterator[str | Table]:
        logs = counted(self.applications, "application")
        yield from self.unreadable.values()
        if not self.findings:
            yield f"{logs} read: no stage was uneven because of its keys."
            return
        yield f"{logs} read. Even tasks would gain {self.gain:.0f} s, all together."
        yield Table(
            [
                (
                    f"{each.application} query {each.execution}\n{each.description}".strip(),
                    f"{each.kind.value} by {', '.join(each.keys) or '?'}",
                    f"{each.took:.1f}",
                    f"{each.gain:.1f}",
                    f"{'over ' * each.unfinished}{each.slowest:.1f} / {each.median:.1f}",
                    f"{each.rows:.1f}",
                )
                for each in self.findings[:SHOWN]
            ],
            ("query", "operator", "stage s", "to gain s", "slowest / median task s", "rows: slowest / others"),
        )
        for each in self.findings[:SHOWN]:
            yield " ".join(
                [f"{each.application} query {each.execution}, stage {each.stage}: {each.advice}.", *notes(each)]
            )


def advise(
    logs: Sequence[EventLog], with_keys: bool = False, read: Callable[[int], object] = lambda size: None
) -> Advice:
    """Read event logs, one after the other. One that cannot be read is told, and the others are read.

    Args:
        logs: from :func:`event_logs`.
        with_keys: whether to name hot keys, where the plugin's own events tell them.
        read: is called with the number of bytes that were read since its last call.

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
                raise EventLogError.of(log.path, error) from error
    found.sort(key=lambda each: (not each.failed, -each.gain.most))
    return Advice(len(logs) - len(unreadable), found, unreadable)


def write_page(advice: Advice, path: Path) -> None:
    """Write a page of HTML that needs nothing else. If that fails, no half of it is left.

    Raises:
        SaltwiseValueError: the file cannot be written.
    """
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(
            page(advice.findings, advice.gain, counted(advice.applications, "Spark application")), encoding="utf-8"
        )
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise SaltwiseValueError(f"html is {str(path)!r}; it must be a file that can be written ({error}).") from error
