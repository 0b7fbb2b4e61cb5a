"""Runs those experiments of the papers that need no cluster, and checks the papers' claims.

Nasir et al., "Partial Key Grouping: Load-Balanced Partitioning of Distributed Streams", section 6; Nasir et al., "When
Two Choices Are not Enough: Balancing at Scale in Distributed Stream Processing", sections IV-B and V; Gedik,
"Partitioning functions for stateful data parallelism in stream processing", section 5; Guo and Zhou, "Stateful Load
Balancing for Parallel Stream Processing", section 5; Madsen, Zhou, Cao, "Integrative Dynamic Reconfiguration in a
Parallel Stream Processing Engine", section 5.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from saltwise.errors import SaltwiseError, SaltwiseValueError, check_whole
from saltwise.versioned_json import replace_file

from . import (
    partial_key_grouping,
    partitioning_functions,
    reconfiguration_albic,
    reconfiguration_milp,
    stateful_load_balancing,
    when_two_choices,
)
from .experiment import Claim, Experiment, Outcome
from .lab import FULL, QUICK, Grid, Lab
from .over_seeds import over_seeds
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
    "kept_claims",
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

KEPT = "seeds"
"""The folder of what each seed found."""

RUNS = "runs"
"""The folder of the simulations in it."""


@dataclass(frozen=True)
class Reproduction:
    """The results of a number of experiments."""

    claims: dict[Experiment, list[Claim]]
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
    seeds: int = 1,
    fresh: bool = False,
) -> Reproduction:
    """Run experiments. Write a CSV file and a figure of each, and a page with all claims.

    What each seed found is kept in the folder, with every simulation, so that an interrupted run goes on where it was.

    Args:
        names: of the experiments; an empty list means all.
        out: the folder; it is made if it does not exist.
        grid: the values to vary over.
        report: is called with the experiment that runs, how many of its steps are done, and how many there are.
        seeds: with how many seeds everything runs. The files of numbers and the figures are those of the first.
        fresh: whether to run again what is kept already; all simulations that are kept go first.

    Raises:
        SaltwiseValueError: a name is not that of an experiment, seeds is below 1, or `out` cannot be a folder.

    >>> reproduce(["pkg-fig9"], Path("reproduction"), QUICK)  # doctest: +SKIP
    """
    chosen = experiments(names)
    check_whole("seeds", seeds)
    runs = out / KEPT / RUNS
    try:
        runs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SaltwiseValueError(f"out is {str(out)!r}; it must be a folder that can be written ({error}).") from error
    for old in runs.iterdir() if fresh else ():
        old.unlink()
    claims: dict[Experiment, list[list[Claim]]] = {}
    missing: dict[Experiment, str] = {}
    for seed in range(1, seeds + 1):
        lab = Lab(grid, seed, runs)
        for experiment in chosen:
            kept = out / KEPT / f"{experiment.name}-{seed}.json"
            found = None if fresh else _read(kept, grid)
            if found is None:
                lab.report = partial(report, experiment)
                try:
                    outcome = experiment.run(lab)
                except SaltwiseError as error:
                    missing[experiment] = str(error)
                    continue
                found = outcome.claims
                if seed == 1:
                    _write_csv(outcome, out / f"{experiment.name}.csv")
                    outcome.figure.savefig(out / f"{experiment.name}.png", dpi=100)
                _write(kept, grid, found)
            claims.setdefault(experiment, []).append(found)
    found_by_all = {experiment: over_seeds(claims[experiment]) for experiment in chosen if experiment in claims}
    on_a_cluster = {name: paper.NEEDS_A_CLUSTER for name, paper in PAPERS.items()}
    (out / PAGE).write_text(page(found_by_all, missing, on_a_cluster, grid.messages, seeds=seeds), "utf-8")
    return Reproduction(found_by_all, missing)


def kept_claims(folder: Path, grid: Grid = FULL) -> dict[Experiment, list[list[Claim]]]:
    """Return the claims that :func:`reproduce` kept in a folder, of each seed that it has."""
    found: dict[Experiment, list[list[Claim]]] = {}
    for experiment in EXPERIMENTS.values():
        files = sorted((folder / KEPT).glob(f"{experiment.name}-*.json"))
        kept = [claims for file in files if (claims := _read(file, grid)) is not None]
        if kept:
            found[experiment] = kept
    return found


def _write_csv(outcome: Outcome, path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(outcome.rows[0]))
        writer.writeheader()
        writer.writerows(outcome.rows)


def _write(path: Path, grid: Grid, claims: Sequence[Claim]) -> None:
    """Keep the claims of one seed, as a whole file or not at all."""
    replace_file(path, json.dumps({"grid": asdict(grid), "claims": [asdict(each) for each in claims]}, indent=1))


def _read(path: Path, grid: Grid) -> list[Claim] | None:
    """Return the claims that were kept, or None if there are none of this grid."""
    if not path.exists():
        return None
    kept = json.loads(path.read_text("utf-8"))
    if kept["grid"] != json.loads(json.dumps(asdict(grid))):
        return None
    return [Claim(**claim | {"seeds": tuple(claim["seeds"])}) for claim in kept["claims"]]
