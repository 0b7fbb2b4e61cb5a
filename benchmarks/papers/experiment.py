"""A paper and its experiments: how each table or figure is measured and drawn, and what the paper claims of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .check import Own
from .claim import Claim, Verdict, claims, judge
from .rows import Row, Rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .lab import Lab


@dataclass(frozen=True)
class Outcome:
    """What an experiment measured."""

    rows: list[Row]
    runs: Sequence[list[Row]] = ()
    """The rows of each run by itself, if the rows are means over several."""


@dataclass(frozen=True, eq=False)
class Experiment:
    """One table or figure of a paper."""

    name: str
    """The paper's short name and the figure's number, such as dchoices-fig10."""
    title: str
    run: Callable[[Lab], Outcome]
    draw: Callable[[Rows], Figure]
    claims: Sequence[Claim]

    def verdicts(self, outcome: Outcome) -> list[Verdict]:
        """Judge each claim."""
        return [judge(claim, outcome.rows, outcome.runs) for claim in self.claims]


@dataclass(frozen=True, eq=False)
class Paper:
    """A paper, or a part of one."""

    name: str
    title: str
    experiments: Sequence[Experiment]
    on_spark: Sequence[Claim]
    """What is judged by a benchmark on Spark."""
    needs_a_cluster: Sequence[Claim]
    """What needs a real Storm, and nobody here has judged."""


Measured = tuple[str, str, Callable[["Lab"], Outcome], Callable[[Rows], "Figure"]]
"""Name, title, run and draw of an experiment."""


def paper(name: str, title: str, own: Mapping[str, Own], *measured: Measured) -> Paper:
    """Return a paper with the claims of its TOML file.

    Args:
        name: its short name, and that of the file.
        title: of the paper.
        own: what its checks may name beside the common vocabulary.
        measured: the experiments, in order.
    """
    found = claims(name, own)
    experiments = [Experiment(*each, found.pop(each[0])) for each in measured]
    rest = Paper(name, title, experiments, found.pop("on-spark", []), found.pop("needs-a-cluster", []))
    if found:
        raise ValueError(f"{name}.toml has claims of unknown experiments: {', '.join(found)}.")
    return rest
