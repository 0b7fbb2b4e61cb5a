"""Draws bars, before and after: the rows that each worker received, or the seconds of each task."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

from .._optional import required_by
from ..errors import SaltwiseValueError
from ..versioned_json import replace_file

if TYPE_CHECKING:
    from pathlib import Path

    from ..spark.reports.loads import WorkerLoads

_COLOURS = ("#c8553d", "#2a6f97")
"""Before, and after."""


def check_can_draw(path: Path) -> None:
    """Raise if :func:`draw_loads` would fail, so that it fails before the queries run.

    Raises:
        OptionalPackageError: matplotlib cannot be imported.
        SaltwiseValueError: the file cannot be written there, or the suffix is not that of a picture format.
    """
    with required_by("The demo", extra="demo"):
        from matplotlib.backend_bases import FigureCanvasBase
    formats = FigureCanvasBase.get_supported_filetypes()
    if path.suffix.removeprefix(".") not in formats:
        raise SaltwiseValueError.unknown("suffix of the picture", path.suffix, [f".{name}" for name in formats])
    if not path.parent.is_dir():
        raise SaltwiseValueError(f"folder of the picture is {str(path.parent)!r}; it must exist.")
    if not os.access(path.parent, os.W_OK):
        raise SaltwiseValueError(f"folder of the picture is {str(path.parent)!r}; it must be writable.")
    if path.is_dir():
        raise SaltwiseValueError(f"picture is {str(path)!r}, which is a folder; it must be a file.")


def draw_loads(loads: Mapping[str, Mapping[str, WorkerLoads[Any]]], path: Path) -> None:
    """Draw the rows of every worker as bars, one row of charts for each query.

    Args:
        loads: of the strategies that are drawn, by title of the query and name.
        path: the file. Its suffix gives the format, such as ``.png`` or ``.svg``.

    Raises:
        SaltwiseError: :func:`check_can_draw` raises it.
    """
    rows = {
        title: {
            f"{name}: the fullest has {load.max_to_mean:.2f} times the mean": load.rows for name, load in each.items()
        }
        for title, each in loads.items()
    }
    _draw(rows, path, title="Rows that each worker received; the dashed line is the mean", unit="rows", bar="worker")


def draw_tasks(stages: Mapping[str, Mapping[str, list[list[int]]]], path: Path) -> None:
    """Draw the seconds of every task as bars, the longest first, one row of charts for each query.

    Args:
        stages: milliseconds of each task by stage, by title of the query and by side.
        path: the file. Its suffix gives the format.

    Raises:
        SaltwiseError: :func:`check_can_draw` raises it.
    """
    tasks = {
        title: {
            f"{side}: the longest task takes {max(millis, default=0) / 1000:.2f} s, all of them "
            f"{sum(millis) / 1000:.1f} s": [each / 1000 for each in sorted(millis, reverse=True)]
            for side, millis in ((side, [task for stage in found for task in stage]) for side, found in each.items())
        }
        for title, each in stages.items()
    }
    _draw(
        tasks,
        path,
        title="Seconds of each task; the dashed line is the mean",
        unit="seconds",
        bar="task, the longest first",
    )


def _draw(panels: Mapping[str, Mapping[str, Sequence[float]]], path: Path, *, title: str, unit: str, bar: str) -> None:
    check_can_draw(path)
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    figure = Figure(figsize=(11, 0.6 + 2.6 * len(panels)), layout="constrained")
    figure.suptitle(title, fontsize=14)
    bands = figure.subfigures(len(panels), 1, squeeze=False)[:, 0]
    for band, (name, sides) in zip(bands, panels.items(), strict=True):
        band.suptitle(name, x=0.01, ha="left", fontsize=11, fontweight="bold")
        charts = band.subplots(1, len(sides), sharey=True)
        for axes, colour, (side, values) in zip(charts, _COLOURS, sides.items(), strict=True):
            axes.bar(range(len(values)), values, width=0.85, color=colour)
            mean = sum(values) / len(values) if values else 0
            axes.axhline(mean, color="#333333", linewidth=1, linestyle=(0, (4, 3)))
            axes.set_title(side, fontsize=10, color=colour, loc="left")
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.4g}"))
            axes.spines[["top", "right"]].set_visible(False)
            axes.tick_params(labelsize=8)
            axes.margins(x=0.01)
            axes.set_xlabel(bar, fontsize=8)
        charts[0].set_ylabel(unit, fontsize=8)
    picture = BytesIO()
    figure.savefig(picture, format=path.suffix.removeprefix("."), dpi=130)
    replace_file(path, picture.getvalue())
