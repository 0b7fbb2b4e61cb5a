"""Runs those experiments of the papers that need no cluster, and checks the papers' claims.

Nasir et al., "Partial Key Grouping: Load-Balanced Partitioning of Distributed Streams", section 6; Nasir et al., "When
Two Choices Are not Enough: Balancing at Scale in Distributed Stream Processing", sections IV-B and V; Gedik,
"Partitioning functions for stateful data parallelism in stream processing", section 5; Guo and Zhou, "Stateful Load
Balancing for Parallel Stream Processing", section 5; Madsen, Zhou, Cao, "Integrative Dynamic Reconfiguration in a
Parallel Stream Processing Engine", section 5.

Each paper has a module, which measures and draws, and a TOML file with its claims.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from saltwise.errors import SaltwiseError, SaltwiseValueError, check_whole

from . import (
    partial_key_grouping,
    partitioning_functions,
    reconfiguration_albic,
    reconfiguration_milp,
    stateful_load_balancing,
    when_two_choices,
)
from .claim import Verdict, judge
from .experiment import Experiment, Paper
from .lab import FULL, Grid, Lab
from .page import page
from .results import Results, read

PAPERS: list[Paper] = [
    partial_key_grouping.PAPER,
    when_two_choices.PAPER,
    partitioning_functions.PAPER,
    stateful_load_balancing.PAPER,
    reconfiguration_milp.PAPER,
    reconfiguration_albic.PAPER,
]
EXPERIMENTS: dict[str, Experiment] = {e.name: e for paper in PAPERS for e in paper.experiments}
"""Every experiment by its name."""

ON_SPARK = {
    "pkg": "periods.csv",
    "dchoices": "waiting.csv",
    "elb": "papers_on_spark.csv",
    "milp": "papers_on_spark.csv",
}
"""What was measured on Spark for each paper, each by the benchmark of its name."""

_LEAD = (
    "Made by `python -m benchmarks.papers --page` from committed results: simulations by `make papers`, an hour and a "
    "half for each seed on one core; and on Spark `python benchmarks/waiting.py`, `periods.py` and "
    "`papers_on_spark.py`. Where *What came out* begins with a check, `benchmarks/papers/check.py` says how it is read."
)


def experiments(names: Sequence[str] = ()) -> list[Experiment]:
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
) -> dict[Experiment, str]:
    """Run experiments, and keep their rows and what each seed found. An interrupted run continues where it stopped.

    Args:
        names: of the experiments; an empty list means all.
        out: the folder; it is made if it does not exist.
        grid: the values to vary over.
        report: is called with the experiment that runs, how many of its steps are done, and how many there are.
        seeds: with how many seeds everything runs. The rows are those of the first.
        fresh: whether to run again what is kept already; all simulations that are kept go first.

    Returns:
        The experiments whose data is missing on this machine, and the sentence that says so.

    Raises:
        SaltwiseValueError: a name is not that of an experiment, seeds is below 1, or `out` cannot be a folder.
    """
    chosen = experiments(names)
    check_whole("seeds", seeds)
    runs = out / "runs"
    try:
        runs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SaltwiseValueError(f"out is {str(out)!r}; it must be a folder that can be written ({error}).") from error
    for old in runs.iterdir() if fresh else ():
        old.unlink()
    results = Results(out, grid.messages)
    missing: dict[Experiment, str] = {}
    for seed in range(1, seeds + 1):
        lab = Lab(grid, seed, runs)
        for experiment in chosen:
            if seed in results.seeds(experiment) and not fresh:
                continue
            lab.report = partial(report, experiment)
            try:
                outcome = experiment.run(lab)
            except SaltwiseError as error:
                missing[experiment] = str(error)
                continue
            if seed == 1:
                results.keep_rows(experiment, outcome.rows)
            results.keep_verdicts(experiment, seed, experiment.verdicts(outcome))
    return missing


def draw(results: Results, folder: Path, chosen: Sequence[Experiment]) -> None:
    """Draw the figures of experiments from their rows."""
    folder.mkdir(parents=True, exist_ok=True)
    for experiment in chosen:
        if rows := results.rows(experiment):
            experiment.draw(rows).savefig(folder / f"{experiment.name}.png", dpi=100)


def claims_page(results: Results, on_spark: Path) -> str:
    """Return the page of all claims.

    Args:
        results: of the simulations.
        on_spark: the folder of what was measured on Spark.
    """
    found = {e: verdicts for e in EXPERIMENTS.values() if (verdicts := results.verdicts(e))}
    return page(
        PAPERS,
        found,
        {paper: verdicts for paper in PAPERS if (verdicts := _on_spark(paper, on_spark))},
        results.messages,
        min((len(results.seeds(experiment)) for experiment in found), default=1),
        _LEAD,
    )


def _on_spark(paper: Paper, folder: Path) -> list[Verdict]:
    rows = read(folder / ON_SPARK[paper.name]) if paper.name in ON_SPARK else []
    return [judge(claim, rows) for claim in paper.on_spark] if rows else []
