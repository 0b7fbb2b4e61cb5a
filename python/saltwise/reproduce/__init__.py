"""Runs those experiments of the papers that need no cluster, and checks the papers' claims.

Nasir et al., "Partial Key Grouping: Load-Balanced Partitioning of Distributed Streams", section 6; Nasir et al., "When
Two Choices Are not Enough: Balancing at Scale in Distributed Stream Processing", sections IV-B and V; Gedik,
"Partitioning functions for stateful data parallelism in stream processing", section 5; Guo and Zhou, "Stateful Load
Balancing for Parallel Stream Processing", section 5; Madsen, Zhou, Cao, "Integrative Dynamic Reconfiguration in a
Parallel Stream Processing Engine", section 5.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import SaltwiseError, SaltwiseValueError
from . import (
    partial_key_grouping,
    partitioning_functions,
    reconfiguration_albic,
    reconfiguration_milp,
    stateful_load_balancing,
    when_two_choices,
)
from .experiment import Claim, Experiment, Outcome
from .lab import FULL, QUICK, STAND_INS, Grid, Lab
from .page import page

__all__ = [
    "EXPERIMENTS",
    "FULL",
    "PAGE",
    "PAPERS",
    "QUICK",
    "Claim",
    "Experiment",
    "Grid",
    "Outcome",
    "Reproduction",
    "experiments",
    "reproduce",
]

PAPERS: dict[str, Any] = {
    "pkg": partial_key_grouping,
    "dchoices": when_two_choices,
    "gedik": partitioning_functions,
    "elb": stateful_load_balancing,
    "milp": reconfiguration_milp,
    "albic": reconfiguration_albic,
}
"""The module of each paper, by its short name."""

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment for paper in PAPERS.values() for experiment in paper.EXPERIMENTS
}
"""Every experiment by its name."""

PAGE = "claims.md"
"""The file of the page."""


@dataclass(frozen=True)
class Reproduction:
    """The results of a number of experiments."""

    outcomes: dict[Experiment, Outcome]
    missing: dict[Experiment, str]
    """The experiments whose data is missing on this machine, and the sentence that says so."""


def experiments(names: Sequence[str]) -> list[Experiment]:
    """Return the experiments of these names, in the papers' order; all of them if there are no names.

    Raises:
        SaltwiseValueError: a name is not that of an experiment.

    >>> [experiment.title for experiment in experiments(["pkg-fig9"])]
    ['Number of choices']
    """
    for name in names:
        if name not in EXPERIMENTS:
            raise SaltwiseValueError.unknown("experiment", name, EXPERIMENTS)
    return [experiment for name, experiment in EXPERIMENTS.items() if not names or name in names]


def reproduce(
    names: Sequence[str],
    out: Path,
    grid: Grid = FULL,
    report: Callable[[Experiment, int, int], None] = lambda experiment, done, steps: None,
) -> Reproduction:
    """Run experiments. Write a CSV file and a figure of each, and a page with all claims.

    Args:
        names: of the experiments; an empty list means all.
        out: the folder; it is made if it does not exist.
        grid: the values to vary over.
        report: is called with the experiment that runs, how many of its steps are done, and how many there are.

    Raises:
        SaltwiseValueError: a name is not that of an experiment, or `out` cannot be a folder.

    >>> reproduce(["pkg-fig9"], Path("reproduction"), QUICK)  # doctest: +SKIP
    """
    chosen = experiments(names)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SaltwiseValueError(f"out is {str(out)!r}; it must be a folder that can be written ({error}).") from error
    found = Reproduction({}, {})
    lab = Lab(grid)
    for experiment in chosen:
        lab.report = partial(report, experiment)
        try:
            outcome = experiment.run(lab)
        except SaltwiseError as error:
            found.missing[experiment] = str(error)
            continue
        found.outcomes[experiment] = outcome
        _write_csv(outcome, out / f"{experiment.name}.csv")
        outcome.figure.savefig(out / f"{experiment.name}.png", dpi=100)
    on_a_cluster = {name: paper.NEEDS_A_CLUSTER for name, paper in PAPERS.items()}
    (out / PAGE).write_text(page(found.outcomes, found.missing, on_a_cluster, STAND_INS, grid.messages), "utf-8")
    return found


def _write_csv(outcome: Outcome, path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(outcome.rows[0]))
        writer.writeheader()
        writer.writerows(outcome.rows)
