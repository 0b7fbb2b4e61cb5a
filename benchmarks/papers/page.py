"""The page that lists, claim by claim, what a paper says and what we found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from .claim import Claim, Verdict
from .experiment import Experiment, Paper
from .lab import STAND_INS

_SEEDS = " Every simulation ran with {} seeds, and a…b is the range over them."
_DRAWS = (
    "Some claims are judged several times: with each seed, each hash, or each setting of a figure. *Yes, with 3 of 5* "
    "is one that holds with most of them. *By the draw, with 1 of 5* is one that does not, but in at least one of "
    "twenty: the paper drew once, and what it saw is within the spread of ours."
)
_HEADER = "| Where | What the paper says | What came out | Run by | Holds | Why |\n|---|---|---|---|---|---|"


def page(
    papers: Sequence[Paper],
    found: Mapping[Experiment, Sequence[Verdict]],
    on_spark: Mapping[Paper, Sequence[Verdict]],
    messages: int,
    seeds: int = 1,
    lead: str = "",
) -> str:
    """Return the page as Markdown.

    Args:
        papers: in order.
        found: the verdicts of each experiment that has results.
        on_spark: the verdicts of each paper that has results on Spark.
        messages: m of the synthetic streams.
        seeds: with how many each experiment ran.
        lead: a first paragraph, which says where the results are from.
    """
    verdicts = [verdict for each in (*found.values(), *on_spark.values()) for verdict in each]
    held = sum(verdict.holds for verdict in verdicts)
    ruled_out = sum(verdict.ruled_out for verdict in verdicts)
    by_the_draw = sum(verdict.by_the_draw and not verdict.ruled_out for verdict in verdicts)
    decided, tried = held + ruled_out, max(1, len(verdicts))
    parts = [
        "# The papers' claims, one by one",
        *([lead] if lead else []),
        f"Of {len(verdicts)} claims that were tried, {held} hold, {ruled_out} cannot, by other numbers or equations of "
        f"their paper ({decided / tried:.1%} together), {by_the_draw} hold or not by the draw "
        f"({(decided + by_the_draw) / tried:.1%} with these), and {len(verdicts) - decided - by_the_draw} do not. "
        f"Synthetic streams have m = {messages:,} messages (the papers: up to ten million). Imbalance is (max load - "
        "mean load) as a share of the messages so far: in the mean over 100 samples in time, but at the end of the "
        "stream for partial key grouping, apart from its figure 5." + (_SEEDS.format(seeds) if seeds > 1 else ""),
        _DRAWS,
        "The data sets that are not public have stand-ins, and claims about them are claims about these:",
        "\n".join(f"* **{_plain(name)}**: {what}" for name, what in STAND_INS.items()),
    ]
    for paper in papers:
        shown = [experiment for experiment in paper.experiments if experiment in found]
        if shown or paper in on_spark:
            parts.append(f"## {paper.title}")
        for experiment in shown:
            parts += [
                f"### {experiment.title} ({experiment.name})",
                f"![{experiment.title}](claims/{experiment.name}.png)",
                f"Made by `{made_by(experiment)}`.",
                _section(experiment.name, table(found[experiment], "simulation")),
            ]
        if paper in on_spark:
            parts += ["### On Spark", _section(f"{paper.name}-on-spark", table(on_spark[paper], "Spark"))]
        if paper.needs_a_cluster and (shown or paper in on_spark):
            parts += ["### What needs a cluster", untried(paper.needs_a_cluster)]
    return "\n\n".join(parts) + "\n"


def table(verdicts: Sequence[Verdict], run_by: str) -> str:
    """Return a table of verdicts.

    Args:
        verdicts: its rows.
        run_by: what ran them: a simulation, or Spark.
    """
    return "\n".join([_HEADER, *(_line(v.claim, v.found, run_by, _holds(v), v.why) for v in verdicts)])


def untried(claims: Sequence[Claim]) -> str:
    """Return a table of claims that nobody here can judge."""
    lines = (_line(claim, "not measured", "nobody here", "needs a cluster", claim.why) for claim in claims)
    return "\n".join([_HEADER, *lines])


def made_by(experiment: Experiment) -> str:
    """Return the name of the function that makes an experiment."""
    run = experiment.run.func if isinstance(experiment.run, partial) else experiment.run
    return f"{run.__module__}.{run.__qualname__}"


def _section(name: str, text: str) -> str:
    """Mark a part of the page that other pages include."""
    return f"<!-- --8<-- [start:{name}] -->\n\n{text}\n\n<!-- --8<-- [end:{name}] -->"


def _line(claim: Claim, found: str, run_by: str, holds: str, why: str) -> str:
    cells = (_plain(claim.where), _plain(claim.says), _plain(found), run_by, holds, _plain(why))
    return "| " + " | ".join(cells) + " |"


def _holds(verdict: Verdict) -> str:
    if verdict.ruled_out:
        word = "cannot"
    elif verdict.by_the_draw:
        word = "by the draw"
    else:
        word = "yes" if verdict.holds else "**no**"
    return f"{word}, with {verdict.held} of {verdict.tried}" if 0 < verdict.held < verdict.tried else word


def _plain(text: str) -> str:
    """Return a text in which no character of it is Markdown's."""
    return text.replace("|", "\\|").replace("*", "\\*")
