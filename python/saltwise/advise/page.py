"""The findings as one page of HTML that needs no other file: a table, and the tasks of the worst stages as bars."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ..tables import counted
from .findings import Finding, TaskFigures
from .fragments import Kind

MAX_DRAWN = 20
"""The most stages whose tasks are drawn."""

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin: 2.5rem 0 .3rem }
table { border-collapse: collapse }
th, td { text-align: left; vertical-align: top; padding: .3rem .5rem; border-bottom: 1px solid #ddd }
.number { text-align: right } td.number { white-space: nowrap }
small { display: block; color: #666; overflow-wrap: anywhere }
figure { margin: .8rem 0; display: grid; grid-template-columns: auto 1fr; gap: .2rem .5rem; font-size: 13px }
figure svg { width: 100%; height: 8rem; background: #f7f7f7 } rect { fill: #2a6f97 } rect.slow { fill: #c8553d }
figure .axis { display: flex; flex-direction: column; justify-content: space-between; text-align: right; color: #666 }
figcaption { grid-column: 2; color: #666 } code { background: #f3f3f3; padding: .1rem .3rem; overflow-wrap: anywhere }
p.advice { background: #eef6ee; padding: .5rem .8rem; border-left: 4px solid #4a8f4a }
"""


def page(findings: Sequence[Finding], summary: str, title: str) -> str:
    """Return the page.

    Args:
        findings: the findings, the largest gain first.
        summary: one sentence about all of them.
        title: the name of what was read.
    """
    rows = "".join(
        f"<tr><td class=number>{i + 1}</td><td class=number>{finding.gain:.1f}</td>"
        f"<td class=number>{finding.took:.1f}</td><td>{escape(operator(finding))}</td>"
        f"<td>{_linked(i, escape(finding.description) or 'tasks')}{_place(finding)}</td></tr>"
        for i, finding in enumerate(findings)
    )
    table = (
        f"<p>{escape(summary)}</p><table><tr><th></th><th class=number>to gain, s</th>"
        f"<th class=number>stage, s</th><th>operator</th><th>query</th></tr>{rows}</table>"
        if findings
        else "<p>No stage was uneven because of its keys.</p>"
    )
    drawn = "".join(_section(i, finding) for i, finding in enumerate(findings[:MAX_DRAWN]))
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width, initial-scale=1'>"
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body><h1>Skew in {escape(title)}</h1>{table}{drawn}</body></html>"
    )


def heading(number: int, finding: Finding) -> str:
    """Return the first line of a finding: its operator, and what there is to gain."""
    gain = f"{finding.gain:.1f} of {finding.took:.1f} s to gain" if finding.gain.high else "nothing to gain"
    return f"{number}. {operator(finding)}: {gain}"


def operator(finding: Finding) -> str:
    """Return what a finding is about, such as ``window by customer``."""
    if finding.keys:
        return f"{finding.kind.value} by {', '.join(finding.keys)}"
    return f"{finding.kind.value}{' over all rows' if finding.kind is Kind.WINDOW else ''}"


def _linked(i: int, text: str) -> str:
    return f"<a href='#f{i}'>{text}</a>" if i < MAX_DRAWN else text


def notes(finding: Finding) -> list[str]:
    """Return more facts about a finding, one sentence each."""
    sentences = []
    if finding.times > 1:
        sentences.append(f"It was found in {finding.times:,} executions.")
    figures = finding.figures
    if figures.unfinished:
        sentences.append("A task never finished, so every figure is a lower bound.")
    if figures.spilled:
        sentences.append(f"Its tasks spilled {figures.spilled / 2**20:,.0f} MB.")
    if figures.out_of_memory:
        sentences.append(f"{counted(figures.out_of_memory, 'task')} ran out of memory.")
    if finding.hot_keys:
        sentences.append(f"Hot keys: {', '.join(finding.hot_keys)}.")
    if finding.failed:
        sentences.append("The query failed.")
    return sentences


def _place(finding: Finding) -> str:
    return f"<small>{escape(finding.application)}, query {finding.execution}, stage {finding.stage}</small>"


def _section(i: int, finding: Finding) -> str:
    figures = finding.figures
    of_tasks = [
        f"{counted(figures.tasks, 'task')}: the slowest took {figures.slowest:.1f} s, "
        f"the median {figures.median:.1f} s.",
        f"The slowest read {figures.rows:.1f} times the rows of the others, and {figures.bytes:.1f} times their bytes.",
    ]
    sentences = [
        *(of_tasks if figures.tasks > 1 else [f"One task had all rows, and took {figures.slowest:.1f} s."]),
        *notes(finding),
        *(f"{count} times: {why}." for why, count in figures.failures.items()),
    ]
    command = f" Next: <code>{escape(finding.command)}</code>" if finding.command else ""
    return (
        f"<h2 id='f{i}'>{escape(heading(i + 1, finding))}</h2>"
        f"{escape(finding.description)}{_place(finding)}{_bars(figures)}<p>{escape(' '.join(sentences))}</p>"
        f"<p class=advice>{escape(finding.advice)}.{command}</p>"
    )


def _bars(figures: TaskFigures) -> str:
    """Draw the tasks' seconds, the slowest first, at most 200 of them."""
    shown = figures.seconds[:200]
    width, height = 100 / len(shown), 100 / max(shown[0], 0.001)
    bars = "".join(
        f"<rect x='{i * width:.2f}' y='{100 - height * seconds:.2f}' width='{width * 0.85:.2f}' "
        f"height='{height * seconds:.2f}'{' class=slow' if seconds > 2 * figures.median else ''}>"
        f"<title>{seconds:.1f} s</title></rect>"
        for i, seconds in enumerate(shown)
    )
    of = f" of {figures.tasks:,}" if figures.tasks > len(shown) else ""
    return (
        f"<figure><div class=axis><span>{shown[0]:.1f} s</span><span>0 s</span></div>"
        f"<svg viewBox='0 0 100 100' preserveAspectRatio='none' role=img aria-label='seconds of each task'>{bars}</svg>"
        f"<figcaption>{counted(len(shown), 'task')}{of}, the slowest first; red: more than twice the median, "
        f"{figures.median:.1f} s</figcaption></figure>"
    )
