"""Runs the papers' experiments that need no cluster, and checks the claims.

    python -m benchmarks.papers --quick --out build/papers
    python -m benchmarks.papers pkg-table2 dchoices-fig10 --out build/papers
    python -m benchmarks.papers --seeds 5
    python -m benchmarks.papers --page
    python -m benchmarks.papers --draw docs/reference/claims

In full size, everything takes about an hour and a half a seed on one core. An interrupted run continues
where it stopped. --page and --draw run nothing: they read what is kept.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.table import Table

from saltwise import SaltwiseError
from saltwise.cli.terminal import console, progress_bar

from . import claims_page, draw, experiments, reproduce
from .experiment import Experiment
from .lab import FULL, QUICK
from .results import Results

ON_SPARK = Path(__file__).parent.parent / "results"
RESULTS = ON_SPARK / "papers"
PAGE = Path(__file__).parent.parent.parent / "docs" / "reference" / "claims.md"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.papers", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="experiments, such as dchoices-fig10; default: all")
    parser.add_argument("--quick", action="store_true", help="fewer messages and settings: about a minute")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FOLDER", help="the folder of the results")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="run everything with N seeds")
    parser.add_argument("--fresh", action="store_true", help="run again what the folder has already")
    parser.add_argument("--page", action="store_true", help="only write docs/reference/claims.md from the results")
    parser.add_argument("--draw", type=Path, metavar="FOLDER", help="only draw the figures from the results")
    options = parser.parse_args(arguments)
    chosen = experiments(options.names)
    grid = QUICK if options.quick else FULL
    results = Results(options.out, grid.messages)
    if options.draw:
        draw(results, options.draw, chosen)
    if options.page:
        PAGE.write_text(claims_page(results, ON_SPARK), encoding="utf-8")
    if options.draw or options.page:
        return
    screen = console()
    with progress_bar(screen) as progress:
        tasks = {experiment: progress.add_task(experiment.name, start=False, total=None) for experiment in chosen}

        def report(experiment: Experiment, done: int, steps: int) -> None:
            progress.start_task(tasks[experiment])
            progress.update(tasks[experiment], completed=done, total=steps)

        missing = reproduce(options.names, options.out, grid, report, options.seeds, options.fresh)
    table = Table("Experiment", "What", "Claims that hold", box=None)
    for experiment in chosen:
        verdicts = results.verdicts(experiment)
        holding = sum(verdict.holds for verdict in verdicts)
        table.add_row(experiment.name, experiment.title, f"{holding} of {len(verdicts)}")
    screen.print(table)
    if missing:
        sys.exit("\n".join(f"{experiment.name} did not run: {sentence}" for experiment, sentence in missing.items()))


if __name__ == "__main__":
    try:
        main()
    except SaltwiseError as error:
        sys.exit(str(error))
