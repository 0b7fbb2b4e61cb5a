"""Figures with the axes of the papers: a panel for each setting, a line for each scheme."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any, TypeVar

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from .experiment import Row, pick

T = TypeVar("T")

MARKERS = "osv^D<>pP*X"

TITLES = {
    "imbalance": "average imbalance, share of messages",
    "n": "workers n",
    "N": "workers N",
    "z": "Zipf exponent z",
    "sigma": "threshold scaler sigma",
    "|D|": "keys |D|",
    "seconds": "construction time, s",
    "fraction": "d / n",
    "window": "statistic window",
    "hour": "hours of a day",
    "time": "share of the stream",
    "variance": "variance of the instances' loads",
    "distance": "load distance, percent of a node",
}
"""Titles of axes, by their columns. An axis of another column has its name."""

LOGARITHMIC = ("sigma", "|D|")
"""Columns whose horizontal axis is logarithmic."""


def lines(
    rows: Sequence[Row],
    x: str,
    y: str,
    line: str,
    panel: Sequence[str] = (),
    *,
    x_label: str | None = None,
    y_label: str | None = None,
    log: bool = True,
    level: float | None = None,
    floor: float = 1e-8,
    paper: Sequence[Row] = (),
) -> Figure:
    """Draw one column over another.

    Args:
        rows: what to draw.
        x: column of the horizontal axis.
        y: column of the vertical axis.
        line: column that tells the lines of one panel apart.
        panel: columns that tell the panels apart.
        x_label: title of the horizontal axis, if it is not that of TITLES.
        y_label: title of the vertical axis, if it is not that of TITLES.
        log: whether the vertical axis is logarithmic.
        level: where to draw a dotted line.
        floor: lowest value that a logarithmic axis shows; 0 is drawn there.
        paper: the numbers of the paper, with the same columns. They are drawn hollow, in the colour of their line.
    """
    columns = [_different(row[name] for row in rows) for name in panel]
    settings = list(product(*columns))
    figure, grid = panels(len(settings), across=len(columns[-1]) if len(columns) > 1 else None)
    lowest = floor if log else -math.inf
    for axes, setting in zip(grid, settings, strict=True):
        there, beside = (pick(some, **dict(zip(panel, setting, strict=True))) for some in (rows, paper))
        for i, kind in enumerate(_different(row[line] for row in there)):
            marker = MARKERS[i % len(MARKERS)]
            points, theirs = (pick(some, **{line: kind}) for some in (there, beside))
            [drawn] = axes.plot(*_points(points, x, y, lowest), marker=marker, ms=4, label=str(kind))
            color = drawn.get_color()
            axes.plot(*_points(theirs, x, y, lowest), ls="", marker=marker, ms=8, mfc="none", color=color)
        if x in LOGARITHMIC:
            axes.set_xscale("log")
        if log:
            axes.set_yscale("log")
        if level is not None:
            axes.axhline(level, color="#333333", linewidth=1, linestyle=":")
        named = zip(panel, setting, strict=True)
        axes.set_title(", ".join(value if isinstance(value, str) else f"{name} = {value:,}" for name, value in named))
        axes.set_xlabel(TITLES.get(x, x) if x_label is None else x_label)
        axes.grid(alpha=0.3)
    figure.supylabel(TITLES.get(y, y) if y_label is None else y_label, fontsize=10)
    if paper:
        grid[0].plot([], [], ls="", marker="o", ms=8, mfc="none", color="#333333", label="paper")
    grid[0].legend(fontsize=7)
    return figure


def _points(rows: Sequence[Row], x: str, y: str, lowest: float) -> tuple[list[Any], list[float]]:
    return [row[x] for row in rows], [max(float(row[y]), lowest) for row in rows]


def melted(rows: Iterable[Row], columns: Mapping[str, str], kind: str, value: str) -> list[Row]:
    """Return a row for each of some columns: one column has its title, one its number, and the others stay.

    >>> melted([{"n": 5, "m": 1.1, "b": 1.2}], {"m": "migration", "b": "imbalance"}, "kind", "value")[1]
    {'n': 5, 'm': 1.1, 'b': 1.2, 'kind': 'imbalance', 'value': 1.2}
    """
    return [row | {kind: title, value: row[column]} for row in rows for column, title in columns.items()]


def panels(count: int, across: int | None = None, shared: bool = True) -> tuple[Figure, list[Axes]]:
    """Return a figure with this number of axes.

    Args:
        count: of axes.
        across: how many stand in a row; as many as fit if not given.
        shared: whether they share the vertical axis.
    """
    across = across or min(count, 5)
    down = math.ceil(count / across)
    figure = Figure(figsize=(1 + 2.7 * across + (2 if count == 1 else 0), 0.6 + 2.6 * down), layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(down, across, sharey=shared, squeeze=False).flat)
    for unused in axes[count:]:
        unused.remove()
    return figure, axes[:count]


def _different(values: Iterable[T]) -> list[T]:  # in the order of their first appearance
    return list(dict.fromkeys(values))
