"""The cells of the grid: what a plan did, the CSV file of all cells, and the makespan of tasks on more cores.

Nothing here needs Spark.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import quantiles

from saltwise.advise.schedule import makespan

CORES = (8, 32, 128, 512)


@dataclass(frozen=True)
class Cell:
    """What one plan did with one kind of aggregate on one kind of skew."""

    part: str
    rows: int
    kind: str
    skew: str
    plan: str
    did: str
    """What ran: `local`, `split`, `online`, or `stock` if Saltwise was off or left the plan alone."""
    rounds: int
    """Number of timed runs."""
    seconds: float
    """Median of the times."""
    ratio: float
    """Median of the time as a multiple of stock Spark's time in the same round."""
    error: float
    """The standard error of `ratio`."""
    bytes_shuffled: int
    records_shuffled: int
    """Rows and states."""
    states_shuffled: int
    largest_task_ms: int
    peak_memory: int
    """The largest of all tasks, in bytes."""
    makespan_8_ms: int
    makespan_32_ms: int
    makespan_128_ms: int
    makespan_512_ms: int
    spark: str
    plugin: str
    """The first digits of the SHA-256 of the jar."""

    @property
    def at(self) -> tuple[str, int, str, str]:
        """The coordinates of the cell, which all plans of one comparison share."""
        return self.part, self.rows, self.kind, self.skew


class Cells:
    """The cells of a CSV file. After each addition the file has all of them. If that fails, it stays as it was.

    Args:
        path: the file. It need not exist.
        fresh: whether the first new cell replaces all cells of the file.

    Raises:
        ValueError: the columns of the file are not those of a cell.
    """

    def __init__(self, path: Path, fresh: bool = False) -> None:
        self.path = path
        self.all = read(path) if path.exists() and not fresh else []

    def add(self, cells: Sequence[Cell]) -> None:
        """Add the plans of one comparison. They replace those that were measured there before."""
        measured = {cell.at for cell in cells}
        self.all = [cell for cell in self.all if cell.at not in measured] + list(cells)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_name(self.path.name + ".part")
        with part.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(asdict(cell) for cell in self.all)
        part.replace(self.path)

    def has(self, at: tuple[str, int, str, str], plans: Iterable[str], rounds: int, plugin: str) -> bool:
        """Return whether all of these plans were measured there, with this plugin and in at least so many rounds."""
        there = [cell for cell in self.all if cell.at == at and cell.plugin == plugin]
        return set(plans) <= {cell.plan for cell in there} and max(cell.rounds for cell in there) >= rounds


COLUMNS = [field.name for field in fields(Cell)]
TYPES = {"int": int, "float": float, "str": str}


def read(path: Path) -> list[Cell]:
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        if reader.fieldnames != COLUMNS:
            raise ValueError(f"{path} has other columns than cells of this version: measure anew, with --fresh.")
        return [
            Cell(**{field.name: TYPES[str(field.type)](row[field.name]) for field in fields(Cell)}) for row in reader
        ]


def standard_error(ratios: Sequence[float]) -> float:
    """Return the standard error of a median, from the middle half of the values; 0 for a single value.

    The values are taken as normal. The middle half of a normal distribution is 1.349 standard deviations wide. The
    median of n values has a standard error of 1.253 standard deviations, divided by sqrt(n).

    >>> round(standard_error([0.9, 1.0, 1.0, 1.1, 1.2]), 3)
    0.042
    """
    if len(ratios) < 2:
        return 0.0
    lower, _, upper = quantiles(ratios, n=4, method="inclusive")
    return 1.253 / 1.349 * (upper - lower) / math.sqrt(len(ratios))


def makespans(stages: Sequence[Sequence[int]]) -> dict[str, int]:
    """Return the makespans of a query, by their names in a cell, from the milliseconds of the tasks of each stage.

    A stage starts when the one before has ended, so the makespan of a query is the sum over its stages.

    >>> makespans([[4] * 16, [30, 1, 1]])
    {'makespan_8_ms': 38, 'makespan_32_ms': 34, 'makespan_128_ms': 34, 'makespan_512_ms': 34}
    """
    return {f"makespan_{cores}_ms": sum(round(1000 * makespan(stage, cores)) for stage in stages) for cores in CORES}
