"""Draws the rows that each worker received, by key and with D-Choices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._optional import required_by
from ..errors import SaltwiseValueError
from .demo import AFTER, BEFORE

if TYPE_CHECKING:
    from pathlib import Path

    from .demo import Outcome

_COLOURS = {BEFORE: "#c8553d", AFTER: "#2a6f97"}
_NAMES = {BEFORE: "by key (hash)", AFTER: "with D-Choices"}


def check_can_draw(path: Path) -> None:
    """Raise if :func:`draw_loads` would fail, so that it fails before the queries run.

    Raises:
        OptionalPackageError: matplotlib cannot be imported.
        SaltwiseValueError: the folder does not exist, or the suffix is not that of a picture format.
    """
    with required_by("The demo", extra="demo"):
        from matplotlib.backend_bases import FigureCanvasBase
    formats = FigureCanvasBase.get_supported_filetypes()
    if path.suffix.removeprefix(".") not in formats:
        raise SaltwiseValueError.unknown("suffix of the picture", path.suffix, [f".{name}" for name in formats])
    if not path.parent.is_dir():
        raise SaltwiseValueError(f"folder of the picture is {str(path.parent)!r}; it must exist.")


def draw_loads(outcomes: list[Outcome], path: Path) -> None:
    """Draw the rows of every worker as bars: key grouping beside D-Choices, one row of charts for each query.

    Args:
        outcomes: results of :func:`saltwise.cli.demo.run`.
        path: the file. Its suffix gives the format, such as ``.png`` or ``.svg``.

    Raises:
        SaltwiseError: :func:`check_can_draw` raises it.
    """
    check_can_draw(path)
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    figure = Figure(figsize=(11, 0.6 + 2.6 * len(outcomes)), layout="constrained")
    figure.suptitle("Rows that each worker received; the dashed line is the mean", fontsize=14)
    bands = figure.subfigures(len(outcomes), 1, squeeze=False)[:, 0]
    for band, outcome in zip(bands, outcomes, strict=True):
        band.suptitle(outcome.query.title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        panels = band.subplots(1, 2, sharey=True)
        for axes, strategy in zip(panels, (BEFORE, AFTER), strict=True):
            load = outcome.loads[strategy]
            axes.bar(range(len(load.rows)), load.rows, width=0.85, color=_COLOURS[strategy])
            axes.axhline(load.mean, color="#333333", linewidth=1, linestyle=(0, (4, 3)))
            axes.set_title(
                f"{_NAMES[strategy]}: the fullest has {load.max_to_mean:.2f} times the mean",
                fontsize=10,
                color=_COLOURS[strategy],
                loc="left",
            )
            axes.yaxis.set_major_formatter(FuncFormatter(lambda rows, _: f"{rows:,.0f}"))
            axes.spines[["top", "right"]].set_visible(False)
            axes.tick_params(labelsize=8)
            axes.margins(x=0.01)
            axes.set_xlabel("worker", fontsize=8)
        panels[0].set_ylabel("rows", fontsize=8)
    figure.savefig(path, dpi=130)
