"""Results as CSV files: the rows of the experiments, a file for each paper, and one of what each seed found."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from saltwise.versioned_json import replace_file

from .check import value
from .claim import Verdict, over_seeds
from .experiment import Experiment
from .rows import Row, Rows, pick

VERDICTS = "claims.csv"
COLUMNS = ("experiment", "where", "says", "messages", "seed", "tried", "held", "found")


@dataclass(frozen=True)
class Results:
    """A folder with results."""

    folder: Path
    messages: int
    """The size of the streams. Verdicts of other sizes are no results."""

    def rows(self, experiment: Experiment) -> Rows:
        """Return the rows of an experiment, with the first seed; none if it has not run."""
        return [_without_blanks(row) for row in read(self._file(experiment), experiment.name)]

    def keep_rows(self, experiment: Experiment, rows: Rows) -> None:
        """Replace the rows of an experiment."""
        others = [row for row in read(self._file(experiment)) if row["experiment"] != experiment.name]
        both = [*others, *({"experiment": experiment.name, **row} for row in rows)]
        _write(self._file(experiment), both, list(dict.fromkeys(name for row in both for name in row)))

    def seeds(self, experiment: Experiment) -> list[int]:
        """Return the seeds with which an experiment has run."""
        return sorted({row["seed"] for row in self._kept(experiment)})

    def keep_verdicts(self, experiment: Experiment, seed: int, verdicts: Sequence[Verdict]) -> None:
        """Replace what a seed found."""
        of_seed = {"experiment": experiment.name, "seed": seed}
        others = [row for row in read(self.folder / VERDICTS) if of_seed.items() - row.items()]
        found = [
            of_seed
            | {"where": v.claim.where, "says": v.claim.says, "messages": self.messages}
            | {"tried": v.tried, "held": v.held, "found": v.found}
            for v in verdicts
        ]
        _write(self.folder / VERDICTS, [*others, *found], COLUMNS)

    def verdicts(self, experiment: Experiment) -> list[Verdict]:
        """Return the verdicts over all seeds, of the claims that were judged."""
        kept = self._kept(experiment)
        judged = [
            [Verdict(claim, str(row["found"]), row["held"], row["tried"]) for row in of_claim]
            for claim in experiment.claims
            if (of_claim := pick(kept, where=claim.where, says=claim.says))
        ]
        return [over_seeds(of_claim) for of_claim in judged]

    def _kept(self, experiment: Experiment) -> list[Row]:
        return pick(read(self.folder / VERDICTS, experiment.name), messages=self.messages)

    def _file(self, experiment: Experiment) -> Path:
        return self.folder / f"{experiment.name.split('-')[0]}.csv"


def read(path: Path, experiment: str | None = None) -> list[Row]:
    """Return the rows of a CSV file, or those of an experiment, with numbers as numbers; none if there is no file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if experiment in (None, row.get("experiment"))]
    return [{name: _parsed(name, text) for name, text in row.items()} for row in rows]


def _parsed(column: str, text: str) -> object:
    return text if column in ("where", "says", "found") else value(text)


def _without_blanks(row: Row) -> Row:
    return {name: each for name, each in row.items() if each != "" and name != "experiment"}


def _write(path: Path, rows: Iterable[Row], columns: Sequence[str]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    replace_file(path, text.getvalue())
