"""The findings as one page of HTML that needs nothing else: a table, and the tasks of the worst stages as bars."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .findings import Finding

DRAWN = 20
"""Stages whose tasks are drawn."""

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin: 2.5rem 0 .3rem }
table { border-collapse: collapse; width: 100%; display: block; overflow-x: auto }
th, td { text-align: right; padding: .3rem .7rem; border-bottom: 1px solid #ddd; white-space: nowrap }
th:first-child, td:first-child, td.text { text-align: left; white-space: normal }
svg { width: 100%; height: 8rem; background: #f7f7f7 } rect { fill: #2a6f97 } rect.slow { fill: #c8553d }
p.advice { background: #eef6ee; padding: .5rem .8rem; border-left: 4px solid #4a8f4a }
small { color: #666 }
"""


def page(found: Sequence[Finding], title: str) -> str:
    """Return the page.

    Args:
        found: the findings, the largest gain first.
        title: what was read.
    """
    rows = "".join(
        f"<tr><td><a href='#f{i}'>{escape(each.application)}, query {each.execution}</a></td>"
        f"<td class=text>{escape(each.kind.value)} by {escape(', '.join(each.keys) or '?')}</td>"
        f"<td>{each.took:.1f}</td><td>{_range(each)}</td></tr>"
        for i, each in enumerate(found)
    )
    table = (
        "<table><tr><th>query</th><th>operator</th><th>seconds of the stage</th><th>to gain</th></tr>"
        + rows
        + "</table>"
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


def _range(each: Finding) -> str:
    least, most = each.gain
    return f"{least:.1f} to {most:.1f} s"


def _section(i: int, each: Finding) -> str:
    notes = [
        f"{each.tasks} tasks: the slowest took {each.slowest:.1f} s, the median {each.median:.1f} s",
        f"the slowest read {each.rows:.1f} times the mean of rows and {each.bytes:.1f} times that of bytes",
    ]
    if each.spilled:
        notes.append(f"{each.spilled / 2**20:,.0f} MB spilled")
    notes += [f"{count} times: {escape(why)}" for why, count in each.failures.items()]
    return (
        f"<h2 id='f{i}'>{escape(each.operator)} by {escape(', '.join(each.keys) or '?')}</h2>"
        f"<small>{escape(each.application)}, query {each.execution}, stage {each.stage}: "
        f"{escape(each.description)}</small>"
        f"{_bars(each)}<p>{'; '.join(notes)}.</p><p class=advice>{escape(each.advice)}</p>"
    )


def _bars(each: Finding) -> str:
    """Draw the tasks' seconds, the slowest first, at most 200 of them."""
    shown = each.seconds[:200]
    width = 100 / max(1, len(shown))
    bars = "".join(
        f"<rect x='{i * width:.2f}' y='{100 - 100 * seconds / shown[0]:.2f}' width='{width * 0.85:.2f}' "
        f"height='{100 * seconds / shown[0]:.2f}'{' class=slow' if seconds > 2 * each.median else ''}>"
        f"<title>{seconds:.1f} s</title></rect>"
        for i, seconds in enumerate(shown)
    )
    return (
        f"<svg viewBox='0 0 100 100' preserveAspectRatio='none' role=img aria-label='seconds of each task'>{bars}</svg>"
    )
