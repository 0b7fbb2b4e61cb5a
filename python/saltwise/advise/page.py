"""The findings as one page of HTML that needs nothing else: a table, and the tasks of the worst stages as bars."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ..tables import counted
from .findings import Finding
from .schedule import Range

DRAWN = 20
"""Stages whose tasks are drawn."""

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin: 2.5rem 0 .3rem }
table { border-collapse: collapse }
th, td { text-align: left; vertical-align: top; padding: .3rem .5rem; border-bottom: 1px solid #ddd }
.number { text-align: right } td.number { white-space: nowrap }
small { display: block; color: #666; overflow-wrap: anywhere }
svg { width: 100%; height: 8rem; background: #f7f7f7 } rect { fill: #2a6f97 } rect.slow { fill: #c8553d }
p.advice { background: #eef6ee; padding: .5rem .8rem; border-left: 4px solid #4a8f4a }
"""


def page(found: Sequence[Finding], gain: Range, title: str) -> str:
    """Return the page.

    Args:
        found: the findings, the largest gain first.
        gain: what they gain all together.
        title: what was read.
    """
    rows = "".join(
        f"<tr><td class=number>{each.gain:.1f}</td><td class=number>{each.took:.1f}</td>"
        f"<td>{escape(each.kind.value)} by {escape(', '.join(each.keys) or '?')}</td>"
        f"<td>{_linked(i, escape(each.description) or 'tasks')}{_place(each)}</td></tr>"
        for i, each in enumerate(found)
    )
    table = (
        f"<p>Even tasks would gain {gain:.0f} s, all together.</p><table><tr><th class=number>to gain, s</th>"
        f"<th class=number>stage, s</th><th>operator</th><th>query</th></tr>{rows}</table>"
        if found
        else "<p>No stage was uneven because of its keys.</p>"
    )
    drawn = "".join(_section(i, each) for i, each in enumerate(found[:DRAWN]))
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width, initial-scale=1'>"
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body><h1>Skew in {escape(title)}</h1>{table}{drawn}</body></html>"
    )


def _linked(i: int, text: str) -> str:
    return f"<a href='#f{i}'>{text}</a>" if i < DRAWN else text


def notes(each: Finding) -> list[str]:
    """Return what else there is to say of a finding, a sentence each."""
    said = []
    if each.times > 1:
        said.append(f"It was found in {each.times:,} executions.")
    if each.unfinished:
        said.append("A task never ended well, so all figures are what is known at least.")
    if each.spilled:
        said.append(f"Its tasks spilled {each.spilled / 2**20:,.0f} MB.")
    if each.out_of_memory:
        said.append(f"{counted(each.out_of_memory, 'task')} failed for want of memory.")
    if each.hot_keys:
        said.append(f"Hot keys: {', '.join(each.hot_keys)}.")
    if each.failed:
        said.append("The query failed.")
    return said


def _place(each: Finding) -> str:
    return f"<small>{escape(each.application)}, query {each.execution}, stage {each.stage}</small>"


def _section(i: int, each: Finding) -> str:
    said = [
        f"{counted(each.tasks, 'task')}: the slowest took {each.slowest:.1f} s, the median {each.median:.1f} s.",
        f"The slowest read {each.rows:.1f} times the rows of the others, and {each.bytes:.1f} times their bytes.",
        *notes(each),
        *(f"{count} times: {why}." for why, count in each.failures.items()),
    ]
    return (
        f"<h2 id='f{i}'>{escape(each.operator)} by {escape(', '.join(each.keys) or '?')}</h2>"
        f"{escape(each.description)}{_place(each)}{_bars(each)}<p>{escape(' '.join(said))}</p>"
        f"<p class=advice>{escape(each.advice)}.</p>"
    )


def _bars(each: Finding) -> str:
    """Draw the tasks' seconds, the slowest first, at most 200 of them."""
    shown = each.seconds[:200]
    width, height = 100 / len(shown), 100 / max(shown[0], 0.001)
    bars = "".join(
        f"<rect x='{i * width:.2f}' y='{100 - height * seconds:.2f}' width='{width * 0.85:.2f}' "
        f"height='{height * seconds:.2f}'{' class=slow' if seconds > 2 * each.median else ''}>"
        f"<title>{seconds:.1f} s</title></rect>"
        for i, seconds in enumerate(shown)
    )
    return (
        f"<svg viewBox='0 0 100 100' preserveAspectRatio='none' role=img aria-label='seconds of each task'>{bars}</svg>"
    )
