"""What a plan did in a cell of the grid, how cells are kept in a CSV file, and what tasks would take on more cores.

Nothing here needs Spark.
"""

from __future__ import annotations

import csv
import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import quantiles

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
    """What ran: `local`, `split`, `online`, or `stock` where Saltwise left the plan alone or was not asked."""
    rounds: int
    """How often it was timed."""
    seconds: float
    """The median."""
    ratio: float
    """To stock Spark's time in the same round: the median."""
    error: float
    """The standard error of `ratio`."""
    bytes_shuffled: int
    records_shuffled: int
    """Rows and states."""
    states_shuffled: int
    largest_task_ms: int
    peak_memory: int
    """Of a task, in bytes."""
    makespan_8_ms: int
    makespan_32_ms: int
    makespan_128_ms: int
    makespan_512_ms: int
    spark: str
    plugin: str
    """The first digits of the SHA-256 of the jar."""

    @property
    def at(self) -> tuple[str, int, str, str]:
        """What the plans of one comparison share."""
        return self.part, self.rows, self.kind, self.skew


class Cells:
    """The cells of a CSV file; after each addition the file holds all of them, or, where that fails, those of before.

    Args:
        path: the file; it need not exist.
        fresh: forget what it holds, once there is a new cell.

    Raises:
        ValueError: the file has other columns than cells have.
    """

    def __init__(self, path: Path, fresh: bool = False) -> None:
        self.path = path
        self.all = read(path) if path.exists() and not fresh else []

    def add(self, cells: Sequence[Cell]) -> None:
        """Add the plans of one comparison, in place of those that were measured there before."""
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
        """Whether all of these plans were measured there, in no fewer rounds, with this plugin."""
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
    """Return the standard error of a median, from the middle half of the values, as if they were normal; 0 of one.

    The middle half of a normal distribution is 1.349 standard deviations wide, and the median of n values has a
    standard error of 1.253 of them by sqrt(n).

    >>> round(standard_error([0.9, 1.0, 1.0, 1.1, 1.2]), 3)
    0.042
    """
    if len(ratios) < 2:
        return 0.0
    lower, _, upper = quantiles(ratios, n=4, method="inclusive")
    return 1.253 / 1.349 * (upper - lower) / math.sqrt(len(ratios))


def makespans(stages: Sequence[Sequence[int]]) -> dict[str, int]:
    """Return the makespans of a query by their names in a cell, from the milliseconds of the tasks of its stages.

    >>> makespans([[4] * 16, [30, 1, 1]])
    {'makespan_8_ms': 38, 'makespan_32_ms': 34, 'makespan_128_ms': 34, 'makespan_512_ms': 34}
    """
    return {f"makespan_{cores}_ms": sum(makespan(stage, cores) for stage in stages) for cores in CORES}


def makespan(tasks: Sequence[int], cores: int) -> int:
    """Return when the last task of a stage ends, if each starts, in order, on the core that is free first.

    List scheduling (Graham, 1966), which is what Spark does with the tasks of a stage. Stages are taken as barriers, so
    the makespan of a query is the sum of those of its stages.

    >>> makespan([3, 3, 3], cores=2)
    6
    """
    free = [0] * cores
    for milliseconds in tasks:
        heapq.heapreplace(free, free[0] + milliseconds)
    return max(free)
