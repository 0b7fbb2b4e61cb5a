"""Figures with the axes of the papers: a panel for each setting, a line for each scheme."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, TypeVar

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from .rows import Row, Rows, pick

T = TypeVar("T")

MARKERS = "osv^D<>pP*X"

TITLES = {
    "imbalance": "average imbalance, share of messages",
    "n": "workers n",
    "nodes": "nodes",
    "share": "share of one-to-one key groups",
    "what": "",
    "d": "choices d",
    "varies": "varies, percent",
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


@dataclass(frozen=True)
class Lines:
    """Draws one column over another."""

    x: str
    """The column of the horizontal axis."""
    y: str
    """The column of the vertical axis."""
    line: str
    """The column that tells the lines of one panel apart."""
    panel: Sequence[str] = ()
    """The columns that tell the panels apart."""
    x_label: str | None = None
    """The title of the horizontal axis. Default: the one of TITLES."""
    y_label: str | None = None
    """The title of the vertical axis. Default: the one of TITLES."""
    log: bool = True
    """Whether the vertical axis is logarithmic."""
    level: float | None = None
    """Where to draw a dotted line."""
    floor: float = 1e-8
    """The lowest value that a logarithmic axis shows; 0 is drawn there."""
    paper: Sequence[Row] = ()
    """The numbers of the paper, with the same columns. They are drawn hollow, in the colour of their line."""
    melt: Mapping[str, str] = field(default_factory=dict)
    """Columns that become rows, each with its title: the title goes to the column `what`, the number to `value`."""
    where: Mapping[str, object] = field(default_factory=dict)
    """Which rows are drawn. Default: all."""

    def __call__(self, rows: Rows) -> Figure:
        """Return the figure of some rows."""
        rows = pick([row for row in rows if self.x in row or self.melt], **self.where)
        if self.melt:
            rows = [row | {"what": what, "value": row[column]} for row in rows for column, what in self.melt.items()]
        columns = [_different(row[name] for row in rows) for name in self.panel]
        settings = list(product(*columns))
        figure, grid = panels(len(settings), across=len(columns[-1]) if len(columns) > 1 else None)
        for axes, setting in zip(grid, settings, strict=True):
            of_panel = dict(zip(self.panel, setting, strict=True))
            self._panel(axes, pick(rows, **of_panel), pick(self.paper, **of_panel))
            titles = (value if isinstance(value, str) else f"{name} = {value:,}" for name, value in of_panel.items())
            axes.set_title(", ".join(titles))
        figure.supylabel(TITLES.get(self.y, self.y) if self.y_label is None else self.y_label, fontsize=10)
        if self.paper:
            grid[0].plot([], [], ls="", marker="o", ms=8, mfc="none", color="#333333", label="paper")
        grid[0].legend(fontsize=7)
        return figure

    def _panel(self, axes: Axes, rows: Rows, paper: Rows) -> None:
        lowest = self.floor if self.log else -math.inf
        for i, kind in enumerate(_different(row[self.line] for row in rows)):
            marker = MARKERS[i % len(MARKERS)]
            ours, theirs = (_points(pick(some, **{self.line: kind}), self.x, self.y, lowest) for some in (rows, paper))
            [drawn] = axes.plot(*ours, marker=marker, ms=4, label=str(kind))
            axes.plot(*theirs, ls="", marker=marker, ms=8, mfc="none", color=drawn.get_color())
        if self.x in LOGARITHMIC:
            axes.set_xscale("log")
        if self.x == "what":
            axes.tick_params(axis="x", rotation=60)
        if self.log:
            axes.set_yscale("log")
        if self.level is not None:
            axes.axhline(self.level, color="#333333", linewidth=1, linestyle=":")
        axes.set_xlabel(TITLES.get(self.x, self.x) if self.x_label is None else self.x_label)
        axes.grid(alpha=0.3)


@dataclass(frozen=True)
class Panels:
    """Draws several columns over one, each in a panel, with a line for each technique."""

    x: str
    shown: Mapping[str, str]
    """The title of each column."""

    def __call__(self, rows: Rows) -> Figure:
        """Return the figure of some rows."""
        figure, grid = panels(len(self.shown), shared=False)
        for axes, (column, title) in zip(grid, self.shown.items(), strict=True):
            for technique in _different(row["technique"] for row in rows):
                points = pick(rows, technique=technique)
                axes.plot(*_points(points, self.x, column, -math.inf), marker=".", label=technique)
            axes.set_title(title)
            axes.set_xlabel(TITLES.get(self.x, self.x))
            axes.grid(alpha=0.3)
        grid[0].legend(fontsize=7)
        return figure


def _points(rows: Rows, x: str, y: str, lowest: float) -> tuple[list[Any], list[float]]:
    return [row[x] for row in rows], [max(float(row[y]), lowest) for row in rows]


def panels(count: int, across: int | None = None, shared: bool = True) -> tuple[Figure, list[Axes]]:
    """Return a figure with this number of axes.

    Args:
        count: of axes.
        across: how many stand in a row; default: as many as fit.
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
