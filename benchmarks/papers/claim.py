"""A claim of a paper as data: what the paper says, how it is measured on the rows of an experiment, and the bound.

The claims stand in the TOML files of this folder. :mod:`.check` reads how they are measured. :func:`judge` evaluates
any claim, and phrases what was found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tomllib

from .check import Check, Own, parse
from .rows import Rows

_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?")


@dataclass(frozen=True)
class Claim:
    """A claim of a paper. Without checks, it needs a cluster."""

    where: str
    """The paper's section or figure."""
    says: str
    """What the paper says, in our words."""
    checks: Sequence[Check] = ()
    why: str = ""
    """Why it does not hold, where it does not."""
    note: str = ""
    """A remark, whether it holds or not."""
    cannot: str = ""
    """Other numbers or equations of the same paper that rule it out."""
    draws: str = ""
    """What counts as a draw. Nothing: all rows are one. `runs`: each run of the experiment. `numbers`: each number.
    `all`: the rows of all runs are looked at together, as one draw."""


@dataclass(frozen=True)
class Verdict:
    """What came out for a claim."""

    claim: Claim
    found: str
    held: int
    """The number of draws in which it held."""
    tried: int

    @property
    def holds(self) -> bool:
        """Whether it held in most draws."""
        return 2 * self.held > self.tried

    @property
    def by_the_draw(self) -> bool:
        """Whether it does not hold, but does in one draw of twenty or more: what the paper saw is within our spread."""
        return not self.holds and 20 * self.held >= self.tried

    @property
    def ruled_out(self) -> bool:
        """Whether it does not hold, and cannot by the paper's own numbers."""
        return not self.holds and bool(self.claim.cannot)

    @property
    def why(self) -> str:
        """A note, or why it does not hold."""
        if self.ruled_out:
            return self.claim.cannot
        return self.claim.note or ("" if self.holds else self.claim.why)


def judge(claim: Claim, rows: Rows, runs: Sequence[Rows] = ()) -> Verdict:
    """Judge a claim by the rows of an experiment, and by those of each of its runs if it has several."""
    together = [row for run in runs for row in run] if "all" in claim.draws else rows
    answers: list[bool] = []
    for some in runs if "runs" in claim.draws else [together]:
        met = [[bool(answer) for answer in check.meets(check.measure(some))] for check in claim.checks]
        answers += map(all, zip(*met, strict=True)) if "numbers" in claim.draws else [all(map(all, met))]
    found = "; ".join(check.phrase(together) for check in claim.checks)
    return Verdict(claim, found, sum(answers), len(answers))


def over_seeds(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict of several seeds on one claim: draws are added, and numbers become ranges.

    >>> claim = Claim("Q1", "low")
    >>> over_seeds([Verdict(claim, "at most 0.1", 1, 1), Verdict(claim, "at most 0.3", 0, 1)]).found
    'at most 0.1…0.3'
    """
    held, tried = sum(each.held for each in verdicts), sum(each.tried for each in verdicts)
    typical = next((each for each in verdicts if each.holds == (2 * held > tried)), verdicts[0])
    return replace(typical, found=ranges([each.found for each in verdicts], typical.found), held=held, tried=tried)


def ranges(texts: Sequence[str], typical: str) -> str:
    """Return a text in which numbers that differ are ranges; `typical` where the texts differ in their words.

    >>> ranges(["5 of 9 at 1.5e-03", "5 of 9 at 2.0e-03"], "")
    '5 of 9 at 1.5e-03…2.0e-03'
    """
    if len({_NUMBER.sub("#", text) for text in texts}) > 1:
        return f"{typical} (one of {len(texts)} seeds)"
    columns = zip(*(_NUMBER.findall(text) for text in texts), strict=True)
    parts = iter([_range(column) for column in columns])
    return _NUMBER.sub(lambda _: next(parts), texts[0])


def _range(numbers: Sequence[str]) -> str:
    low, high = (choose(numbers, key=lambda text: float(text.replace(",", ""))) for choose in (min, max))
    return low if float(low.replace(",", "")) == float(high.replace(",", "")) else f"{low}…{high}"


def claims(paper: str, own: Mapping[str, Own] | None = None) -> dict[str, list[Claim]]:
    """Return the claims of a paper, by experiment. A table may be of several: `["milp-fig2, milp-fig3"]`.

    Args:
        paper: the name of the TOML file, without its ending.
        own: what the checks of this paper may name beside the common vocabulary.
    """
    tables = tomllib.loads((Path(__file__).parent / f"{paper}.toml").read_text("utf-8"))
    found: dict[str, list[Claim]] = {}
    for names, of_experiments in tables.items():
        for name in names.split(", "):
            found.setdefault(name, []).extend(_claim(table, name, own or {}) for table in of_experiments)
    return found


def _claim(table: dict[str, Any], experiment: str, own: Mapping[str, Own]) -> Claim:
    where = table["where"].format(number=experiment.rpartition("fig")[2])
    return Claim(**table | {"where": where, "checks": [parse(text, own) for text in table.get("checks", ())]})
