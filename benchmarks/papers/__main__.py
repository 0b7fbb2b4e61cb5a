"""Runs the papers' experiments that need no cluster, and checks the claims.

    python -m benchmarks.papers --quick --out build/papers
    python -m benchmarks.papers pkg-table2 dchoices-fig10 --out figures
    python -m benchmarks.papers --seeds 5

In full size, everything takes about an hour and a half a seed on one core. An interrupted run continues
where it stopped.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.table import Table

from saltwise import SaltwiseError
from saltwise.cli.terminal import console, progress_bar

from . import FULL, PAGE, QUICK, Experiment, experiments, reproduce

RESULTS = Path(__file__).parent.parent / "results" / "papers"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.papers", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="experiments, such as dchoices-fig10; default: all")
    parser.add_argument("--quick", action="store_true", help="fewer messages and settings: about a minute")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FOLDER", help="the folder to write to")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="run everything with N seeds")
    parser.add_argument("--fresh", action="store_true", help="run again what the folder has already")
    options = parser.parse_args()
    screen = console()
    with progress_bar(screen) as progress:
        tasks = {e: progress.add_task(e.name, start=False, total=None) for e in experiments(options.names)}

        def report(experiment: Experiment, done: int, steps: int) -> None:
            progress.start_task(tasks[experiment])
            progress.update(tasks[experiment], completed=done, total=steps)

        grid = QUICK if options.quick else FULL
        results = reproduce(options.names, options.out, grid, report, options.seeds, options.fresh)
    table = Table("Experiment", "What", "Claims that hold", box=None)
    for experiment, claims in results.claims.items():
        holding = sum(claim.holds is True for claim in claims)
        table.add_row(experiment.name, experiment.title, f"{holding} of {len(claims)}")
    screen.print(table)
    screen.print(f"Page: {options.out / PAGE}", highlight=False, soft_wrap=True)
    if results.missing:
        sys.exit("\n".join(f"{each.name} did not run: {sentence}" for each, sentence in results.missing.items()))


if __name__ == "__main__":
    try:
        main()
    except SaltwiseError as error:
        sys.exit(str(error))
